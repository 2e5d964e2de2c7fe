//! Products of few rows: where they are worth a kernel of their own.

use streampool_device::{DType, MatMul};

use super::dots::Dots;
use super::few_rows::MOST_ROWS;
use super::problem::{Batch, Problem};
use super::sums::Sums;
use crate::dispatch::{Dispatch, Limits, Params, Plan, grid};

/// The widest load of a thread, in bytes.
const WIDEST_LOAD: usize = 16;
/// Sizes and distances within one matrix stay below this, so that 32 bits hold them.
const FAR: i64 = 1 << 27;
/// The most bytes of the second operand that one group may have to read: more should be spread further than
/// groups that each compute whole results can spread it.
const MOST_BYTES_PER_GROUP: usize = 512 << 10;

/// Which way the second operand is dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Along the inner dimension.
    Columns,
    /// Along the columns of the result.
    Rows,
}

/// What executes a product if no form for few rows does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rival {
    /// A vendor's library.
    Library,
    /// Our own kernel for any product.
    Tiled,
}

/// A kernel for few rows.
pub(super) enum Small {
    /// For dense columns.
    Dots(Dots),
    /// For dense rows.
    Sums(Sums),
}

/// The launch that executes `op`, if one of the forms for few rows is better at it than `rival`.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    rival: Rival,
    kind: impl FnOnce(Small) -> K,
) -> Option<Plan<K>> {
    if !matches!(op.a.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return None;
    }
    if problem.m <= MOST_ROWS {
        of_few_rows(op, problem, limits, rival, kind)
    } else if problem.n <= MOST_ROWS {
        of_few_rows(op, &problem.transposed(), limits, rival, kind)
    } else {
        None
    }
}

fn of_few_rows<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    rival: Rival,
    kind: impl FnOnce(Small) -> K,
) -> Option<Plan<K>> {
    let order = regular(problem)?;
    let size = op.a.dtype().size();
    let matrices = problem.matrices();
    let width = width(op, problem, order);
    let (kernel, columns, threads) = match order {
        Order::Columns => {
            let kernel = Dots::new(op, problem, width, limits);
            (Small::Dots(kernel), kernel.columns(), kernel.threads())
        }
        Order::Rows => {
            let kernel = Sums::new(op, problem, width, limits);
            (Small::Sums(kernel), kernel.columns(), kernel.threads())
        }
    };
    let loses = problem.n * problem.k * size > most_bytes(problem.m, size, order)
        || columns.min(problem.n) * problem.k * size > MOST_BYTES_PER_GROUP;
    if rival == Rival::Library && loses {
        return None;
    }
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: grid([problem.n.div_ceil(columns), matrices, 1]),
        threads,
        operands: problem.operands(op),
        params: values(op.alpha, problem, order),
    }))
}

/// Which way `b` is dense, if `a` is dense along its rows and all is near.
fn regular(problem: &Problem) -> Option<Order> {
    let Problem { m, n, k, a, b, .. } = *problem;
    let near = |size: usize| size < FAR as usize;
    let fits = near(n)
        && (1..FAR as usize).contains(&k)
        && (a.column == 1 || k == 1)
        && (m == 1 || (0..FAR).contains(&a.row))
        && problem.batch().len() <= 1
        && problem.matrices() <= usize::from(u16::MAX);
    match fits {
        true if b.row == 1 || k == 1 && b.column != 1 => Some(Order::Columns),
        true if b.column == 1 || n == 1 => Some(Order::Rows),
        _ => None,
    }
}

/// Up to how many bytes of `b` it pays not to use matrix units, which `rows` keep busy the more there are.
fn most_bytes(rows: usize, element: usize, order: Order) -> usize {
    let most = match (rows, element) {
        (0..=4, _) => usize::MAX,
        (5..=8, 4) => 64 << 20,
        (5..=8, _) | (_, 4) => 8 << 20,
        _ => 2 << 20,
    };
    match order {
        Order::Columns => most,
        Order::Rows => most / 2,
    }
}

/// How many elements a thread can load at once, by what everything is a multiple of.
fn width(op: &MatMul, problem: &Problem, order: Order) -> u32 {
    let [a, b] = problem.factors(op);
    let size = a.dtype().size();
    let batch = problem.batch().first().copied().unwrap_or_default();
    let [a_start, b_start] = [a, b].map(|view| view.span().offset);
    let (elements, bytes) = match order {
        Order::Columns => (
            problem.k as i64
                | problem.a.at
                | problem.a.row
                | problem.b.at
                | problem.b.column
                | batch.a
                | batch.b,
            a_start | b_start,
        ),
        Order::Rows => (
            problem.n as i64 | problem.b.at | problem.b.row | batch.b,
            b_start,
        ),
    };
    let widest =
        (elements.wrapping_mul(size as i64) | (bytes | WIDEST_LOAD) as i64).trailing_zeros();
    (1u32 << widest) / size as u32
}

/// The values of `fields`.
fn values(alpha: f64, problem: &Problem, order: Order) -> Params {
    let Problem {
        a, b, out, bias, ..
    } = *problem;
    let batch: Batch = problem.batch().first().copied().unwrap_or_default();
    let b_line = match order {
        Order::Columns => b.column,
        Order::Rows => b.row,
    };
    Params::new()
        .i64(a.at)
        .i64(b.at)
        .i64(out.at)
        .i64(bias.at)
        .i64(batch.a)
        .i64(batch.b)
        .i64(batch.out)
        .i64(batch.bias)
        .i64(b_line)
        .i64(out.row)
        .i64(out.column)
        .i64(bias.row)
        .i64(bias.column)
        .size(if problem.m == 1 { 0 } else { a.row as usize })
        .size(problem.m)
        .size(problem.n)
        .size(problem.k)
        .f32(alpha as f32)
}
