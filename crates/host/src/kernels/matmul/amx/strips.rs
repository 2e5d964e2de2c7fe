//! Strips: lines of an operand that are packed together.

use crate::kernels::amx::{TILE_BYTES, TILE_ROWS};
use crate::kernels::matmul::factor::Factor;

/// Rows, and columns, that are multiplied at a time: two strips of a tile each.
pub(in crate::kernels) const BLOCK: usize = 2 * STRIP;
/// Lines (rows of `a`, columns of `b`) that are packed together.
pub(super) const STRIP: usize = TILE_ROWS;
/// Elements of the inner dimension in a tile.
pub(super) const STEP: usize = 32;

/// Bytes of a strip over some elements of the inner dimension.
pub(super) fn strip_bytes<T: Factor>(length: usize) -> usize {
    length.div_ceil(STEP) * T::PLANES * TILE_BYTES
}

/// Packed strips, the same distance apart.
#[derive(Clone, Copy)]
pub(super) struct Strips {
    pub(super) at: *const u8,
    pub(super) distance: usize,
}

impl Strips {
    /// From that of this line on.
    pub(super) fn from(self, line: usize) -> Self {
        Strips {
            at: self.at.wrapping_add(line / STRIP * self.distance),
            ..self
        }
    }

    /// Where the block of this number begins to fetch the strips behind its own, half of one of so many elements.
    pub(super) fn ahead<T: Factor>(self, number: usize, length: usize) -> *const u8 {
        let half = number % 2 * strip_bytes::<T>(length) / 2;
        self.from(BLOCK + number / 2 * STRIP).at.wrapping_add(half)
    }
}
