//! About how long an op takes, to decide who is worth waking for it.

use streampool_device::{Op, View};

/// Nanoseconds of work from which waking another thread pays.
pub(crate) const WORTH_WAKING: u64 = 100_000;

/// Nanoseconds of work from which splitting an op over threads pays.
pub(crate) const WORTH_SPLITTING: u64 = 20_000;

/// How long one thread takes for `op`, in nanoseconds; right within a factor of a few.
pub(crate) fn estimate(op: &Op) -> u64 {
    let nanoseconds = match op {
        Op::MatMul(op) => {
            let depth = op.a.shape().last().copied().unwrap_or(1);
            elements(&op.out).saturating_mul(depth) / 32
        }
        Op::Map { expr, outputs, .. } => {
            outputs
                .first()
                .map_or(0, elements)
                .saturating_mul(expr.nodes().len())
                / 4
        }
        Op::Copy { dst, .. } => elements(dst) / 2,
        Op::Fill { dst, .. } | Op::Iota { dst, .. } => elements(dst) / 4,
        Op::Reduce { src, .. } => elements(src) / 2,
        Op::Softmax { src, .. } => elements(src) * 2,
        Op::Norm(op) => elements(&op.src),
        _ => 0,
    };
    nanoseconds as u64
}

/// How long one thread takes to copy this many bytes, in nanoseconds.
pub(crate) fn copying(bytes: usize) -> u64 {
    bytes as u64 / 8
}

fn elements(view: &View) -> usize {
    view.layout().elements()
}
