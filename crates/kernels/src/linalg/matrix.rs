//! Matrices as kernels see them.

use streampool_device::{MAX_RANK, View};

use crate::Operand;

/// A matrix of each index of the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix {
    pub operand: Operand,
    pub at: i64,
    pub row: i64,
    pub column: i64,
    /// From one matrix to the next, along each leading dimension.
    pub batch: [isize; MAX_RANK],
}

impl Matrix {
    pub fn of(view: &View) -> Matrix {
        let strides = view.layout().strides();
        let [lead @ .., row, column] = strides else {
            unreachable!("validated matrices have two dimensions");
        };
        Matrix::lying(view, lead, *row, *column)
    }

    /// Of pivots: a column.
    pub fn of_pivots(view: &View) -> Matrix {
        let strides = view.layout().strides();
        let [lead @ .., row] = strides else {
            unreachable!("validated pivots have a dimension");
        };
        Matrix::lying(view, lead, *row, 0)
    }

    fn lying(view: &View, lead: &[isize], row: isize, column: isize) -> Matrix {
        let mut batch = [0; MAX_RANK];
        batch[..lead.len()].copy_from_slice(lead);
        Matrix {
            operand: Operand::Memory(view.span()),
            at: view.layout().offset() as i64,
            row: row as i64,
            column: column as i64,
            batch,
        }
    }

    /// In scratch memory from byte `at` on: so many numbers for each matrix of the batch, rows of `columns`.
    pub fn scratch(at: usize, batch: &[usize], size: usize, columns: usize) -> Matrix {
        let mut strides = [0; MAX_RANK];
        let mut step = size as isize;
        for (axis, &length) in batch.iter().enumerate().rev() {
            strides[axis] = step;
            step *= length as isize;
        }
        Matrix {
            operand: Operand::Scratch(at),
            at: 0,
            row: columns as i64,
            column: 1,
            batch: strides,
        }
    }

    /// From another element on.
    pub fn from(self, row: usize, column: usize) -> Matrix {
        Matrix {
            at: self.at + row as i64 * self.row + column as i64 * self.column,
            ..self
        }
    }

    pub fn transposed(self) -> Matrix {
        Matrix {
            row: self.column,
            column: self.row,
            ..self
        }
    }
}
