//! Weights as the sums read them: a row for each channel that is made.

use streampool_device::Conv;

use super::Axis;
use super::image::spatial;
use crate::kernels::convert::{Float, Native};
use crate::kernels::split::Shared;
use crate::kernels::strided::address;

/// Rows of weights, those of one row side by side: for each channel that is read, all taps.
pub(super) struct Weights<T: Float> {
    at: Shared<T::Wide>,
    /// From one row to the next.
    pub(super) row: usize,
    /// From one group to the next.
    group: usize,
    /// What they were copied to, unless they lie right as they are.
    _copy: Vec<T::Wide>,
}

/// Rows a multiple of so many bytes apart would lie in the same cache sets.
const CLASH: usize = 4096;

impl<T: Float> Weights<T> {
    /// # Safety
    /// The weights can be read, and are of type `T`.
    pub(super) unsafe fn new(op: &Conv, axes: &[Axis; 3]) -> Self {
        let groups = op.groups;
        let (made, read) = (op.dst.shape()[1] / groups, op.src.shape()[1] / groups);
        let taps: usize = axes.iter().map(|axis| axis.taps.len()).product();
        let length = read * taps;
        let layout = op.weight.layout();
        let lies_right = size_of::<T>() == size_of::<T::Wide>()
            && !op.transposed
            && is_dense(&layout.shape()[1..], &layout.strides()[1..])
            && layout.strides()[0] == length as isize
            && !(length * size_of::<T>()).is_multiple_of(CLASH);
        if lies_right {
            return Weights {
                at: Shared(address(&op.weight)),
                row: length,
                group: made * length,
                _copy: Vec::new(),
            };
        }
        let line = 64 / size_of::<T::Wide>();
        let row = length.next_multiple_of(line) + line;
        let mut copy = vec![T::Wide::from_scalar(0.0.into()); groups * made * row];
        let strides = layout.strides();
        let [z, y, x] = [0, 1, 2].map(|place| spatial(strides, place));
        let from: *const T = address(&op.weight);
        for (number, row) in copy.chunks_exact_mut(row).enumerate() {
            let (group, channel) = (number / made, number % made);
            let mut places = row.iter_mut();
            for other in 0..read {
                let start = match op.transposed {
                    false => number as isize * strides[0] + other as isize * strides[1],
                    true => {
                        (group * read + other) as isize * strides[0] + channel as isize * strides[1]
                    }
                };
                for tz in &axes[0].taps {
                    for ty in &axes[1].taps {
                        for (tx, place) in axes[2].taps.iter().zip(&mut places) {
                            let at = start
                                + tz.number as isize * z
                                + ty.number as isize * y
                                + tx.number as isize * x;
                            // SAFETY: channels and taps are counted by the weights' shape.
                            *place = unsafe { *from.offset(at) }.widen();
                        }
                    }
                }
            }
        }
        Weights {
            at: Shared(copy.as_mut_ptr()),
            row,
            group: made * row,
            _copy: copy,
        }
    }

    /// The first weight of a row of a group.
    pub(super) fn row(&self, group: usize, row: usize) -> *const T::Wide {
        self.at.at((group * self.group + row * self.row) as isize)
    }
}

fn is_dense(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1;
    shape.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || stride == step;
        step *= size as isize;
        fits
    })
}
