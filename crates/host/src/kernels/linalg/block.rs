//! A block of a matrix in scratch memory.

use std::ops::Range;

use streampool_device::{Element, Layout, Span, View};

use crate::kernels::convert::Native;
use crate::kernels::real::Real;

/// What matrices are made of.
pub(super) trait Number: Real + Native + Element {}

impl Number for f32 {}
impl Number for f64 {}

/// Rows and columns of a matrix. Whoever has one may use its elements, and parts that others use are not touched.
#[derive(Debug)]
pub(super) struct Block<T> {
    pub(super) at: *mut T,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// From one row to the next.
    pub(super) row: isize,
    /// From one column to the next.
    pub(super) column: isize,
}

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Block<T> {}

// SAFETY: it is a description; whoever dereferences its address answers for what lies there.
unsafe impl<T> Send for Block<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Block<T> {}

impl<T: Number> Block<T> {
    /// A block of this size, row after row.
    pub(super) fn dense(at: *mut T, rows: usize, columns: usize) -> Self {
        Block {
            at,
            rows,
            columns,
            row: columns as isize,
            column: 1,
        }
    }

    pub(super) fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        debug_assert!(rows.end <= self.rows && columns.end <= self.columns);
        Block {
            at: self.place(rows.start, columns.start),
            rows: rows.len(),
            columns: columns.len(),
            ..self
        }
    }

    pub(super) fn transposed(self) -> Self {
        Block {
            rows: self.columns,
            columns: self.rows,
            row: self.column,
            column: self.row,
            ..self
        }
    }

    #[inline(always)]
    pub(super) fn place(self, row: usize, column: usize) -> *mut T {
        let distance = row as isize * self.row + column as isize * self.column;
        self.at.wrapping_offset(distance)
    }

    /// # Safety
    /// The element is in the block and can be read.
    #[inline(always)]
    pub(super) unsafe fn get(self, row: usize, column: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { *self.place(row, column) }
    }

    /// The first elements of a row, whose columns are neighbours.
    ///
    /// # Safety
    /// They are in the block and can be read, and nobody writes them meanwhile.
    #[inline(always)]
    pub(super) unsafe fn row<'a>(self, row: usize, length: usize) -> &'a [T] {
        debug_assert!(self.column == 1 && length <= self.columns);
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.place(row, 0), length) }
    }

    /// A row, whose columns are neighbours.
    ///
    /// # Safety
    /// It is in the block and can be written, and nobody else uses it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn row_mut<'a>(self, row: usize) -> &'a mut [T] {
        debug_assert_eq!(self.column, 1);
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.place(row, 0), self.columns) }
    }

    /// The block as an operand of other kernels.
    pub(super) fn view(self) -> Result<View, String> {
        let layout = Layout::strided(&[self.rows, self.columns], &[self.row, self.column], 0)
            .map_err(|error| error.to_string())?;
        let bytes = layout
            .extent()
            .map_or(0, |(_, last)| (last as usize + 1) * size_of::<T>());
        let span = Span {
            handle: self.at.expose_provenance() as u64,
            offset: 0,
            bytes,
        };
        View::new(span, T::DTYPE, layout).map_err(|error| error.to_string())
    }

    /// Exchanges two rows.
    ///
    /// # Safety
    /// They are in the block, can be written, and nobody else uses them meanwhile.
    pub(super) unsafe fn exchange(self, one: usize, other: usize) {
        if one != other {
            // SAFETY: the caller's promise; the rows are different ones.
            unsafe { self.row_mut(one).swap_with_slice(self.row_mut(other)) };
        }
    }

    /// Reads the block from elsewhere.
    ///
    /// # Safety
    /// Both can be used, and nobody else uses them meanwhile.
    pub(super) unsafe fn copy_from(self, from: Block<T>) {
        for row in 0..self.rows {
            for column in 0..self.columns {
                // SAFETY: the caller's promise.
                unsafe { *self.place(row, column) = from.get(row, column) };
            }
        }
    }
}
