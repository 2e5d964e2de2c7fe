//! Rows in the type they are computed in.

use super::convert::{Float, Native};
use super::real::Real;
use super::scratch::with_scratch;
use super::simd::vectorised;

/// Sums that run side by side.
pub(super) const LANES: usize = 32;

/// Rows that are combined pass by pass, so that a row's last steps, each of which waits for the one before, overlap the
/// next one's.
pub(super) const MOST_TOGETHER: usize = 8;

/// How many rows of this length are worth combining so: as many as the nearest cache holds.
pub(super) fn together(length: usize) -> usize {
    const NUMBERS: usize = 4096;
    (NUMBERS / length.max(1)).clamp(1, MOST_TOGETHER)
}

/// Calls `f` with scratch for `length` numbers, which may be any.
pub(super) fn with_row<R: Native, Out>(length: usize, f: impl FnOnce(&mut [R]) -> Out) -> Out {
    with_scratch(length * size_of::<R>(), |memory| {
        // SAFETY: the scratch is initialised, and any bits are a number; it is aligned, has the length, and is this
        // call's alone.
        f(unsafe { std::slice::from_raw_parts_mut(memory.cast(), length) })
    })
}

/// Fills the row from elements `step` apart.
///
/// # Safety
/// The elements can be read.
#[inline(always)]
pub(super) unsafe fn load<T: Float>(from: *const T, step: isize, row: &mut [T::Wide]) {
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

/// Stores numbers to elements `step` apart.
///
/// # Safety
/// The elements can be written.
#[inline(always)]
pub(super) unsafe fn store<T: Float>(
    numbers: impl Iterator<Item = T::Wide>,
    to: *mut T,
    step: isize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if step == 1 {
            for (index, number) in numbers.enumerate() {
                to.add(index).write(T::narrow(number));
            }
        } else {
            for (index, number) in numbers.enumerate() {
                to.offset(index as isize * step).write(T::narrow(number));
            }
        }
    }
}

vectorised! {
    /// [`load`], for callers that are not compiled for the machine.
    ///
    /// # Safety
    /// The elements can be read.
    pub(super) unsafe fn read[T: Float](from: *const T, step: isize, row: &mut [T::Wide]) {
        // SAFETY: the caller's promise.
        unsafe { load::<T>(from, step, row) };
    }
}

vectorised! {
    /// [`store`], for callers that are not compiled for the machine.
    ///
    /// # Safety
    /// The elements can be written.
    pub(super) unsafe fn write[T: Float](row: &[T::Wide], to: *mut T, step: isize) {
        // SAFETY: the caller's promise.
        unsafe { store::<T>(row.iter().copied(), to, step) };
    }
}

/// What the lanes come to, combined in a tree.
#[inline(always)]
fn tree<R: Copy>(mut lanes: [R; LANES], merge: impl Fn(R, R) -> R) -> R {
    // Out of registers here, lest the loop before is compiled to suit the order of this one.
    let (fours, _) = std::hint::black_box(&mut lanes).as_chunks::<4>();
    let four = |index: usize| fours[index];
    let merged = |x: [R; 4], y: [R; 4]| std::array::from_fn(|lane| merge(x[lane], y[lane]));
    let halves: [[R; 4]; 4] = std::array::from_fn(|index| merged(four(index), four(index + 4)));
    let [a, b, c, d] = merged(merged(halves[0], halves[2]), merged(halves[1], halves[3]));
    merge(merge(a, c), merge(b, d))
}

/// Combines what `step` makes of the row in lanes, and the lanes in a tree.
#[inline(always)]
fn fold<R: Copy>(
    row: &mut [R],
    identity: R,
    step: impl Fn(R, &mut R) -> R,
    merge: impl Fn(R, R) -> R,
) -> R {
    let mut lanes = [identity; LANES];
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, value);
    }
    tree(lanes, merge)
}

/// The sum over the row of what `f` makes of each number, which it may replace.
#[inline(always)]
pub(super) fn sum_of<R: Real>(row: &mut [R], f: impl Fn(&mut R) -> R) -> R {
    fold(
        row,
        R::ZERO,
        |sum, value| sum + f(value),
        |left, right| left + right,
    )
}

/// The largest of the row, of the numbers that are not NaN.
#[inline(always)]
pub(super) fn largest<R: Real>(row: &mut [R]) -> R {
    let larger = |most: R, value: R| if value > most { value } else { most };
    fold(
        row,
        R::NEG_INFINITY,
        |most, value| larger(most, *value),
        larger,
    )
}
