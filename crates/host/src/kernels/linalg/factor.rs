//! Factorisations, by halves: most of the work is in products.

use super::block::{Block, Number};
use super::update::{Triangle, dot, solve, spread, subtract_product};
use crate::kernels::simd::vectorised;
use crate::team::{Solo, Team};

/// Columns that are factorised one by one.
const NARROW: usize = 16;
/// Rows that are solved together.
const ROWS: usize = 64;

/// Factorises `a` in place, row after row in memory, and tells with which row each was exchanged.
///
/// # Safety
/// The block can be written, and nobody else uses it meanwhile.
pub(super) unsafe fn lu<T: Number>(a: Block<T>, pivots: &mut [i32], team: &dyn Team) {
    let steps = a.rows.min(a.columns);
    // SAFETY: passed on from the caller.
    unsafe {
        lu_columns(a, 0, steps, pivots, team);
        let triangle = Triangle {
            block: a.part(0..steps, 0..steps),
            upper: false,
            unit: true,
        };
        solve(triangle, a.part(0..steps, steps..a.columns), team);
    }
}

/// Factorises columns `from..to`, in which everything to the left of them is taken into account.
///
/// # Safety
/// As for [`lu`].
unsafe fn lu_columns<T: Number>(
    a: Block<T>,
    from: usize,
    to: usize,
    pivots: &mut [i32],
    team: &dyn Team,
) {
    // SAFETY: passed on from the caller; the parts do not overlap.
    unsafe {
        if to - from <= NARROW {
            return lu_narrow(a, from, to, pivots);
        }
        let middle = from + ((to - from) / 2).next_multiple_of(8);
        lu_columns(a, from, middle, pivots, team);
        let triangle = Triangle {
            block: a.part(from..middle, from..middle),
            upper: false,
            unit: true,
        };
        let beside = a.part(from..middle, middle..to);
        solve(triangle, beside, team);
        let below = a.part(middle..a.rows, from..middle);
        subtract_product(a.part(middle..a.rows, middle..to), below, beside, team);
        lu_columns(a, middle, to, pivots, team);
    }
}

vectorised! {
    /// # Safety
    /// As for [`lu`].
    unsafe fn lu_narrow[T: Number](a: Block<T>, from: usize, to: usize, pivots: &mut [i32]) {
        for (step, pivot_row) in (from..to).zip(&mut pivots[from..to]) {
            // SAFETY: the caller's promise; exchanged rows are the block's.
            unsafe {
                let chosen = largest_in_column(a, step);
                *pivot_row = chosen as i32;
                a.exchange(step, chosen);
                let pivot = a.get(step, step);
                if pivot == T::ZERO {
                    // Nothing is left to eliminate: the factors exist all the same.
                    continue;
                }
                let line = &a.row(step, to)[step + 1..];
                for row in step + 1..a.rows {
                    let factor = a.get(row, step) / pivot;
                    *a.place(row, step) = factor;
                    let rest = &mut a.row_mut(row)[step + 1..to];
                    for (rest, &above) in rest.iter_mut().zip(line) {
                        *rest = *rest - factor * above;
                    }
                }
            }
        }
    }
}

/// The row, from `step` on, with the largest element of column `step`: the first of equals, and none with NaN unless
/// it is the first.
///
/// # Safety
/// The column can be read.
#[inline(always)]
unsafe fn largest_in_column<T: Number>(a: Block<T>, step: usize) -> usize {
    let (mut chosen, mut largest) = (step, -T::ONE);
    for row in step..a.rows {
        // SAFETY: the caller's promise.
        let value = unsafe { a.get(row, step) };
        let size = if value < T::ZERO { -value } else { value };
        if size > largest {
            (chosen, largest) = (row, size);
        }
    }
    chosen
}

/// The lower factor of `a`, of which the lower triangle is used, in its place.
///
/// # Safety
/// As for [`lu`].
pub(super) unsafe fn cholesky<T: Number>(a: Block<T>, team: &dyn Team) {
    let size = a.rows;
    // SAFETY: passed on from the caller; the parts do not overlap.
    unsafe {
        if size <= NARROW {
            return cholesky_narrow(a);
        }
        let half = (size / 2).next_multiple_of(8);
        let (above, below) = (a.part(0..half, 0..half), a.part(half..size, 0..half));
        cholesky(above, team);
        solve_rows(above, below, team);
        let rest = a.part(half..size, half..size);
        subtract_square(rest, below, team);
        cholesky(rest, team);
    }
}

vectorised! {
    /// # Safety
    /// As for [`lu`].
    unsafe fn cholesky_narrow[T: Number](a: Block<T>) {
        for column in 0..a.columns {
            for row in column..a.rows {
                // SAFETY: the caller's promise.
                unsafe {
                    let left = a.part(row..row + 1, 0..column);
                    let above = a.part(column..column + 1, 0..column).transposed();
                    let rest = a.get(row, column) - dot(left, above);
                    *a.place(row, column) = match row == column {
                        true => rest.sqrt(),
                        false => rest / a.get(column, column),
                    };
                }
            }
        }
    }
}

/// `x = x l⁻ᵀ` for a lower triangle `l`.
///
/// # Safety
/// As for [`solve`].
unsafe fn solve_rows<T: Number>(l: Block<T>, x: Block<T>, team: &dyn Team) {
    let parts = x.rows.div_ceil(ROWS);
    spread(parts, x.rows * l.rows * l.rows / 2, team, &|part| {
        let rows = part * ROWS..((part + 1) * ROWS).min(x.rows);
        // SAFETY: the rows are this part's; the rest the caller promises.
        unsafe { solve_some_rows(l, x.part(rows, 0..x.columns)) };
    });
}

/// # Safety
/// As for [`solve`].
unsafe fn solve_some_rows<T: Number>(l: Block<T>, x: Block<T>) {
    let (size, all) = (l.rows, 0..x.rows);
    // SAFETY: passed on from the caller; the parts do not overlap.
    unsafe {
        if size <= NARROW {
            return solve_rows_narrow(l, x);
        }
        let half = (size / 2).next_multiple_of(8);
        let [left, right] = [x.part(all.clone(), 0..half), x.part(all, half..size)];
        solve_some_rows(l.part(0..half, 0..half), left);
        let across = l.part(half..size, 0..half).transposed();
        subtract_product(right, left, across, &Solo);
        solve_some_rows(l.part(half..size, half..size), right);
    }
}

vectorised! {
    /// # Safety
    /// As for [`solve`].
    unsafe fn solve_rows_narrow[T: Number](l: Block<T>, x: Block<T>) {
        for row in 0..x.rows {
            for column in 0..x.columns {
                // SAFETY: the caller's promise.
                unsafe {
                    let known = x.part(row..row + 1, 0..column);
                    let factors = l.part(column..column + 1, 0..column).transposed();
                    let rest = x.get(row, column) - dot(known, factors);
                    *x.place(row, column) = rest / l.get(column, column);
                }
            }
        }
    }
}

/// `c -= b bᵀ`, as far as the lower triangle needs it.
///
/// # Safety
/// As for [`subtract_product`].
unsafe fn subtract_square<T: Number>(c: Block<T>, b: Block<T>, team: &dyn Team) {
    let (size, all) = (c.rows, 0..b.columns);
    // SAFETY: passed on from the caller; the parts do not overlap.
    unsafe {
        if size <= 2 * ROWS {
            return subtract_product(c, b, b.transposed(), team);
        }
        let half = (size / 2).next_multiple_of(8);
        let [above, below] = [b.part(0..half, all.clone()), b.part(half..size, all)];
        subtract_square(c.part(0..half, 0..half), above, team);
        subtract_product(c.part(half..size, 0..half), below, above.transposed(), team);
        subtract_square(c.part(half..size, half..size), below, team);
    }
}
