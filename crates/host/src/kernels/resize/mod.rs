//! Interpolation to another size.
//!
//! Along each dimension a table says what each place is made of; dimensions are then gone over one by one.

mod nearest;
mod passes;
mod taps;

use streampool_device::{Interpolation, Resize};

use super::convert::{with_float, with_native};
use crate::team::Team;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Resize, team: &dyn Team) -> Result<(), String> {
    if op.dst.layout().elements() == 0 {
        return Ok(());
    }
    match op.interpolation {
        Interpolation::Nearest(rounding) => with_native!(op.src.dtype(), T => {
            // SAFETY: the elements are of type `T`; the rest is passed on.
            unsafe { nearest::execute::<T>(op, rounding, team) }
        }),
        Interpolation::Linear | Interpolation::Cubic(_) => {
            return with_float!(op.src.dtype(), T => {
                // SAFETY: the elements are of type `T`; the rest is passed on.
                unsafe { passes::execute::<T>(op, team) };
                Ok(())
            });
        }
    }
    Ok(())
}
