//! The product of large matrices: operands are packed into panels that the caches hold.
//!
//! Each sum runs over the inner dimension in one order, by panels of a fixed length, wherever the tile it
//! lies in begins: how the work was divided cannot be seen in the result.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::factor::{Factor, pack_interleaved, pack_lines};
use super::multiply::{Earlier, MAX_COLUMNS, MAX_ROWS, Packed, Sums, Unit};
use super::product::Product;
use crate::given_up;
use crate::kernels::scratch::{Count, with_scratch};

/// The most rows of a tile: packed, they fit a small second-level cache, from which they are read once for each block of columns.
pub(super) const TILE_ROWS: usize = 240;
/// The most columns of a tile.
pub(super) const TILE_COLUMNS: usize = 512;

/// Rows of `b` that are packed at a time; a multiple of the elements in any unit.
const ROWS_AT_ONCE: usize = 32;

/// The most units of rows whose panels are all packed before they are multiplied.
const MOST_IN_ONE: usize = 1 << 18;

/// Memory for the sums of one block.
type Block<S> = MaybeUninit<[S; MAX_ROWS * MAX_COLUMNS]>;

/// Computes the tile of `product` with these rows and columns.
///
/// # Safety
/// As for `execute`; no other thread touches this tile of the product.
pub(super) unsafe fn tile<T: Factor>(
    product: &Product<T>,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    let pack = |rows: Range<usize>, elements: Range<usize>, stride: usize, to: *mut T::Unit| {
        let lines = product.a_lines(rows.start, rows.len(), elements.start, elements.len());
        // SAFETY: the rows lie within the operand, and the scratch has room for a panel of them.
        unsafe { pack_lines::<T>(lines, to, stride) };
        true
    };
    // SAFETY: passed on from the caller.
    unsafe { tile_of(product, rows, columns, &pack) }
}

/// Packs these elements of these rows, so many units apart. Says whether any is not nothing, of padding.
pub(in crate::kernels) type PackRows<'a, U> =
    dyn Fn(Range<usize>, Range<usize>, usize, *mut U) -> bool + 'a;

/// As [`tile`], with rows that are packed by `pack_rows` unless they are ready.
///
/// # Safety
/// As for [`tile`], and rows can be packed so.
pub(super) unsafe fn tile_of<T: Factor>(
    product: &Product<T>,
    rows: Range<usize>,
    columns: Range<usize>,
    pack_rows: &PackRows<'_, T::Unit>,
) {
    let (_, width) = T::Unit::block();
    let panel = T::Unit::PANEL;
    let padded = columns.len().next_multiple_of(width);
    let one_panel = product.k.div_ceil(T::PER_UNIT) <= panel;
    let a_units = match product.ready_a.is_null() {
        true => rows.len() * T::Unit::PANEL_STRIDE,
        false => 0,
    };
    let b_units = match product.ready_b.is_null() {
        true => padded * panel.min(product.k.div_ceil(T::PER_UNIT)),
        false => 0,
    };
    let kept_sums = if one_panel { 0 } else { rows.len() * padded };
    let panels = product.k.div_ceil(panel * T::PER_UNIT);
    let whole = rows.len().saturating_mul(panels * T::Unit::PANEL_STRIDE);
    let is_streamed =
        product.in_one && !one_panel && a_units > 0 && b_units == 0 && whole <= MOST_IN_ONE;
    let a_units = if is_streamed { whole } else { a_units };
    let line = 64 / size_of::<T::Unit>();
    let b_units = b_units.next_multiple_of(line);
    with_scratch(
        Count::of(a_units) + b_units + kept_sums,
        |a: *mut T::Unit| {
            let b = a.wrapping_add(a_units);
            let tile = Tile {
                product,
                pack_rows,
                rows,
                columns,
                width,
                a,
                b,
                sums: b.wrapping_add(b_units),
                padded,
            };
            let step = panel * T::PER_UNIT;
            if is_streamed {
                // SAFETY: the scratch has room for all panels and sums; the rest the caller promises.
                return unsafe { tile.stream(step) };
            }
            let mut from = 0;
            // Also without an inner dimension the epilogue has to run, over sums of nothing.
            loop {
                given_up::check();
                let to = (from + step).min(product.k);
                // SAFETY: the scratch has room for the packed operands and sums; the rest the caller promises.
                unsafe { tile.panel(from, to - from) };
                from = to;
                if from == product.k {
                    break;
                }
            }
        },
    );
}

struct Tile<'a, T: Factor> {
    product: &'a Product<T>,
    pack_rows: &'a PackRows<'a, T::Unit>,
    rows: Range<usize>,
    columns: Range<usize>,
    width: usize,
    a: *mut T::Unit,
    b: *mut T::Unit,
    sums: *mut T::Unit,
    padded: usize,
}

impl<T: Factor> Tile<'_, T> {
    /// Multiplies few rows: all their panels are packed first, so that the other operand is read once from its beginning to
    /// its end, as fast as memory gives it.
    ///
    /// # Safety
    /// As for [`tile`]; the scratch has room for all panels of the rows, and the other operand is ready.
    unsafe fn stream(&self, step: usize) {
        let k = self.product.k;
        let panel = self.rows.len() * T::Unit::PANEL_STRIDE;
        let parts = || (0..k).step_by(step).map(|from| from..(from + step).min(k));
        // SAFETY: panels lie within the scratch; columns within the operand.
        unsafe {
            for (number, part) in parts().enumerate() {
                let to = self.a.add(number * panel);
                (self.pack_rows)(self.rows.clone(), part, T::Unit::PANEL_STRIDE, to);
            }
            for column in self.columns.clone().step_by(self.width) {
                given_up::check();
                for (number, part) in parts().enumerate() {
                    let a = self.a.add(number * panel);
                    self.multiply(column, part.start, part.len(), (a, true));
                }
            }
        }
    }

    /// Multiplies `length` elements of the inner dimension, and finishes if they are the last.
    ///
    /// # Safety
    /// As for [`tile`].
    unsafe fn panel(&self, from: usize, length: usize) {
        // SAFETY: lines and columns lie within the operands; the panels within the scratch.
        unsafe {
            let a = self.a_panel(from, length);
            if self.product.ready_b.is_null() {
                self.pack_b(from, length);
            }
            for column in self.columns.clone().step_by(self.width) {
                self.multiply(column, from, length, a);
            }
        }
    }

    /// Multiplies `length` elements of the inner dimension with a block of columns, and finishes if they are the last.
    ///
    /// # Safety
    /// As for [`tile`]; the panels are packed.
    #[inline(always)]
    unsafe fn multiply(
        &self,
        column: usize,
        from: usize,
        length: usize,
        (a, is_any): (*const T::Unit, bool),
    ) {
        let product = self.product;
        let steps = length.div_ceil(T::PER_UNIT);
        let stride = T::Unit::PANEL_STRIDE;
        let last = from + length == product.k;
        let earlier = match product.in_one {
            _ if from == 0 => Earlier::Lost,
            true => Earlier::Continued,
            false => Earlier::Added,
        };
        let count = self.width.min(self.columns.end - column);
        let mut block: Block<T::Unit> = MaybeUninit::uninit();
        for rows in even_parts(self.rows.len(), T::Unit::block().0) {
            let first_row = self.rows.start + rows.start;
            let in_out = match count == self.width {
                true => product.sums_in_out(first_row, column),
                false => None,
            };
            let sums = in_out.unwrap_or_else(|| match from == 0 && last {
                true => Sums {
                    at: block.as_mut_ptr().cast(),
                    row: self.width,
                },
                false => Sums {
                    at: self
                        .sums
                        .wrapping_add(rows.start * self.padded + column - self.columns.start),
                    row: self.padded,
                },
            });
            let operands = Packed {
                a: a.wrapping_add(rows.start * stride),
                b: self.b_panel(column, from, steps),
                steps: if is_any { steps } else { 0 },
                rows: rows.len(),
                half: 2 * count <= self.width,
            };
            // SAFETY: lines and columns lie within the operands; the panels within the scratch.
            unsafe {
                T::Unit::multiply(&operands, sums, earlier);
                if last {
                    product.finish((first_row, rows.len()), (column, count), sums);
                }
            }
        }
    }

    /// The packed panel of all rows of the tile, and whether it holds anything.
    ///
    /// # Safety
    /// As for [`tile`].
    unsafe fn a_panel(&self, from: usize, length: usize) -> (*const T::Unit, bool) {
        let (product, stride) = (self.product, T::Unit::PANEL_STRIDE);
        if !product.ready_a.is_null() {
            let panel = from / (T::Unit::PANEL * T::PER_UNIT);
            let row = panel * product.m + self.rows.start;
            return (product.ready_a.wrapping_add(row * stride), true);
        }
        let is_any = (self.pack_rows)(self.rows.clone(), from..from + length, stride, self.a);
        (self.a, is_any)
    }

    /// Packs the panels of all columns of the tile.
    ///
    /// # Safety
    /// As for [`tile`].
    unsafe fn pack_b(&self, from: usize, length: usize) {
        let product = self.product;
        let steps = length.div_ceil(T::PER_UNIT);
        // Where rows of `b` are contiguous, a few are read along before the next, page by page.
        let along = match product.b.column {
            1 => ROWS_AT_ONCE,
            _ => length.max(1),
        };
        for start in (0..length).step_by(along) {
            for column in self.columns.clone().step_by(self.width) {
                let count = self.width.min(self.columns.end - column);
                let some = along.min(length - start);
                let lines = product.b_lines(column, count, from + start, some);
                let to = self.b_scratch(column, steps);
                let to = to.wrapping_add(start / T::PER_UNIT * self.width);
                // SAFETY: the columns lie within the operand, and the scratch has room for a panel of them.
                unsafe { pack_interleaved::<T>(lines, to, self.width) };
            }
        }
    }

    /// The packed panel of the columns from `column` on.
    fn b_panel(&self, column: usize, from: usize, steps: usize) -> *const T::Unit {
        let product = self.product;
        if product.ready_b.is_null() {
            return self.b_scratch(column, steps);
        }
        // Blocks begin at whole ones of the matrix, as tiles do.
        let unit = column * product.k.div_ceil(T::PER_UNIT) + from / T::PER_UNIT * self.width;
        product.ready_b.wrapping_add(unit)
    }

    fn b_scratch(&self, column: usize, steps: usize) -> *mut T::Unit {
        self.b.wrapping_add((column - self.columns.start) * steps)
    }
}

/// `0..total` in as few parts of at most `most` as possible, which differ by one at most.
pub(in crate::kernels) fn even_parts(
    total: usize,
    most: usize,
) -> impl Iterator<Item = Range<usize>> + Clone {
    let parts = total.div_ceil(most).max(1);
    let (each, larger) = (total / parts, total % parts);
    (0..parts).map(move |part| bounds(each, larger, part))
}

/// One of [`even_parts`].
pub(in crate::kernels) fn even_part(total: usize, most: usize, part: usize) -> Range<usize> {
    let parts = total.div_ceil(most).max(1);
    bounds(total / parts, total % parts, part)
}

#[inline(always)]
fn bounds(each: usize, larger: usize, part: usize) -> Range<usize> {
    let start = part * each + part.min(larger);
    start..start + each + usize::from(part < larger)
}
