//! Constants and arithmetic sequences.

use half::{bf16, f16};
use streampool_device::{Scalar, View};

use super::convert::{Float, Native, Truth, with_native};
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 17;

/// `dst = value`.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn fill(dst: &View, value: Scalar, team: &dyn Team) {
    with_native!(dst.dtype(), T => {
        let walk = Walk::in_memory_order(dst.shape(), [dst.layout().strides()], 0);
        let (to, [step], value) = (Shared(address::<T>(dst)), walk.run_strides(), T::from_scalar(value));
        split(walk.elements(), GRAIN, team, &|range| {
            walk.for_each_run(range, &mut |[offset], length| {
                // SAFETY: the walk stays inside the view, which the caller may write; ranges are disjoint.
                unsafe { fill_run(to.at(offset), step, length, value) };
            });
        });
    });
}

/// `dst[i] = start + i * step`.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn iota(dst: &View, start: Scalar, step: Scalar, team: &dyn Team) {
    with_native!(dst.dtype(), T => {
        let walk = Walk::new(dst.shape(), [dst.layout().strides()]);
        let (to, [stride]) = (Shared(address::<T>(dst)), walk.run_strides());
        let (start, step) = (T::wide(start), T::wide(step));
        split(walk.elements(), GRAIN, team, &|range| {
            let mut index = range.start;
            walk.for_each_run(range, &mut |[offset], length| {
                // SAFETY: as in `fill`.
                unsafe { iota_run::<T>(to.at(offset), stride, length, start, step, index) };
                index += length;
            });
        });
    });
}

vectorised! {
    /// # Safety
    /// The run can be written.
    unsafe fn fill_run[T: Native](to: *mut T, step: isize, length: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<T>>(), length)
                    .fill(std::mem::MaybeUninit::new(value));
            } else {
                for index in 0..length as isize {
                    to.offset(index * step).write(value);
                }
            }
        }
    }
}

vectorised! {
    /// # Safety
    /// The run can be written.
    unsafe fn iota_run[T: Sequence](
        to: *mut T,
        stride: isize,
        length: usize,
        start: T::Wide,
        step: T::Wide,
        first: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if stride == 1 {
                for index in 0..length {
                    to.add(index).write(T::element(start, step, first + index));
                }
            } else {
                for index in 0..length {
                    to.offset(index as isize * stride).write(T::element(start, step, first + index));
                }
            }
        }
    }
}

/// An element of a sequence, computed from its index so that it does not matter where a run begins.
trait Sequence: Native {
    /// What it is computed in.
    type Wide: Copy + Send + Sync;
    fn wide(scalar: Scalar) -> Self::Wide;
    fn element(start: Self::Wide, step: Self::Wide, index: usize) -> Self;
}

macro_rules! sequences {
    ($($type:ty),* => $wide:ty: $element:expr) => {$(
        impl Sequence for $type {
            type Wide = $wide;

            #[inline(always)]
            fn wide(scalar: Scalar) -> $wide {
                <$wide>::from_scalar(scalar)
            }

            #[inline(always)]
            fn element(start: $wide, step: $wide, index: usize) -> $type {
                let element: fn($wide, $wide, usize) -> $type = $element;
                element(start, step, index)
            }
        }
    )*};
}

// An `f32` holds indices up to 2²⁴ only.
sequences!(f32 => f64: |start, step, index| (start + index as f64 * step) as f32);
sequences!(f64 => f64: |start, step, index| start + index as f64 * step);
sequences!(f16 => f64: |start, step, index| Float::narrow((start + index as f64 * step) as f32));
sequences!(bf16 => f64: |start, step, index| Float::narrow((start + index as f64 * step) as f32));
sequences!(i8, u8, i16, u16, i32, u32, i64, u64 => i64: |start, step, index| {
    Native::of_int(start.wrapping_add((index as i64).wrapping_mul(step)))
});
// Never asked for: validation refuses it.
sequences!(Truth => i64: |start, step, index| {
    Truth::new(start.wrapping_add((index as i64).wrapping_mul(step)) != 0)
});
