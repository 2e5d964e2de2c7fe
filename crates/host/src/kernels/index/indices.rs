//! The indices of an op, of either type.

use streampool_device::{DType, View};

use crate::kernels::simd::vectorised;
use crate::kernels::split::Shared;
use crate::kernels::strided::address;

/// Elements that are worth a thread.
pub(super) const GRAIN: usize = 1 << 15;

/// Indices, by the place of the first one.
#[derive(Clone, Copy)]
pub(super) struct Indices {
    first: Shared<u8>,
    size: isize,
    dtype: DType,
}

/// `$body` with `$from` standing for the address of the index at `$at`, of its type.
macro_rules! with_index {
    ($indices:expr, $at:expr, $from:ident => $body:expr) => {{
        let at = $indices.first.at($at * $indices.size);
        match $indices.dtype {
            DType::I32 => {
                let $from = at.cast::<i32>();
                $body
            }
            _ => {
                let $from = at.cast::<i64>();
                $body
            }
        }
    }};
}

impl Indices {
    pub(super) fn new(view: &View) -> Indices {
        let first = match view.dtype() {
            DType::I32 => address::<i32>(view).cast(),
            _ => address::<i64>(view).cast(),
        };
        Indices {
            first: Shared(first),
            size: view.dtype().size() as isize,
            dtype: view.dtype(),
        }
    }

    /// The index at `at`.
    ///
    /// # Safety
    /// It can be read.
    #[inline(always)]
    pub(super) unsafe fn value(&self, at: isize) -> i64 {
        // SAFETY: the caller's promise; the index is of the type.
        unsafe { with_index!(self, at, from => value(from)) }
    }

    /// Whether any of `length` indices from `at` on, `step` apart, is out of range.
    ///
    /// # Safety
    /// They can be read.
    pub(super) unsafe fn any_outside(
        &self,
        at: isize,
        step: isize,
        length: usize,
        size: i64,
    ) -> bool {
        // SAFETY: the caller's promise; the indices are of the type.
        unsafe { with_index!(self, at, from => any_outside(from, step, length, size)) }
    }

    /// Adds to each offset what its index leads to: the first is that of `at`, the others are `step` apart.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub(super) unsafe fn advance(
        &self,
        at: isize,
        step: isize,
        size: i64,
        stride: isize,
        offsets: &mut [isize],
    ) {
        // SAFETY: the caller's promise; the indices are of the type.
        unsafe { with_index!(self, at, from => advance(from, step, size, stride, offsets)) }
    }
}

/// Whether an index of an axis of this size is out of range.
#[inline(always)]
pub(super) fn is_outside(index: i64, size: i64) -> bool {
    index >= size || index < -size
}

/// Negative indices count from the end.
#[inline(always)]
pub(super) fn position(index: i64, size: i64) -> i64 {
    index + (index >> 63 & size)
}

/// # Safety
/// The index can be read.
#[inline(always)]
unsafe fn value<I: Index>(from: *const I) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { *from }.into()
}

/// The type of an index.
trait Index: Copy + Into<i64> {}

impl Index for i32 {}
impl Index for i64 {}

vectorised! {
    /// # Safety
    /// The run can be read.
    unsafe fn any_outside[I: Index](from: *const I, step: isize, length: usize, size: i64) -> bool {
        let mut outside = false;
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for element in 0..length {
                    outside |= is_outside((*from.add(element)).into(), size);
                }
            } else {
                for element in 0..length as isize {
                    outside |= is_outside((*from.offset(element * step)).into(), size);
                }
            }
        }
        outside
    }
}

vectorised! {
    /// # Safety
    /// The run can be read.
    unsafe fn advance[I: Index](
        from: *const I,
        step: isize,
        size: i64,
        stride: isize,
        offsets: &mut [isize],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for (element, offset) in offsets.iter_mut().enumerate() {
                    *offset += position((*from.add(element)).into(), size) as isize * stride;
                }
            } else {
                for (element, offset) in offsets.iter_mut().enumerate() {
                    let index = *from.offset(element as isize * step);
                    *offset += position(index.into(), size) as isize * stride;
                }
            }
        }
    }
}
