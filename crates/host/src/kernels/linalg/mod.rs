//! Factorisations and solves: each matrix is packed into scratch memory, worked on there, and stored.

mod block;
mod factor;
mod update;

use std::sync::atomic::{AtomicBool, Ordering};

use streampool_device::{DType, Linalg, View};

use self::block::{Block, Number};
use self::update::{Triangle, solve};
use super::scratch::{Count, LINE, filled, with_scratch};
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::given_up;
use crate::team::{Solo, Team};

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 16;

/// Executes it.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Linalg, team: &dyn Team) -> Result<(), String> {
    let dtype = match op {
        Linalg::Lu { src, .. }
        | Linalg::Triangular { src, .. }
        | Linalg::Cholesky { src, .. }
        | Linalg::Inverse { src, .. } => src.dtype(),
        Linalg::LuSolve { factors, .. } => factors.dtype(),
    };
    // SAFETY: the element type is the views'; the rest is passed on.
    unsafe {
        match dtype {
            DType::F32 => run::<f32>(op, team),
            DType::F64 => run::<f64>(op, team),
            other => Err(format!("a matrix of {other} reached the kernels")),
        }
    }
}

/// # Safety
/// As for [`execute`]; the matrices are of type `T`.
unsafe fn run<T: Number>(op: &Linalg, team: &dyn Team) -> Result<(), String> {
    let result = match op {
        Linalg::Lu { factors, .. } => factors,
        Linalg::LuSolve { dst, .. }
        | Linalg::Triangular { dst, .. }
        | Linalg::Cholesky { dst, .. }
        | Linalg::Inverse { dst, .. } => dst,
    };
    // There may be any number of matrices without elements.
    if result.layout().elements() == 0 {
        return Ok(());
    }
    match op {
        Linalg::Lu {
            src,
            factors,
            pivots,
        } => {
            let (from, to) = (matrix::<T>(src), matrix::<T>(factors));
            let (numbers, step) = (Shared(address::<i32>(pivots)), last_stride(pivots));
            let (rows, columns) = (from.rows, from.columns);
            let steps = rows.min(columns);
            let work = rows.saturating_mul(columns).saturating_mul(steps);
            each([src, factors, pivots], work, team, &|[a, b, p], team| {
                let mut chosen = filled(0i32, Count::of(steps));
                with_block(rows, columns, |block| {
                    // SAFETY: the matrices are as validated, and nobody else has these.
                    unsafe {
                        block.copy_from(from.moved(a));
                        factor::lu(block, &mut chosen, team);
                        to.moved(b).copy_from(block);
                    }
                });
                for (index, &row) in chosen.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { *numbers.at(p + index as isize * step) = row };
                }
            });
        }
        Linalg::LuSolve {
            factors,
            pivots,
            rhs,
            dst,
        } => {
            let (system, from, to) = (matrix::<T>(factors), matrix::<T>(rhs), matrix::<T>(dst));
            let (numbers, step) = (Shared(address::<i32>(pivots)), last_stride(pivots));
            let (size, columns) = (from.rows, from.columns);
            let strays = AtomicBool::new(false);
            let views = [factors, rhs, dst, pivots];
            let work = size.saturating_mul(size).saturating_mul(columns);
            each(views, work, team, &|[a, b, c, p], team| {
                with_two(size, size, columns, |lu, x| {
                    // SAFETY: the matrices are as validated, and nobody else has these.
                    unsafe {
                        lu.copy_from(system.moved(a));
                        x.copy_from(from.moved(b));
                        for row in 0..size {
                            let pivot = *numbers.at(p + row as isize * step);
                            match usize::try_from(pivot) {
                                Ok(pivot) if pivot < size => x.exchange(row, pivot),
                                _ => strays.store(true, Ordering::Relaxed),
                            }
                        }
                        solve_both(lu, x, team);
                        to.moved(c).copy_from(x);
                    }
                });
            });
            if strays.into_inner() {
                return Err(format!("a pivot is not the number of one of {size} rows"));
            }
        }
        Linalg::Triangular {
            src,
            rhs,
            dst,
            upper,
            unit,
        } => {
            let (system, from, to) = (matrix::<T>(src), matrix::<T>(rhs), matrix::<T>(dst));
            let (size, columns) = (from.rows, from.columns);
            let work = size.saturating_mul(size).saturating_mul(columns) / 2;
            each([src, rhs, dst], work, team, &|[a, b, c], team| {
                with_two(size, size, columns, |block, x| {
                    let triangle = Triangle {
                        block,
                        upper: *upper,
                        unit: *unit,
                    };
                    // SAFETY: the matrices are as validated, and nobody else has these.
                    unsafe {
                        copy_triangle(block, system.moved(a), *upper);
                        x.copy_from(from.moved(b));
                        solve(triangle, x, team);
                        to.moved(c).copy_from(x);
                    }
                });
            });
        }
        Linalg::Cholesky { src, dst } => {
            let (from, to) = (matrix::<T>(src), matrix::<T>(dst));
            let size = from.rows;
            let work = size.saturating_mul(size).saturating_mul(size) / 3;
            each([src, dst], work, team, &|[a, b], team| {
                with_block(size, size, |block| {
                    // SAFETY: the matrices are as validated, and nobody else has these.
                    unsafe {
                        copy_triangle(block, from.moved(a), false);
                        factor::cholesky(block, team);
                        // Products of whole blocks have left something above the diagonal.
                        copy_triangle(to.moved(b), block, false);
                    }
                });
            });
        }
        Linalg::Inverse { src, dst } => {
            let (from, to) = (matrix::<T>(src), matrix::<T>(dst));
            let size = from.rows;
            each(
                [src, dst],
                (2 * size).saturating_mul(size).saturating_mul(size),
                team,
                &|[a, b], team| {
                    let mut pivots = filled(0i32, Count::of(size));
                    with_two(size, size, size, |lu, x| {
                        // SAFETY: the matrices are as validated, and nobody else has these.
                        unsafe {
                            lu.copy_from(from.moved(a));
                            factor::lu(lu, &mut pivots, team);
                            write_identity(x);
                            for (row, &pivot) in pivots.iter().enumerate() {
                                x.exchange(row, pivot as usize);
                            }
                            solve_both(lu, x, team);
                            to.moved(b).copy_from(x);
                        }
                    });
                },
            );
        }
    }
    Ok(())
}

/// The first matrix of a view.
fn matrix<T: Number>(view: &View) -> Block<T> {
    let (shape, strides) = (view.shape(), view.layout().strides());
    let lead = shape.len() - 2;
    Block {
        at: address(view),
        rows: shape[lead],
        columns: shape[lead + 1],
        row: strides[lead],
        column: strides[lead + 1],
    }
}

impl<T: Number> Block<T> {
    fn moved(self, offset: isize) -> Self {
        Block {
            at: self.at.wrapping_offset(offset),
            ..self
        }
    }
}

fn last_stride(view: &View) -> isize {
    view.layout().strides().last().copied().unwrap_or(0)
}

/// Calls `work` for each index of the leading dimensions of the first view, all but the last two, with the
/// offset of its matrix in each view: spread over the team if there are several, else with the team.
fn each<const N: usize>(
    views: [&View; N],
    multiplications: usize,
    team: &dyn Team,
    work: &(dyn Fn([isize; N], &dyn Team) + Sync),
) {
    let lead = views[0].layout().rank() - 2;
    let strides = views.map(|view| &view.layout().strides()[..lead]);
    let walk = Walk::new(&views[0].shape()[..lead], strides);
    let steps = walk.run_strides();
    let visit = |range: std::ops::Range<usize>, team: &dyn Team| {
        walk.for_each_run(range, &mut |offsets, length| {
            for index in 0..length as isize {
                given_up::check();
                let at = std::array::from_fn(|view| offsets[view] + index * steps[view]);
                work(at, team);
            }
        });
    };
    if walk.elements() < team.width() {
        visit(0..walk.elements(), team);
    } else {
        let grain = GRAIN.div_ceil(multiplications.max(1));
        split(walk.elements(), grain, team, &|range| visit(range, &Solo));
    }
}

/// Calls `f` with scratch for a matrix.
fn with_block<T: Number>(rows: usize, columns: usize, f: impl FnOnce(Block<T>)) {
    with_scratch(Count::of(rows) * columns, |memory: *mut T| {
        f(Block::dense(memory, rows, columns));
    });
}

/// Calls `f` with scratch for a matrix of `rows` and `columns`, and for one of `rows` and `others`.
fn with_two<T: Number>(
    rows: usize,
    columns: usize,
    others: usize,
    f: impl FnOnce(Block<T>, Block<T>),
) {
    // The second begins at a cache line.
    let first = (Count::of(rows) * columns).rounded_to(LINE / size_of::<T>());
    with_scratch(first + Count::of(rows) * others, |memory: *mut T| {
        let second = memory.wrapping_add(first.here());
        f(
            Block::dense(memory, rows, columns),
            Block::dense(second, rows, others),
        );
    });
}

/// Reads a triangle with its diagonal; the rest is zero.
///
/// # Safety
/// As for [`Block::copy_from`].
unsafe fn copy_triangle<T: Number>(to: Block<T>, from: Block<T>, upper: bool) {
    for row in 0..to.rows {
        for column in 0..to.columns {
            let inside = if upper { column >= row } else { column <= row };
            // SAFETY: the caller's promise.
            unsafe {
                *to.place(row, column) = if inside {
                    from.get(row, column)
                } else {
                    T::ZERO
                };
            }
        }
    }
}

/// # Safety
/// The block can be written, and nobody else uses it meanwhile.
unsafe fn write_identity<T: Number>(to: Block<T>) {
    for row in 0..to.rows {
        for column in 0..to.columns {
            // SAFETY: the caller's promise.
            unsafe { *to.place(row, column) = if row == column { T::ONE } else { T::ZERO } };
        }
    }
}

/// `x = u⁻¹ l⁻¹ x`.
///
/// # Safety
/// As for [`solve`].
unsafe fn solve_both<T: Number>(lu: Block<T>, x: Block<T>, team: &dyn Team) {
    let triangle = |upper| Triangle {
        block: lu,
        upper,
        unit: !upper,
    };
    // SAFETY: passed on from the caller.
    unsafe {
        solve(triangle(false), x, team);
        solve(triangle(true), x, team);
    }
}
