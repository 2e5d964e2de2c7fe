//! The product of packed rows with columns that are gathered from an image, as the matrix unit is given it.

use std::ops::Range;

/// What is multiplied.
pub(in crate::kernels) struct Gathered<'a> {
    /// Rows as they were packed.
    pub(in crate::kernels) packed: *const u8,
    /// The same where they lie.
    pub(in crate::kernels) rows: *const f32,
    /// From one of those to the next.
    pub(in crate::kernels) next: usize,
    /// Which of them are multiplied: they begin at a whole block.
    pub(in crate::kernels) range: Range<usize>,
    pub(in crate::kernels) image: *const f32,
    /// For each element of a row, where in the image the first column's is.
    pub(in crate::kernels) offsets: &'a [usize],
    /// Those of neighbouring columns are neighbours.
    pub(in crate::kernels) columns: usize,
}

/// A block of results.
pub(in crate::kernels) struct Results {
    pub(in crate::kernels) row: usize,
    pub(in crate::kernels) rows: usize,
    pub(in crate::kernels) column: usize,
    pub(in crate::kernels) columns: usize,
    /// Rows of a whole block's columns each.
    pub(in crate::kernels) sums: *mut f32,
}
