//! The product on the matrix unit (AMX), which multiplies tiles of `bf16` and sums in `f32`.
//!
//! Each element is split into planes: `bf16` numbers whose sum it is, exactly. Those of an `f32` are three, each
//! the nearest to what the ones before leave. Of the nine products of planes the six largest are summed; the rest
//! are below 2^-24 of the product, so the result is as exact as with products of `f32`. Of an `f16` there are two
//! planes, and all four products.
//!
//! Numbers below 2^-126, be they elements, planes or products of those, count as zero. Infinity, NaN and sums
//! that leave the range would spoil what other planes contribute, so sums that are not finite are summed once more
//! from the elements, in the order of the inner dimension.
//!
//! Each sum runs over the inner dimension in one order, wherever the block it lies in begins: how the work was
//! divided cannot be seen in the result.

mod block;
pub(in crate::kernels) mod gathered;
mod planes;
mod strips;
mod sums;

use std::ops::Range;

use self::block::Block;
use self::planes::{pack_strips, single};
pub(in crate::kernels) use self::strips::BLOCK;
use self::strips::{STEP, STRIP, Strips, strip_bytes};
use super::factor::{Factor, Lines};
use super::multiply::Sums;
use super::product::{Product, Side};
use crate::given_up;
use crate::kernels::amx::Tiles;
use crate::kernels::scratch::{Count, with_scratch};
use crate::kernels::simd;

/// The most rows of a tile of the product: with a panel of steps, they stay in a second-level cache.
pub(super) const MOST_ROWS: usize = 256;
/// The most columns of a tile of the product; for as many, the rows are packed once.
pub(super) const MOST_COLUMNS: usize = 1024;

/// Elements of the inner dimension that are summed before they are added to earlier ones: by shorter panels each sum
/// is rounded less often.
const PANEL: usize = 16 * STEP;
/// Columns that are packed at a time: for as many, the rows are read once.
const COLUMNS_AT_ONCE: usize = 4 * BLOCK;
/// Sums of a block.
const BLOCK_SUMS: usize = BLOCK * BLOCK;

/// The least rows and columns that may be worth filling up to a block.
const LEAST_LINES: usize = 24;
/// The least multiplications that are worth packing for.
const LEAST_WORK: f64 = (1 << 19) as f64;
/// How much of the multiplications, those of filled blocks, have to be of use. Where another thread shares the core, the unit
/// multiplies no faster than vectors do.
const LEAST_USEFUL: f64 = 0.9;
/// The least multiplications for each element that is packed or stored.
const LEAST_EACH: f64 = 64.0;

/// Whether the product is one for the matrix unit, by types and sizes alone.
pub(super) fn suits<T: Factor>(product: &Product<T>) -> bool {
    T::PLANES > 0 && product.k > 0 && pays(product.m, product.n, product.k, LEAST_LINES)
}

/// Whether there is a matrix unit, and it is worth packing operands of these sizes for, of so many lines at least.
fn pays(m: usize, n: usize, k: usize, least: usize) -> bool {
    if !simd::has_matrix_unit() {
        return false;
    }
    #[cfg(test)]
    if simd::forced::takes_all_products() {
        return true;
    }
    let filled = |size: usize, step: usize| size.next_multiple_of(step) as f64;
    let done = filled(m, BLOCK) * filled(n, BLOCK) * filled(k, STEP);
    let wanted = m as f64 * n as f64 * k as f64;
    let moved = m as f64 * (n as f64 + k as f64);
    m.min(n) >= least
        && wanted >= LEAST_WORK
        && wanted >= LEAST_USEFUL * done
        && wanted >= LEAST_EACH * moved
}

/// Bytes of so many packed lines of a product.
pub(super) fn packed_bytes<T: Factor>(product: &Product<T>, lines: usize) -> usize {
    lines.next_multiple_of(BLOCK) / STRIP * strip_bytes::<T>(product.k)
}

/// Packs lines of a constant operand.
///
/// # Safety
/// The lines can be read, and be written as packed; they [suit](suits) the matrix unit.
pub(super) unsafe fn pack<T: Factor>(lines: Lines<T>, side: Side, to: *mut u8) {
    // SAFETY: passed on from the caller.
    unsafe { pack_strips(lines, side, to, strip_bytes::<T>(lines.length)) };
}

/// Computes the tile of `product` with these rows and columns, which begin at whole blocks.
///
/// # Safety
/// As for `execute`; no other thread touches this tile of the product, which [suits](suits) the matrix unit.
pub(super) unsafe fn tile<T: Factor>(
    product: &Product<T>,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    let panel = product.k.min(PANEL);
    let packed = |lines: usize| lines.next_multiple_of(BLOCK) / STRIP * strip_bytes::<T>(panel);
    let a_bytes = match product.ready_a.is_null() {
        true => packed(rows.len()),
        false => 0,
    };
    let b_bytes = match product.ready_b.is_null() {
        true => packed(columns.len().min(COLUMNS_AT_ONCE)),
        false => 0,
    };
    let kept = match panel == product.k {
        true => 1,
        false => rows.len().div_ceil(BLOCK) * columns.len().div_ceil(BLOCK),
    };
    let bytes = a_bytes + b_bytes + (kept + 1) * BLOCK_SUMS * size_of::<f32>();
    with_scratch(Count::of(bytes), |scratch: *mut u8| {
        // SAFETY: the caller promises that there are tiles, and no other kernel runs on the thread meanwhile.
        let tiles = unsafe { Tiles::configure() };
        let tile = Tile {
            product,
            rows,
            columns,
            tiles: &tiles,
            a: scratch,
            b: scratch.wrapping_add(a_bytes),
            sums: scratch.wrapping_add(a_bytes + b_bytes).cast(),
            kept,
        };
        for from in (0..product.k).step_by(panel) {
            given_up::check();
            // SAFETY: the scratch has room for packed operands and sums; the rest the caller promises.
            unsafe { tile.panel(from, panel.min(product.k - from)) };
        }
    });
}

struct Tile<'a, T: Factor> {
    product: &'a Product<T>,
    rows: Range<usize>,
    columns: Range<usize>,
    tiles: &'a Tiles,
    a: *mut u8,
    b: *mut u8,
    sums: *mut f32,
    /// For how many blocks there are sums.
    kept: usize,
}

impl<T: Factor> Tile<'_, T> {
    /// Multiplies `length` elements of the inner dimension, and finishes if they are the last.
    ///
    /// # Safety
    /// As for [`tile`].
    unsafe fn panel(&self, from: usize, length: usize) {
        let product = self.product;
        // SAFETY: lines lie within the operands; what is packed within the scratch; passed on otherwise.
        unsafe {
            let a = match product.ready_a.is_null() {
                true => {
                    let lines = product.a_lines(self.rows.start, self.rows.len(), from, length);
                    packed(lines, Side::Left, self.a)
                }
                false => self
                    .ready(product.ready_a.cast(), from)
                    .from(self.rows.start),
            };
            for first in self.columns.clone().step_by(COLUMNS_AT_ONCE) {
                let count = COLUMNS_AT_ONCE.min(self.columns.end - first);
                let b = match product.ready_b.is_null() {
                    true => {
                        let lines = product.b_lines(first, count, from, length);
                        packed(lines, Side::Right, self.b)
                    }
                    false => self.ready(product.ready_b.cast(), from).from(first),
                };
                for column in (first..first + count).step_by(BLOCK) {
                    let b = b.from(column - first);
                    for row in self.rows.clone().step_by(BLOCK) {
                        // The blocks of these columns fetch the strips of the next ones.
                        let next = b.ahead::<T>((row - self.rows.start) / BLOCK, length);
                        let a = a.from(row - self.rows.start);
                        self.block((row, column), [a, b], next, from..from + length);
                    }
                }
            }
        }
    }

    /// The strips of a constant operand, from an element of the inner dimension on.
    fn ready(&self, at: *const u8, from: usize) -> Strips {
        Strips {
            at: at.wrapping_add(strip_bytes::<T>(from)),
            distance: strip_bytes::<T>(self.product.k),
        }
    }

    /// # Safety
    /// As for [`tile`]; the strips are those of the block and of a part of the inner dimension.
    unsafe fn block(
        &self,
        (row, column): (usize, usize),
        [a, b]: [Strips; 2],
        next: *const u8,
        part: Range<usize>,
    ) {
        let rows = BLOCK.min(self.rows.end - row);
        let columns = BLOCK.min(self.columns.end - column);
        let in_out = match rows.min(columns) == BLOCK {
            true => self.product.sums_in_out(row, column),
            false => None,
        };
        let sums = in_out.map_or_else(
            || self.kept_sums(row, column),
            |sums| Sums {
                at: sums.at.cast(),
                row: sums.row,
            },
        );
        let block = Block {
            a,
            b,
            steps: part.len().div_ceil(STEP),
            sums: match part.start {
                0 => sums,
                _ => self.spare_sums(),
            },
            next,
        };
        // SAFETY: the strips hold so many steps of two tiles each, and the sums are those of a whole block; the rest
        // is passed on from the caller.
        unsafe {
            block.multiply_into::<T>(self.tiles, sums);
            if part.end == self.product.k {
                let terms = Terms {
                    product: self.product,
                    row,
                    column,
                };
                sums::mend(terms, rows, columns, sums);
                let sums = Sums {
                    at: sums.at.cast(),
                    row: sums.row,
                };
                self.product.finish((row, rows), (column, columns), sums);
            }
        }
    }

    /// Sums of a block before they are added to those of earlier panels.
    fn spare_sums(&self) -> Sums<f32> {
        Sums {
            at: self.sums.wrapping_add(self.kept * BLOCK_SUMS),
            row: BLOCK,
        }
    }

    /// Sums of a block that are not in the product, whose rows are next to each other.
    fn kept_sums(&self, row: usize, column: usize) -> Sums<f32> {
        let across = self.columns.len().div_ceil(BLOCK);
        let number =
            (row - self.rows.start) / BLOCK * across + (column - self.columns.start) / BLOCK;
        Sums {
            at: self.sums.wrapping_add(number % self.kept * BLOCK_SUMS),
            row: BLOCK,
        }
    }
}

/// The terms of a block of a product.
struct Terms<'a, T: Factor> {
    product: &'a Product<T>,
    row: usize,
    column: usize,
}

impl<T: Factor> Clone for Terms<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Factor> Copy for Terms<'_, T> {}

impl<T: Factor> sums::Terms for Terms<'_, T> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.product.k
    }

    #[inline(always)]
    unsafe fn left(&self, row: usize, term: usize) -> f32 {
        // SAFETY: the caller promises that the element exists.
        single(unsafe { *self.product.a.from(self.row + row, term).at })
    }

    #[inline(always)]
    unsafe fn right(&self, term: usize, column: usize) -> f32 {
        // SAFETY: the caller promises that the element exists.
        single(unsafe { *self.product.b.from(term, self.column + column).at })
    }
}

/// Packs lines one strip after another.
///
/// # Safety
/// The lines can be read, and be written as packed.
unsafe fn packed<T: Factor>(lines: Lines<T>, side: Side, to: *mut u8) -> Strips {
    let distance = strip_bytes::<T>(lines.length);
    // SAFETY: passed on from the caller.
    unsafe { pack_strips(lines, side, to, distance) };
    Strips { at: to, distance }
}
