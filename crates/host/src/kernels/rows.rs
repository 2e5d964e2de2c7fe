//! Rows in the type they are computed in.

use super::convert::Float;
use super::real::Real;
use super::scratch::with_scratch;
use super::simd::vectorised;

/// Sums that run side by side.
const LANES: usize = 32;

/// Calls `f` with scratch for a row of `length` numbers, all zero.
pub(super) fn with_row<R: Real, Out>(length: usize, f: impl FnOnce(&mut [R]) -> Out) -> Out {
    with_scratch(length * size_of::<R>(), |memory| {
        let row: *mut R = memory.cast();
        // SAFETY: the scratch is aligned, has the length, and is this call's alone; it is written before a
        // slice of it is made.
        let row = unsafe {
            (0..length).for_each(|index| row.add(index).write(R::ZERO));
            std::slice::from_raw_parts_mut(row, length)
        };
        f(row)
    })
}

vectorised! {
    /// Fills the row from elements `step` apart.
    ///
    /// # Safety
    /// The elements can be read.
    pub(super) unsafe fn read[T: Float](from: *const T, step: isize, row: &mut [T::Wide]) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for (index, value) in row.iter_mut().enumerate() {
                    *value = (*from.add(index)).widen();
                }
            } else {
                for (index, value) in row.iter_mut().enumerate() {
                    *value = (*from.offset(index as isize * step)).widen();
                }
            }
        }
    }
}

vectorised! {
    /// Stores the row to elements `step` apart.
    ///
    /// # Safety
    /// The elements can be written.
    pub(super) unsafe fn write[T: Float](row: &[T::Wide], to: *mut T, step: isize) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for (index, &value) in row.iter().enumerate() {
                    to.add(index).write(T::narrow(value));
                }
            } else {
                for (index, &value) in row.iter().enumerate() {
                    to.offset(index as isize * step).write(T::narrow(value));
                }
            }
        }
    }
}

/// Combines the row in lanes, and the lanes in a tree.
#[inline(always)]
fn fold<R: Real>(row: &[R], identity: R, step: impl Fn(R, R) -> R, merge: impl Fn(R, R) -> R) -> R {
    let mut lanes = [identity; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, value);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = merge(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The sum of `f` over the row.
#[inline(always)]
pub(super) fn sum_of<R: Real>(row: &[R], f: impl Fn(R) -> R) -> R {
    fold(
        row,
        R::ZERO,
        |sum, value| sum + f(value),
        |left, right| left + right,
    )
}

/// The largest of the row; NaN wins.
#[inline(always)]
pub(super) fn largest<R: Real>(row: &[R]) -> R {
    fold(row, R::NEG_INFINITY, R::larger, R::larger)
}
