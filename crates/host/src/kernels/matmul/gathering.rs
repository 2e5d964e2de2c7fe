//! Products with a left operand that lies nowhere as a matrix: its rows are gathered as they are packed.

use std::ops::Range;
use std::ptr::null_mut;

use streampool_device::Activation;

use super::blocked;
use super::lanes::Bounds;
use super::multiply::{Sums, Unit};
use super::product::{Matrix, Product};
use crate::kernels::simd::vectorised;
use crate::map::math32::clamp;

/// A product of gathered rows with packed weights.
pub(in crate::kernels) struct Gathering {
    /// Rows, columns, and units of each.
    pub(in crate::kernels) sizes: [usize; 3],
    /// Blocks of [`columns_of_a_block`] columns, for each unit those of a block side by side.
    pub(in crate::kernels) weights: *const f32,
    pub(in crate::kernels) to: *mut f32,
    /// From row to row and from column to column of the result.
    pub(in crate::kernels) strides: [isize; 2],
    /// The bias of the first column, and from one to the next.
    pub(in crate::kernels) bias: Option<(*mut f32, isize)>,
    pub(in crate::kernels) activation: Activation,
    /// Of results without an activation.
    pub(in crate::kernels) bounds: Bounds,
}

/// Writes these units of these rows, each so far from the one before. Says whether any lies in what is gathered from: the
/// others are zero.
pub(in crate::kernels) type Gather<'a> = blocked::PackRows<'a, f32>;

/// Columns of a block on this machine.
pub(in crate::kernels) fn columns_of_a_block() -> usize {
    f32::block().1
}

/// Computes the tile with these rows and columns, which begin at whole blocks.
///
/// # Safety
/// The weights and the bias can be read, and the tile be written. What `gather` reads is there.
pub(in crate::kernels) unsafe fn gathered(
    gathering: &Gathering,
    rows: Range<usize>,
    columns: Range<usize>,
    gather: &Gather<'_>,
) {
    // SAFETY: passed on from the caller; the tile lies in the result.
    unsafe {
        blocked::tile_of(
            &gathering.as_product(),
            rows.clone(),
            columns.clone(),
            gather,
        );
        gathering.keep(rows, columns);
    }
}

impl Gathering {
    /// Between which numbers sums are kept, if nothing else is done with them.
    pub(super) fn in_registers(&self) -> Option<Bounds> {
        Bounds::of(self.activation, self.bounds)
    }

    /// Biases, activates and bounds sums of these columns of all rows, and stores them.
    ///
    /// # Safety
    /// As for [`gathered`], and the sums can be read and written.
    pub(in crate::kernels) unsafe fn finish_all(&self, columns: Range<usize>, sums: Sums<f32>) {
        let rows = self.sizes[0];
        // SAFETY: passed on from the caller.
        unsafe {
            let product = self.as_product();
            product.finish((0, rows), (columns.start, columns.len()), sums);
            self.keep(0..rows, columns);
        }
    }

    /// Keeps the results of these rows and columns between the bounds, if there are any.
    ///
    /// # Safety
    /// They can be read and written.
    unsafe fn keep(&self, rows: Range<usize>, columns: Range<usize>) {
        if self.bounds != Bounds::default() {
            // SAFETY: passed on from the caller.
            unsafe { keep(self, rows, columns) };
        }
    }

    fn as_product(&self) -> Product<f32> {
        let [m, n, k] = self.sizes;
        let [row, column] = self.strides;
        let nothing = Matrix {
            at: null_mut(),
            row: 0,
            column: 0,
        };
        Product {
            m,
            n,
            k,
            a: nothing,
            b: nothing,
            out: Matrix {
                at: self.to,
                row,
                column,
            },
            bias: (self.bias).map(|(at, column)| Matrix { at, row: 0, column }),
            alpha: 1.0,
            activation: self.activation,
            ready_a: std::ptr::null(),
            ready_b: self.weights,
            in_one: false,
            on_amx: false,
        }
    }

    /// Finishes sums that are biased and bounded, of the block at `row` and `column`; stores them if they are not in the
    /// product.
    ///
    /// # Safety
    /// As for [`gathered`], and the sums can be read and written.
    pub(super) unsafe fn finish(
        &self,
        block: (usize, usize),
        columns: (usize, usize),
        sums: Sums<f32>,
    ) {
        let product = Product {
            bias: None,
            activation: match self.in_registers() {
                Some(_) => Activation::None,
                None => self.activation,
            },
            ..self.as_product()
        };
        // SAFETY: passed on from the caller.
        unsafe { product.finish(block, columns, sums) }
    }
}

vectorised! {
    /// Keeps the results of these rows and columns between their bounds.
    ///
    /// # Safety
    /// They can be read and written.
    unsafe fn keep[](gathering: &Gathering, rows: Range<usize>, columns: Range<usize>) {
        let [row_step, column_step] = gathering.strides;
        let Bounds { least, most } = gathering.bounds;
        let (least, most) = (least.unwrap_or(f32::NEG_INFINITY), most.unwrap_or(f32::INFINITY));
        for row in rows {
            let to = gathering.to.wrapping_offset(row as isize * row_step);
            for column in columns.clone() {
                // SAFETY: the caller's promise.
                unsafe {
                    let value = &mut *to.wrapping_offset(column as isize * column_step);
                    *value = clamp(*value, least, most);
                }
            }
        }
    }
}
