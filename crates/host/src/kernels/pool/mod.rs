//! Pooling.

mod indexed;
mod kinds;
mod last;
mod place;
mod rows;

use half::{bf16, f16};
use streampool_device::{Pool, PoolKind};

use self::kinds::{AbsoluteSum, Largest, Lp, Mean, Pooling, RootOfSquares};
use super::combine::Reducible;
use super::convert::{Float, with_float, with_types};
use super::real::Real;
use super::reduce;
use crate::team::Team;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Pool, team: &dyn Team) -> Result<(), String> {
    if op.dst.layout().elements() == 0 {
        return Ok(());
    }
    if let Some((kind, axes)) = op.as_reduction() {
        // SAFETY: passed on from the caller; the views fit a reduction.
        unsafe { reduce::execute(kind, &op.src, &op.dst, axes, team) };
        return Ok(());
    }
    match op.kind {
        PoolKind::Max => with_types!(op.src.dtype(), T => {
            // SAFETY: the elements are of type `T`; the rest is passed on.
            unsafe { largest::<T>(op, team) };
            Ok(())
        }, {
            F32 = f32, F16 = f16, BF16 = bf16, F64 = f64, I8 = i8, U8 = u8, I16 = i16, U16 = u16,
            I32 = i32, U32 = u32, I64 = i64, U64 = u64
        }, other => Err(format!("the largest of {other} reached the kernels"))),
        PoolKind::Mean { .. } | PoolKind::Lp(_) => with_float!(op.src.dtype(), T => {
            // SAFETY: the elements are of type `T`; the rest is passed on.
            unsafe { summed::<T>(op, team) };
            Ok(())
        }),
    }
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn largest<T: Reducible>(op: &Pool, team: &dyn Team) {
    // SAFETY: passed on from the caller.
    unsafe {
        match &op.indices {
            Some(indices) => indexed::execute::<T>(op, indices, team),
            None => windows(op, &Largest::<T>::new(), team),
        }
    }
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn summed<T: Float>(op: &Pool, team: &dyn Team) {
    // SAFETY: passed on from the caller.
    unsafe {
        match op.kind {
            PoolKind::Lp(1.0) => windows(op, &AbsoluteSum::<T>::new(), team),
            PoolKind::Lp(2.0) => windows(op, &RootOfSquares::<T>::new(), team),
            PoolKind::Lp(power) => {
                let power = T::Wide::from_f64(power);
                windows(op, &Lp::<T> { power }, team);
            }
            PoolKind::Max | PoolKind::Mean { .. } => windows(op, &Mean::<T>::new(), team),
        }
    }
}

/// # Safety
/// As for [`execute`]; the elements are those of the pooling.
unsafe fn windows<P: Pooling>(op: &Pool, pooling: &P, team: &dyn Team) {
    // SAFETY: passed on from the caller.
    unsafe {
        match last::suits(op) {
            true => last::execute(op, pooling, team),
            false => rows::execute(op, pooling, team),
        }
    }
}
