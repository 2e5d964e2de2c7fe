//! The host CPU's kernels: one file for each op.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
mod attention;
#[cfg(target_arch = "x86_64")]
mod byte_lanes;
mod casts;
mod combine;
mod conv;
pub(crate) mod convert;
mod copy;
mod fill;
mod index;
mod linalg;
mod matmul;
mod norm;
mod pool;
mod preparation;
mod prepared;
mod random;
pub(crate) mod real;
mod reduce;
mod regions;
mod resize;
mod rnn;
mod rounds;
mod rows;
mod scan;
pub(crate) mod scratch;
pub(crate) mod simd;
mod smooth;
mod softmax;
mod sort;
pub(crate) mod split;
pub(crate) mod strided;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod trees;

pub(crate) use self::conv::{Then, execute_then as convolve_then};
pub(crate) use self::matmul::lanes::Bounds;
pub(crate) use self::preparation::Preparation;
pub(crate) use self::prepared::Prepared;
pub(crate) use self::simd::{features, has_byte_dots};
use crate::team::{Solo, Team};
use streampool_device::Op;

/// Executes a validated op, neither `Map` nor `Nop`, on this thread and the team's.
///
/// # Safety
/// As for [`Queue::encode`](streampool_device::Queue::encode): the spans are live allocations of the host,
/// whose handles are addresses, and nothing else touches them in conflict. It is prepared as this op, save where
/// operands lie that are no constants.
pub(crate) unsafe fn execute(op: &Op, prepared: &Prepared, team: &dyn Team) -> Result<(), String> {
    // SAFETY: passed on from the caller.
    unsafe {
        match op {
            Op::Copy { src, dst } => copy::execute(src, dst, team),
            Op::Fill { dst, value } => fill::fill(dst, *value, team),
            Op::Iota { dst, start, step } => fill::iota(dst, *start, *step, team),
            Op::Reduce {
                kind,
                src,
                dst,
                axes,
            } => reduce::execute(*kind, src, dst, *axes, team),
            Op::Softmax {
                src,
                dst,
                axis,
                log,
            } => return softmax::execute(src, dst, *axis, *log, team),
            Op::Norm(op) => return norm::execute(op, team),
            Op::MatMul(op) => return matmul::execute(op, prepared.matmul(), team),
            Op::Attention(op) => return attention::execute(op, team),
            Op::Conv(op) => return conv::execute(op, prepared.conv(), team),
            Op::Pool(op) => return pool::execute(op, team),
            Op::Resize(op) => return resize::execute(op, team),
            Op::Regions(op) => return regions::execute(op, team),
            Op::Gather(op) => return index::gather(op, team),
            Op::Scatter(op) => return index::scatter(op, team),
            Op::Scan(op) => return scan::execute(op, team),
            Op::Sort(op) => return sort::execute(op, team),
            Op::Random(op) => return random::execute(op, team),
            Op::Rnn(op) => return rnn::execute(op, prepared.rnn(), team),
            Op::Linalg(op) => return linalg::execute(op, team),
            Op::Histogram(op) => return tally::histogram(op, team),
            Op::NonZero(op) => return tally::nonzero(op, team),
            Op::Trees(op) => trees::execute(op, team),
            Op::Nop | Op::Map { .. } => unreachable!("these are executed elsewhere"),
        }
    }
    Ok(())
}

/// Executes an op on the calling thread alone: the bare kernel, for comparison with what a queue adds.
///
/// # Safety
/// As for [`Queue::encode`](streampool_device::Queue::encode), and the op has passed
/// [validation](Op::validate).
pub unsafe fn bare_execute(op: &Op) -> Result<(), String> {
    // SAFETY: passed on from the caller.
    unsafe { execute(op, &Prepared::Plain, &Solo) }
}
