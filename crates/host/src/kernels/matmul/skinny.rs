//! The product of few rows with a large matrix, multiplied where it lies: packing it would cost more than
//! the product.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::blocked::even_parts;
use super::factor::{Factor, pack_lines};
use super::multiply::{DOT_ROWS, InPlace, InPlaceUnit, MAX_COLUMNS, SKINNY_ROWS, Sums};
use super::product::Product;
use crate::given_up::Steps;
use crate::kernels::scratch::{Count, with_scratch};

/// The most rows that are few.
pub(super) const FEW_ROWS: usize = 16;

/// More steps are made panel by panel, so that they can be given up in between.
const MOST_STEPS: usize = 1 << 26;
/// So are steps of as many rows and columns as are multiplied at a time, if they are more multiplications than this.
const MOST_AT_ONCE: usize = 1 << 28;

/// How `b` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Its columns are neighbours.
    Rows,
    /// Its steps are neighbours.
    Dots,
}

/// As many rows are still few if `b` stays in the first-level cache: then reading it once for each group of
/// rows costs less than packing.
const FEW_ROWS_OF_SMALL: usize = 64;
/// The most elements of `b` that stay there.
const SMALL: usize = 1 << 13;

/// How a product can be multiplied where it lies, if it has few rows and its types and strides allow.
pub(super) fn reading<T: Factor>(product: &Product<T>) -> Option<Reading> {
    if !T::IN_PLACE || product.k == 0 || product.on_amx || product.k > MOST_STEPS {
        return None;
    }
    let sums = product.m.min(SKINNY_ROWS) * product.n.min(MAX_COLUMNS);
    if product.k.saturating_mul(sums) > MOST_AT_ONCE {
        return None;
    }
    // A single column may have any stride between its neighbours.
    let by_rows = product.b.column == 1 || product.n == 1 && product.b.row != 1;
    let by_dots = product.b.row == 1 || product.k == 1;
    let few = product.m <= FEW_ROWS;
    let small = product.m <= FEW_ROWS_OF_SMALL && product.is_small();
    match (by_rows, by_dots) {
        (true, _) if few || small => Some(Reading::Rows),
        (false, true) if few => Some(Reading::Dots),
        _ => None,
    }
}

impl<T: Factor> Product<T> {
    /// Whether `b` stays in the first-level cache.
    pub(super) fn is_small(&self) -> bool {
        self.n * self.k <= SMALL
    }
}

/// Computes these columns of a product of few rows.
///
/// # Safety
/// As for `execute`; no other thread touches these columns, and `reading` is the product's.
pub(super) unsafe fn columns<T: Factor<Unit = T> + InPlaceUnit>(
    product: &Product<T>,
    columns: Range<usize>,
    reading: Reading,
) {
    // SAFETY: passed on from the caller.
    unsafe {
        match reading {
            Reading::Rows => by_rows(product, columns),
            Reading::Dots if product.a.column == 1 || product.k == 1 => by_dots(product, columns),
            Reading::Dots => {
                // Few rows: cheap to bring into order.
                with_scratch(Count::of(product.m) * product.k, |a: *mut T| {
                    pack_lines::<T>(product.a_lines(0, product.m, 0, product.k), a, product.k);
                    let mut ordered = *product;
                    ordered.a.at = a;
                    ordered.a.row = product.k as isize;
                    ordered.a.column = 1;
                    by_dots(&ordered, columns);
                });
            }
        }
    }
}

/// # Safety
/// As for [`columns`].
unsafe fn by_rows<T: Factor<Unit = T> + InPlaceUnit>(product: &Product<T>, columns: Range<usize>) {
    let mut steps = Steps::default();
    for start in columns.clone().step_by(MAX_COLUMNS) {
        let count = MAX_COLUMNS.min(columns.end - start);
        for rows in even_parts(product.m, SKINNY_ROWS) {
            steps.take(rows.len() * count * product.k);
            let mut block = MaybeUninit::<[T; SKINNY_ROWS * MAX_COLUMNS]>::uninit();
            // Sums are stored by whole vectors, and may not go beyond these columns.
            let in_out = match count.is_multiple_of(T::block().1) {
                true => product.sums_in_out(rows.start, start),
                false => None,
            };
            let sums: Sums<T> = in_out.unwrap_or_else(|| Sums {
                at: block.as_mut_ptr().cast(),
                row: MAX_COLUMNS,
            });
            let operands = InPlace {
                a: product.a.from(rows.start, 0).at,
                a_row: product.a.row,
                a_step: product.a.column,
                b: product.b.from(0, start).at,
                b_next: product.b.row,
                steps: product.k,
                rows: rows.len(),
                columns: count,
            };
            // SAFETY: rows and columns lie within the operands; the block has room for their sums.
            unsafe {
                T::skinny(&operands, sums);
                product.finish((rows.start, rows.len()), (start, count), sums);
            }
        }
    }
}

/// # Safety
/// As for [`columns`]; the steps of both operands are neighbours.
unsafe fn by_dots<T: Factor<Unit = T> + InPlaceUnit>(product: &Product<T>, columns: Range<usize>) {
    let mut steps = Steps::default();
    for start in columns.clone().step_by(MAX_COLUMNS) {
        let count = MAX_COLUMNS.min(columns.end - start);
        for rows in even_parts(product.m, DOT_ROWS) {
            steps.take(rows.len() * count * product.k);
            let mut block = MaybeUninit::<[T; DOT_ROWS * MAX_COLUMNS]>::uninit();
            let sums: Sums<T> = product
                .sums_in_out(rows.start, start)
                .unwrap_or_else(|| Sums {
                    at: block.as_mut_ptr().cast(),
                    row: MAX_COLUMNS,
                });
            let operands = InPlace {
                a: product.a.from(rows.start, 0).at,
                a_row: product.a.row,
                a_step: 1,
                b: product.b.from(0, start).at,
                b_next: product.b.column,
                steps: product.k,
                rows: rows.len(),
                columns: count,
            };
            // SAFETY: rows and columns lie within the operands; the block has room for their sums.
            unsafe {
                T::dots(&operands, sums);
                product.finish((rows.start, rows.len()), (start, count), sums);
            }
        }
    }
}
