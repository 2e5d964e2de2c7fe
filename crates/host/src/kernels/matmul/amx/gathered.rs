//! The product of packed rows with columns that are gathered from an image: what a convolution is.

use std::ops::Range;

use super::block::Block;
use super::planes::{pack_gathered, pack_strips};
use super::strips::STEP;
use super::sums::{self, Terms};
use super::{
    BLOCK, BLOCK_SUMS, COLUMNS_AT_ONCE, Lines, PANEL, STRIP, Side, Strips, Sums, pays, strip_bytes,
};
use crate::kernels::amx::Tiles;
pub(in crate::kernels) use crate::kernels::matmul::image::{Gathered, Results};

/// The least rows and columns that are worth gathering and packing columns for.
const LEAST_GATHERED: usize = 32;

/// Whether the matrix unit is worth it for so many rows, columns, and elements of each.
pub(in crate::kernels) fn suits(rows: usize, columns: usize, length: usize) -> bool {
    length > 0 && pays(rows, columns, length, LEAST_GATHERED)
}

/// Bytes of so many packed rows.
pub(in crate::kernels) fn packed_bytes(rows: usize, length: usize) -> usize {
    rows.next_multiple_of(BLOCK) / STRIP * strip_bytes::<f32>(length)
}

/// Packs rows of so many elements next to each other.
///
/// # Safety
/// The rows, `next` apart, can be read, and the [`packed_bytes`] be written; they [suit](suits) the matrix unit.
pub(in crate::kernels) unsafe fn pack(
    at: *const f32,
    rows: usize,
    next: usize,
    length: usize,
    to: *mut u8,
) {
    let lines = Lines {
        at,
        lines: rows,
        length,
        line: next as isize,
        step: 1,
    };
    // SAFETY: passed on from the caller.
    unsafe { pack_strips(lines, Side::Left, to, strip_bytes::<f32>(length)) };
}

impl Gathered<'_> {
    /// Bytes that [`multiply`](Self::multiply) needs for so many rows of so many elements.
    pub(in crate::kernels) fn scratch_bytes(rows: usize, length: usize) -> usize {
        let panel = strip_bytes::<f32>(length.min(PANEL));
        let blocks = rows.div_ceil(BLOCK) * (COLUMNS_AT_ONCE / BLOCK);
        COLUMNS_AT_ONCE / STRIP * panel + (blocks + 1) * BLOCK_SUMS * size_of::<f32>()
    }

    /// Calls `finish` with each block of results.
    ///
    /// # Safety
    /// All rows can be read, and all columns, of whole blocks; the scratch be written, which is aligned to a line. They
    /// [suit](suits) the matrix unit.
    pub(in crate::kernels) unsafe fn multiply(
        &self,
        scratch: *mut u8,
        mut finish: impl FnMut(Results),
    ) {
        // SAFETY: the caller promises that there are tiles, and no other kernel runs on the thread meanwhile.
        let tiles = unsafe { Tiles::configure() };
        let distance = strip_bytes::<f32>(self.offsets.len().min(PANEL));
        let packed = Strips {
            at: scratch,
            distance,
        };
        let sums = scratch.wrapping_add(COLUMNS_AT_ONCE / STRIP * distance);
        for first in (0..self.columns).step_by(COLUMNS_AT_ONCE) {
            let across = (self.columns - first).min(COLUMNS_AT_ONCE).div_ceil(BLOCK);
            for from in (0..self.offsets.len()).step_by(PANEL) {
                let to = self.offsets.len().min(from + PANEL);
                for block in 0..across {
                    let image = self.image.wrapping_add(first + block * BLOCK);
                    let strips = packed.from(block * BLOCK).at.cast_mut();
                    // SAFETY: the caller promises that whole blocks of columns can be read, and the scratch has room
                    // for so many.
                    unsafe { pack_gathered(image, &self.offsets[from..to], strips, distance) };
                }
                for row in self.range.clone().step_by(BLOCK) {
                    for block in 0..across {
                        let number = (row - self.range.start) / BLOCK * across + block;
                        let at = (row, first + block * BLOCK);
                        let b = packed.from(block * BLOCK);
                        let sums = [number, self.range.len().div_ceil(BLOCK) * across]
                            .map(|place| sums.cast::<f32>().wrapping_add(place * BLOCK_SUMS));
                        // SAFETY: the block was packed, and the scratch has room for all sums and spare ones; the rest
                        // the caller promises.
                        let results = unsafe { self.block(&tiles, at, b, from..to, sums) };
                        if to == self.offsets.len() {
                            finish(results);
                        }
                    }
                }
            }
        }
    }

    /// Multiplies a part of a block's terms, and adds them to those before; the last mends them.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply); columns are packed, and there is room for a block of sums and a spare one.
    #[inline(always)]
    unsafe fn block(
        &self,
        tiles: &Tiles,
        (row, column): (usize, usize),
        b: Strips,
        part: Range<usize>,
        sums: [*mut f32; 2],
    ) -> Results {
        let [sums, spare] = sums.map(|at| Sums { at, row: BLOCK });
        let a = Strips {
            at: self.packed.wrapping_add(strip_bytes::<f32>(part.start)),
            distance: strip_bytes::<f32>(self.offsets.len()),
        }
        .from(row);
        let block = Block {
            a,
            b,
            steps: part.len().div_ceil(STEP),
            sums: if part.start == 0 { sums } else { spare },
            // The blocks of these rows fetch the strips of the next ones.
            next: a.ahead::<f32>(column % COLUMNS_AT_ONCE / BLOCK, part.len()),
        };
        let results = Results {
            row,
            rows: BLOCK.min(self.range.end - row),
            column,
            columns: BLOCK.min(self.columns - column),
            sums: sums.at,
        };
        // SAFETY: passed on from the caller.
        unsafe {
            block.multiply_into::<f32>(tiles, sums);
            if part.end == self.offsets.len() {
                let terms = OfBlock {
                    rows: self.rows.wrapping_add(row * self.next),
                    next: self.next,
                    image: self.image.wrapping_add(column),
                    offsets: self.offsets,
                };
                sums::mend(terms, results.rows, results.columns, sums);
            }
        }
        results
    }
}

/// The terms of a block of results.
#[derive(Clone, Copy)]
struct OfBlock<'a> {
    rows: *const f32,
    next: usize,
    image: *const f32,
    offsets: &'a [usize],
}

impl Terms for OfBlock<'_> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.offsets.len()
    }

    #[inline(always)]
    unsafe fn left(&self, row: usize, term: usize) -> f32 {
        // SAFETY: the caller promises that the element exists.
        unsafe { *self.rows.add(row * self.next + term) }
    }

    #[inline(always)]
    unsafe fn right(&self, term: usize, column: usize) -> f32 {
        // SAFETY: the caller promises that the element exists.
        unsafe { *self.image.add(self.offsets[term] + column) }
    }
}
