//! The host CPU's kernels: one file for each op.

mod arg;
mod combine;
pub(crate) mod convert;
mod copy;
mod fill;
mod matmul;
mod norm;
pub(crate) mod real;
mod reduce;
mod rows;
pub(crate) mod scratch;
pub(crate) mod simd;
mod softmax;
pub(crate) mod split;
pub(crate) mod strided;
#[cfg(test)]
mod tests;

pub(crate) use self::simd::features;
use crate::team::{Solo, Team};
use streampool_device::{Op, OpKind};

/// Executes a validated op, neither `Map` nor `Nop`, on this thread and the team's.
///
/// # Safety
/// As for [`Queue::encode`](streampool_device::Queue::encode): the spans are live allocations of the host,
/// whose handles are addresses, and nothing else touches them in conflict.
pub(crate) unsafe fn execute(op: &Op, team: &dyn Team) -> Result<(), String> {
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
            Op::MatMul(op) => return matmul::execute(op, team),
            other => return Err(format!("the host has no kernel for {}", other.kind())),
        }
    }
    Ok(())
}

/// Whether the host executes ops of this kind, here or elsewhere.
pub(crate) fn supports(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Nop
            | OpKind::Map
            | OpKind::Copy
            | OpKind::Fill
            | OpKind::Iota
            | OpKind::Reduce
            | OpKind::Softmax
            | OpKind::Norm
            | OpKind::MatMul
    )
}

/// Executes an op on the calling thread alone: the bare kernel, for comparison with what a queue adds.
///
/// # Safety
/// As for [`Queue::encode`](streampool_device::Queue::encode), and the op has passed
/// [validation](Op::validate).
pub unsafe fn bare_execute(op: &Op) -> Result<(), String> {
    // SAFETY: passed on from the caller.
    unsafe { execute(op, &Solo) }
}
