//! Weights as the sums read them.

use streampool_device::{Conv, DType};

use super::Axis;
use super::image::spatial;
use crate::given_up::Steps;
use crate::kernels::convert::Float;
use crate::kernels::matmul::amx::gathered;
use crate::kernels::split::Shared;
use crate::kernels::strided::address;

/// How weights lie in rows: for each channel that is made one, in it for each channel that is read all taps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    made: usize,
    read: usize,
    count: usize,
    /// From one to the next.
    row: usize,
    /// Whether they lie so already.
    in_place: bool,
    /// The weights of one.
    length: usize,
    /// Whether they are packed for the matrix unit besides.
    on_amx: bool,
}

/// Rows a multiple of so many bytes apart would lie in the same cache sets.
const CLASH: usize = 4096;

impl Rows {
    pub(super) fn new<T: Float>(op: &Conv, axes: &[Axis; 3]) -> Self {
        let groups = op.groups;
        let (made, read) = (op.dst.shape()[1] / groups, op.src.shape()[1] / groups);
        let taps: usize = axes.iter().map(|axis| axis.taps.len()).product();
        // What no tap sees is not read.
        let read = if taps == 0 { 0 } else { read };
        let length = read * taps;
        let layout = op.weight.layout();
        let in_place = size_of::<T>() == size_of::<T::Wide>()
            && !op.transposed
            && is_dense(&layout.shape()[1..], &layout.strides()[1..])
            && layout.shape()[2..].iter().product::<usize>() == taps
            && layout.strides()[0] == length as isize
            && !(length * size_of::<T>()).is_multiple_of(CLASH);
        let line = 64 / size_of::<T::Wide>();
        Rows {
            made,
            read,
            count: groups * made,
            row: match in_place {
                true => length,
                false => length.next_multiple_of(line) + line,
            },
            in_place,
            length,
            on_amx: suits_matrix_unit(op, axes),
        }
    }

    pub(super) fn are_on_amx(&self) -> bool {
        self.on_amx
    }

    /// Bytes of all rows as they are packed for the matrix unit; none if they are not.
    pub(super) fn packed_bytes(&self) -> usize {
        match self.on_amx {
            true => self.count / self.made * self.packed_group(),
            false => 0,
        }
    }

    fn packed_group(&self) -> usize {
        gathered::packed_bytes(self.made, self.length)
    }

    /// Packs rows for the matrix unit, those of each group on their own.
    ///
    /// # Safety
    /// The rows can be read, and [`packed_bytes`](Self::packed_bytes) be written.
    pub(super) unsafe fn pack(&self, rows: *const f32, to: *mut u8) {
        for group in 0..self.count / self.made {
            let rows = rows.wrapping_add(group * self.made * self.row);
            let to = to.wrapping_add(group * self.packed_group());
            // SAFETY: there are so many rows, and room for as many groups.
            unsafe { gathered::pack(rows, self.made, self.row, self.length, to) };
        }
    }

    pub(super) fn are_in_place(&self) -> bool {
        self.in_place
    }

    /// Numbers of all rows.
    pub(super) fn length(&self) -> usize {
        self.count * self.row
    }

    /// Copies the weights to where they lie in rows.
    ///
    /// # Safety
    /// The weights can be read, and are of type `T`; [`length`](Self::length) numbers can be written.
    pub(super) unsafe fn copy<T: Float>(&self, op: &Conv, axes: &[Axis; 3], to: *mut T::Wide) {
        let strides = op.weight.layout().strides();
        let [z, y, x] = [0, 1, 2].map(|place| spatial(strides, place));
        let from: *const T = address(&op.weight);
        let mut steps = Steps::default();
        for number in 0..self.count {
            let (group, channel) = (number / self.made, number % self.made);
            let mut place = to.wrapping_add(number * self.row);
            for other in 0..self.read {
                steps.take(self.length / self.read);
                let start = match op.transposed {
                    false => number as isize * strides[0] + other as isize * strides[1],
                    true => {
                        (group * self.read + other) as isize * strides[0]
                            + channel as isize * strides[1]
                    }
                };
                for tz in &axes[0].taps {
                    for ty in &axes[1].taps {
                        for tx in &axes[2].taps {
                            let at = start
                                + tz.number as isize * z
                                + ty.number as isize * y
                                + tx.number as isize * x;
                            // SAFETY: channels and taps are counted by the weights' shape, and rows have room for
                            // them.
                            unsafe { place.write((*from.offset(at)).widen()) };
                            place = place.wrapping_add(1);
                        }
                    }
                }
            }
        }
    }
}

/// Rows of weights somewhere.
pub(super) struct Weights<T: Float> {
    at: Shared<T::Wide>,
    /// From one row to the next.
    pub(super) row: usize,
    /// From one group to the next.
    group: usize,
    /// The rows packed for the matrix unit, if they are, and the bytes of a group.
    packed: Shared<u8>,
    packed_group: usize,
}

impl<T: Float> Weights<T> {
    /// Those at `copy`, or where the op has them if they are in place, and packed ones.
    pub(super) fn new(op: &Conv, rows: &Rows, copy: *const T::Wide, packed: *const u8) -> Self {
        Weights {
            at: match rows.in_place {
                true => Shared(address(&op.weight)),
                false => Shared(copy.cast_mut()),
            },
            row: rows.row,
            group: rows.made * rows.row,
            packed: Shared(packed.cast_mut()),
            packed_group: match rows.on_amx {
                true => rows.packed_group(),
                false => 0,
            },
        }
    }

    /// The rows of a group as they are packed for the matrix unit.
    pub(super) fn packed(&self, group: usize) -> *const u8 {
        self.packed.at((group * self.packed_group) as isize)
    }

    /// The first weight of a row of a group.
    pub(super) fn row(&self, group: usize, row: usize) -> *const T::Wide {
        self.at.at((group * self.group + row * self.row) as isize)
    }
}

/// Whether the convolution is one for the matrix unit, by types and sizes alone.
fn suits_matrix_unit(op: &Conv, axes: &[Axis; 3]) -> bool {
    let (made, read) = (op.dst.shape()[1] / op.groups, op.src.shape()[1] / op.groups);
    let taps: usize = axes.iter().map(|axis| axis.taps.len()).product();
    // All that are summed as `f32`.
    op.src.dtype() != DType::F64
        && gathered::suits(made, axes[1].outputs * axes[2].outputs, read * taps)
}

fn is_dense(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1;
    shape.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || stride == step;
        step *= size as isize;
        fits
    })
}
