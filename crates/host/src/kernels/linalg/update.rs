//! What the factorisations and solves spend their time in: products that are subtracted, and triangular solves.
//!
//! Work is divided in the same way whatever the number of threads, so that results are the same bits.

use streampool_device::{Activation, MatMul};

use super::block::{Block, Number};
use crate::given_up;
use crate::kernels::matmul;
use crate::kernels::scratch::{Count, with_scratch};
use crate::kernels::simd::vectorised;
use crate::team::{Solo, Team};

/// Products of fewer multiplications are computed where they are.
const LITTLE: usize = 1 << 13;
/// The sides of the pieces in which a product is subtracted.
const PIECE: [usize; 2] = [256, 256];
/// Triangles of at most this size are solved row by row.
const SHORT: usize = 32;
/// Right-hand sides that are solved together.
const TOGETHER: usize = 64;
/// Multiplications that are worth other threads.
const WORTH_SPLITTING: usize = 1 << 19;

/// Calls `work` with each number below `parts`, on several threads if there are multiplications enough.
pub(super) fn spread(
    parts: usize,
    multiplications: usize,
    team: &dyn Team,
    work: &(dyn Fn(usize) + Sync),
) {
    if parts < 2 || multiplications < WORTH_SPLITTING {
        (0..parts).for_each(work);
    } else {
        team.run(parts, work);
    }
}

/// `c -= a b`; the columns of `c` are neighbours.
///
/// # Safety
/// The blocks can be used, `c` is written, and nobody else uses that meanwhile.
pub(super) unsafe fn subtract_product<T: Number>(
    c: Block<T>,
    a: Block<T>,
    b: Block<T>,
    team: &dyn Team,
) {
    given_up::check();
    let multiplications = c.rows.saturating_mul(c.columns);
    let multiplications = multiplications.saturating_mul(a.columns);
    if multiplications < LITTLE || c.columns < 8 {
        // SAFETY: passed on from the caller.
        return unsafe { subtract_here(c, a, b) };
    }
    let [down, across] = [c.rows.div_ceil(PIECE[0]), c.columns.div_ceil(PIECE[1])];
    spread(down * across, multiplications, team, &|piece| {
        let rows = piece / across * PIECE[0];
        let columns = piece % across * PIECE[1];
        let rows = rows..(rows + PIECE[0]).min(c.rows);
        let columns = columns..(columns + PIECE[1]).min(c.columns);
        // SAFETY: pieces are disjoint; the rest the caller promises.
        unsafe {
            subtract_piece(
                c.part(rows.clone(), columns.clone()),
                a.part(rows, 0..a.columns),
                b.part(0..b.rows, columns),
            );
        }
    });
}

/// # Safety
/// As for [`subtract_product`].
unsafe fn subtract_piece<T: Number>(c: Block<T>, a: Block<T>, b: Block<T>) {
    with_scratch(Count::of(c.rows) * c.columns, |memory: *mut T| {
        let product = Block::<T>::dense(memory, c.rows, c.columns);
        let views = a.view().and_then(|a| Ok([a, b.view()?, product.view()?]));
        let done = views.and_then(|[a, b, out]| {
            let op = MatMul {
                a,
                b,
                out,
                bias: None,
                activation: Activation::None,
                alpha: 1.0,
            };
            // SAFETY: the factors can be read, and the scratch is this call's alone.
            unsafe { matmul::execute(&op, None, &Solo) }
        });
        match done {
            // SAFETY: the product was written; the rest the caller promises.
            Ok(()) => unsafe { subtract(c, product) },
            // No product is too large for a view: its factors are blocks of memory. It is computed all the same.
            // SAFETY: passed on from the caller.
            Err(_) => unsafe { subtract_here(c, a, b) },
        }
    });
}

vectorised! {
    /// `c -= d`.
    ///
    /// # Safety
    /// Both can be read and `c` written.
    unsafe fn subtract[T: Number](c: Block<T>, d: Block<T>) {
        for row in 0..c.rows {
            // SAFETY: the caller's promise.
            let (to, from) = unsafe { (c.row_mut(row), d.row(row, c.columns)) };
            for (to, &from) in to.iter_mut().zip(from) {
                *to = *to - from;
            }
        }
    }
}

vectorised! {
    /// `c -= a b`, element by element or row by row.
    ///
    /// # Safety
    /// As for [`subtract_product`].
    unsafe fn subtract_here[T: Number](c: Block<T>, a: Block<T>, b: Block<T>) {
        for row in 0..c.rows {
            // SAFETY: the caller's promise.
            unsafe {
                let to = c.row_mut(row);
                if b.column == 1 && c.columns > 1 {
                    for inner in 0..a.columns {
                        let factor = a.get(row, inner);
                        for (to, &from) in to.iter_mut().zip(b.row(inner, c.columns)) {
                            *to = *to - factor * from;
                        }
                    }
                } else {
                    for (column, to) in to.iter_mut().enumerate() {
                        *to = *to - dot(a.part(row..row + 1, 0..a.columns), b.part(0..b.rows, column..column + 1));
                    }
                }
            }
        }
    }
}

/// Sums that run side by side.
const LANES: usize = 16;

/// The product of a row and a column.
///
/// # Safety
/// Both can be read.
#[inline(always)]
pub(super) unsafe fn dot<T: Number>(row: Block<T>, column: Block<T>) -> T {
    let length = row.columns;
    let mut sums = [T::ZERO; LANES];
    let whole = length / LANES * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        if row.column == 1 && column.row == 1 {
            for from in (0..whole).step_by(LANES) {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum = *sum + *row.at.add(from + lane) * *column.at.add(from + lane);
                }
            }
        } else {
            for index in 0..whole {
                let sum = &mut sums[index % LANES];
                *sum = *sum + row.get(0, index) * column.get(index, 0);
            }
        }
        for index in whole..length {
            sums[0] = sums[0] + row.get(0, index) * column.get(index, 0);
        }
    }
    sums.into_iter()
        .reduce(|sum, next| sum + next)
        .unwrap_or(T::ZERO)
}

/// A triangle, and how it is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Triangle<T> {
    pub(super) block: Block<T>,
    pub(super) upper: bool,
    pub(super) unit: bool,
}

impl<T: Number> Triangle<T> {
    fn part(self, from: usize, to: usize) -> Self {
        Triangle {
            block: self.block.part(from..to, from..to),
            ..self
        }
    }
}

/// `x = t⁻¹ x`; the columns of `x` are neighbours.
///
/// # Safety
/// The triangle can be read and `x` written, and nobody else uses that meanwhile.
pub(super) unsafe fn solve<T: Number>(t: Triangle<T>, x: Block<T>, team: &dyn Team) {
    let parts = x.columns.div_ceil(TOGETHER);
    spread(parts, x.rows * x.rows / 2 * x.columns, team, &|part| {
        let columns = part * TOGETHER..((part + 1) * TOGETHER).min(x.columns);
        // SAFETY: the columns are this part's; the rest the caller promises.
        unsafe { solve_columns(t, x.part(0..x.rows, columns)) };
    });
}

/// # Safety
/// As for [`solve`].
unsafe fn solve_columns<T: Number>(t: Triangle<T>, x: Block<T>) {
    let (size, all) = (x.rows, 0..x.columns);
    // SAFETY: passed on from the caller.
    unsafe {
        if size <= SHORT {
            return solve_short(t, x);
        }
        let half = (size / 2).next_multiple_of(8);
        let [top, bottom] = [x.part(0..half, all.clone()), x.part(half..size, all)];
        if t.upper {
            solve_columns(t.part(half, size), bottom);
            subtract_product(top, t.block.part(0..half, half..size), bottom, &Solo);
            solve_columns(t.part(0, half), top);
        } else {
            solve_columns(t.part(0, half), top);
            subtract_product(bottom, t.block.part(half..size, 0..half), top, &Solo);
            solve_columns(t.part(half, size), bottom);
        }
    }
}

vectorised! {
    /// # Safety
    /// As for [`solve`].
    unsafe fn solve_short[T: Number](t: Triangle<T>, x: Block<T>) {
        for step in 0..x.rows {
            let row = if t.upper { x.rows - 1 - step } else { step };
            let known = if t.upper { row + 1..x.rows } else { 0..row };
            // SAFETY: the caller's promise; the other rows are not this one.
            unsafe {
                let to = x.row_mut(row);
                for other in known {
                    let factor = t.block.get(row, other);
                    for (to, &from) in to.iter_mut().zip(x.row(other, x.columns)) {
                        *to = *to - factor * from;
                    }
                }
                if !t.unit {
                    let pivot = t.block.get(row, row);
                    to.iter_mut().for_each(|to| *to = *to / pivot);
                }
            }
        }
    }
}
