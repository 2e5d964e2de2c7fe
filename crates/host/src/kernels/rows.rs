//! Rows in the type they are computed in.

use super::convert::{Float, Native};
use super::real::Real;
use super::scratch::{Count, LINE, with_scratch};
use super::simd::vectorised;

/// Sums that run side by side.
pub(super) const LANES: usize = 32;

/// Rows that are combined pass by pass, so that a row's last steps, each of which waits for the one before, overlap the
/// next one's.
pub(super) const MOST_TOGETHER: usize = 4;

/// How many rows of this length are worth combining so: as many as the nearest cache holds.
pub(super) fn together(length: usize) -> usize {
    const NUMBERS: usize = 2048;
    (NUMBERS / length.max(1)).clamp(1, MOST_TOGETHER)
}

/// Fetches a row into the cache that is read soon: what waits for a row's numbers to be combined does not look that
/// far ahead. There may be none.
#[inline(always)]
pub(super) fn prefetch<T>(from: *const T, length: usize) {
    /// Longer rows are prefetched well enough by the processor.
    const MOST_BYTES: usize = 8 << 10;
    let bytes = length * size_of::<T>();
    if bytes <= MOST_BYTES {
        for offset in (0..bytes).step_by(LINE) {
            fetch(from.cast::<i8>().wrapping_add(offset));
        }
    }
}

/// Fetches a line into the nearest cache, wherever it is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn fetch(line: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: it changes nothing but the cache, and any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
}

/// The same, to the second-level cache: it is not needed at once.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn fetch_later(line: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: it changes nothing but the cache, and any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(line) };
}

/// There is no stable way to say it here.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn fetch(_line: *const i8) {}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn fetch_later(_line: *const i8) {}

/// Calls `f` with scratch for `length` numbers, which may be any.
pub(super) fn with_row<R: Native, Out>(length: usize, f: impl FnOnce(&mut [R]) -> Out) -> Out {
    with_scratch(Count::of(length), |memory: *mut R| {
        // SAFETY: the scratch is initialised, and any bits are a number; it is aligned, has the length, and is this
        // call's alone.
        f(unsafe { std::slice::from_raw_parts_mut(memory, length) })
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
    /// Adds elements `step` apart to the row.
    ///
    /// # Safety
    /// The elements can be read.
    pub(super) unsafe fn add[T: Float](from: *const T, step: isize, row: &mut [T::Wide]) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for (index, value) in row.iter_mut().enumerate() {
                    *value = *value + (*from.add(index)).widen();
                }
            } else {
                for (index, value) in row.iter_mut().enumerate() {
                    *value = *value + (*from.offset(index as isize * step)).widen();
                }
            }
        }
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

/// Sums side by side, each vector of them in one cache line: only then can what was just stored be read at once.
#[repr(align(64))]
struct Lanes<R>([R; LANES]);

/// What the lanes come to, combined in a tree.
#[inline(always)]
fn tree<R: Copy>(lanes: &mut Lanes<R>, merge: impl Fn(R, R) -> R) -> R {
    // Out of registers here, lest the loop before is compiled to suit the order of this one.
    let (fours, _) = std::hint::black_box(lanes).0.as_chunks::<4>();
    let mut halves = [fours[0], fours[1], fours[2], fours[3]];
    for (half, other) in halves.iter_mut().zip(&fours[4..]) {
        for (lane, &other) in half.iter_mut().zip(other) {
            *lane = merge(*lane, other);
        }
    }
    let [mut x, mut y, z, w] = halves;
    for lane in 0..4 {
        x[lane] = merge(x[lane], z[lane]);
        y[lane] = merge(y[lane], w[lane]);
        x[lane] = merge(x[lane], y[lane]);
    }
    let [a, b, c, d] = x;
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
    let mut lanes = Lanes([identity; LANES]);
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.0.iter_mut().zip(chunk) {
            *lane = step(*lane, value);
        }
    }
    for (lane, value) in lanes.0.iter_mut().zip(rest) {
        *lane = step(*lane, value);
    }
    tree(&mut lanes, merge)
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
