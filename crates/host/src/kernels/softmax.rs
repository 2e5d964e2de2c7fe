//! Softmax and its logarithm.

use streampool_device::{MAX_RANK, View};

use super::convert::{Float, with_float};
use super::real::Real;
use super::rows::{self, MOST_TOGETHER, largest, sum_of};
use super::simd::vectorised;
use super::smooth::Smooth;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 13;

/// `dst = softmax(src)` along `axis`, or its logarithm.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(
    src: &View,
    dst: &View,
    axis: usize,
    log: bool,
    team: &dyn Team,
) -> Result<(), String> {
    with_float!(src.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { rows_of::<T>(src, dst, axis, log, team) };
        Ok(())
    })
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn rows_of<T: Float>(src: &View, dst: &View, axis: usize, log: bool, team: &dyn Team) {
    let length = src.shape()[axis];
    let mut shape = [1; MAX_RANK];
    shape[..src.shape().len()].copy_from_slice(src.shape());
    let rank = src.shape().len();
    shape[axis] = 1;
    let strides = [src.layout().strides(), dst.layout().strides()];
    let steps = [strides[0][axis], strides[1][axis]];
    // A run of the walk is a run of rows.
    let walk = Walk::in_memory_order(&shape[..rank], strides, 1);
    let between = walk.run_strides();
    let (from, to) = (Shared(address::<T>(src)), Shared(address::<T>(dst)));
    if length == 0 {
        return;
    }
    split(walk.elements(), GRAIN.div_ceil(length), team, &|range| {
        rows::with_row::<T::Wide, _>(rows::together(length) * length, |scratch| {
            walk.for_each_run(range, &mut |offsets, count| {
                let ends = [from.at(offsets[0]), to.at(offsets[1])];
                // SAFETY: the rows lie in the views, and ranges are disjoint.
                unsafe { softmax::<T>(ends, between, steps, count, length, scratch, log) };
            });
        });
    });
}

vectorised! {
    /// The softmax of `count` rows, which are `between` apart, and their elements `steps`, where they are read
    /// and written, at those `ends`. The scratch is for as many rows of that length as are computed together.
    ///
    /// # Safety
    /// The elements can be read and written. A row may be written where it is read.
    unsafe fn softmax<M>[T: Float](
        ends: [*mut T; 2],
        between: [isize; 2],
        steps: [isize; 2],
        count: usize,
        length: usize,
        scratch: &mut [T::Wide],
        log: bool,
    ) {
        let [from, to] = ends;
        let together = scratch.len() / length;
        for first in (0..count).step_by(together) {
            let indices = || (first..count.min(first + together)).map(|row| row as isize);
            let rows = &mut scratch[..indices().len() * length];
            for (row, index) in rows.chunks_exact_mut(length).zip(indices()) {
                let row_from = |index: isize| from.wrapping_offset(index * between[0]);
                if steps[0] == 1 {
                    rows::prefetch(row_from(index + together as isize), length);
                }
                // SAFETY: the caller's promise.
                unsafe { rows::load::<T>(row_from(index), steps[0], row) };
            }
            // NaN is passed over here: its exponential brings it into the sum.
            let mut tops = [T::Wide::ZERO; MOST_TOGETHER];
            for (row, top) in rows.chunks_exact_mut(length).zip(&mut tops) {
                *top = largest(row);
            }
            let mut sums = [T::Wide::ZERO; MOST_TOGETHER];
            for ((row, &top), sum) in rows.chunks_exact_mut(length).zip(&tops).zip(&mut sums) {
                *sum = sum_of(row, |x| {
                    let exponential = (*x - top).exp_below_zero::<M>();
                    *x = if log { *x - top } else { exponential };
                    exponential
                });
            }
            for ((row, &sum), index) in rows.chunks_exact(length).zip(&sums).zip(indices()) {
                let to = to.wrapping_offset(index * between[1]);
                // SAFETY: the caller's promise.
                unsafe {
                    if log {
                        let shift = sum.ln();
                        rows::store::<T>(row.iter().map(|&x| x - shift), to, steps[1]);
                    } else {
                        let scale = T::Wide::ONE / sum;
                        rows::store::<T>(row.iter().map(|&x| x * scale), to, steps[1]);
                    }
                }
            }
        }
    }
}
