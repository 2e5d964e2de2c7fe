//! About how long an op takes, to decide who is worth waking for it.

use streampool_device::{Linalg, Op, Pool, Resize, View};

/// Nanoseconds of work that are begun before anybody flushes or waits. Whoever submitted less most often waits for it
/// soon, and then executes it on processors that are awake, with none of the changes of threads that a worker costs.
pub(crate) const WORTH_WAKING: u64 = 10_000_000;

/// Nanoseconds of work from which splitting an op over threads pays.
pub(crate) const WORTH_SPLITTING: u64 = 20_000;
/// The same for convolutions: most follow one another, so whoever helps is awake.
pub(crate) const CONV_WORTH_SPLITTING: u64 = 10_000;

/// Rows of a product that take no longer than reading the other operand.
const FEW_ROWS: usize = 2;

/// How long one thread takes for `op`, in nanoseconds; right within a factor of a few.
pub(crate) fn estimate(op: &Op) -> u64 {
    let nanoseconds = match op {
        Op::MatMul(op) => {
            let depth = op.a.shape().last().copied().unwrap_or(1);
            // Few rows wait for the memory that the other operand comes from.
            let rate = match op.out.shape() {
                [.., rows, columns] if *rows.min(columns) <= FEW_ROWS => 8,
                _ => 32,
            };
            elements(&op.out).saturating_mul(depth) / rate
        }
        Op::Conv(op) => {
            let taps: usize = op.weight.shape()[2..].iter().product();
            let read = op.src.shape()[1] / op.groups;
            let spread = if op.transposed { &op.src } else { &op.dst };
            let around = (elements(&op.src) + elements(&op.dst)) / 4;
            let made = op.dst.shape()[1] / op.groups;
            let pixels: usize = spread.shape()[2..].iter().product();
            let work = [
                op.src.shape()[0],
                op.groups,
                made,
                read.max(1),
                taps,
                pixels,
            ];
            work.into_iter().fold(1, usize::saturating_mul) / 32 + around
        }
        Op::Pool(op) => pool(op),
        Op::Resize(op) => resize(op),
        Op::Regions(op) => {
            elements(&op.dst).saturating_mul(4 * op.samples.clamp(2, 1 << 10).pow(2))
        }
        Op::Map { expr, outputs, .. } => {
            let groups = outputs.iter().step_by(expr.outputs().len().max(1));
            groups
                .map(elements)
                .sum::<usize>()
                .saturating_mul(expr.nodes().len())
                / 4
        }
        Op::Copy { dst, .. } => elements(dst) / 2,
        Op::Fill { dst, .. } | Op::Iota { dst, .. } => elements(dst) / 4,
        Op::Reduce { src, .. } => elements(src) / 2,
        Op::Softmax { src, .. } => elements(src) * 2,
        Op::Norm(op) => elements(&op.src),
        Op::Attention(op) => {
            let rows = elements(&op.out) / op.value.shape()[3].max(1);
            let width = op.query.shape()[3] + op.value.shape()[3];
            let scores = rows.saturating_mul(op.key.shape()[2]);
            scores.saturating_mul(width) / 16
        }
        Op::Rnn(op) => {
            let products = elements(&op.weight).saturating_add(elements(&op.recurrent));
            let rows = op.src.shape()[0].saturating_mul(op.src.shape()[1]);
            rows.saturating_mul(products) / 16
        }
        Op::Random(op) => elements(&op.dst) * 2,
        Op::Linalg(op) => linalg(op),
        Op::Gather(op) => elements(&op.dst) / 2 + elements(&op.indices),
        Op::Scatter(op) => {
            elements(&op.dst) / 2 + elements(&op.updates) * 2 + elements(&op.indices)
        }
        Op::Scan(op) => elements(&op.src) * 2,
        Op::Sort(op) => elements(&op.src) * 20,
        Op::Histogram(op) => elements(&op.src) * 4 + elements(&op.dst),
        Op::NonZero(op) => elements(&op.src) * 2,
        Op::Trees(op) => {
            let each = op.trees.saturating_mul(op.depth + 1);
            op.dst.shape()[0].saturating_mul(each)
        }
        _ => 0,
    };
    nanoseconds as u64
}

/// How long one thread takes to copy this many bytes, in nanoseconds.
pub(crate) fn copying(bytes: usize) -> u64 {
    bytes as u64 / 8
}

/// Columns are joined for each line of results, then their windows; where the place is wanted, each window is gone over.
fn pool(op: &Pool) -> usize {
    let mut taps = [1; 3];
    let sizes = op.src.shape()[2..].iter().zip(op.window.iter());
    for (taps, (&size, slide)) in taps.iter_mut().rev().zip(sizes.rev()) {
        *taps = size.min(slide.kernel as usize);
    }
    let [z, y, x] = taps;
    let last = |view: &View| view.shape().last().copied().unwrap_or(1);
    let (size, outputs) = (last(&op.src), last(&op.dst));
    let around = z.saturating_mul(y);
    let line = match &op.indices {
        None => (around.saturating_mul(size)).saturating_add(outputs.saturating_mul(x)),
        Some(_) => around.saturating_mul(x).saturating_mul(outputs),
    };
    (elements(&op.dst) / outputs.max(1)).saturating_mul(line) / 2
}

/// Each dimension is gone over, and a filter may be far wider than places are apart.
fn resize(op: &Resize) -> usize {
    let each = (elements(&op.src) + elements(&op.dst)) * 2;
    if !op.antialias {
        return each;
    }
    let sizes = op.src.shape().iter().zip(op.dst.shape());
    let often = sizes.zip(op.along.iter()).map(|((&from, &to), along)| {
        let seen = (4.0 * along.scale.max(1.0)).min(from as f64);
        (to as f64 * seen / from.max(1) as f64) as usize
    });
    each.saturating_mul(often.max().unwrap_or(1).max(1))
}

/// A multiplication for each element and each row or column that it meets.
fn linalg(op: &Linalg) -> usize {
    let (result, met) = match op {
        Linalg::Lu { factors, .. } => (factors, factors.shape()),
        Linalg::LuSolve { factors, dst, .. } => (dst, factors.shape()),
        Linalg::Triangular { src, dst, .. } => (dst, src.shape()),
        Linalg::Cholesky { dst, .. } | Linalg::Inverse { dst, .. } => (dst, dst.shape()),
    };
    elements(result).saturating_mul(met.last().copied().unwrap_or(1)) / 4
}

fn elements(view: &View) -> usize {
    view.layout().elements()
}
