//! Softmax and its logarithm.

use streampool_device::{MAX_RANK, View};

use super::convert::{Float, with_float};
use super::real::Real;
use super::rows::{self, largest, sum_of};
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 14;

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
        rows::with_row::<T::Wide, _>(length, |row| {
            walk.for_each_run(range, |offsets, count| {
                for index in 0..count as isize {
                    let from = from.at(offsets[0] + index * between[0]);
                    let to = to.at(offsets[1] + index * between[1]);
                    // SAFETY: the row lies in the views and is read before it is written, in case they are
                    // one; ranges are disjoint.
                    unsafe {
                        rows::read::<T>(from, steps[0], row);
                        softmax::<T::Wide>(row, log);
                        rows::write::<T>(row, to, steps[1]);
                    }
                }
            });
        });
    });
}

vectorised! {
    /// The softmax of a row in place.
    ///
    /// # Safety
    /// None is needed: it is declared so as the other compiled loops are.
    unsafe fn softmax[R: Real](row: &mut [R], log: bool) {
        let top = largest(row);
        if log {
            let sum = sum_of(row, |x| (x - top).exp());
            let shift = sum.ln();
            row.iter_mut().for_each(|x| *x = *x - top - shift);
        } else {
            row.iter_mut().for_each(|x| *x = (*x - top).exp());
            let scale = R::ONE / sum_of(row, |x| x);
            row.iter_mut().for_each(|x| *x = *x * scale);
        }
    }
}
