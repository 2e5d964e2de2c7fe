//! Interpolation to another size.
//!
//! Along each dimension a table says what each place is made of; dimensions are then gone over one by one.

mod nearest;
mod passes;
mod taps;

use std::cmp::Reverse;

use streampool_device::{Interpolation, Layout, MAX_RANK, Resize, View};

use super::convert::{with_float, with_native};
use crate::team::Team;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Resize, team: &dyn Team) -> Result<(), String> {
    if op.dst.layout().elements() == 0 {
        return Ok(());
    }
    let turned = as_it_lies(op);
    let op = turned.as_ref().unwrap_or(op);
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

/// The same op with its dimensions in the order in which both pictures lie, if that is another one: each dimension is gone over
/// on its own.
fn as_it_lies(op: &Resize) -> Option<Resize> {
    let rank = op.dst.layout().rank();
    let far = |view: &View, axis: usize| view.layout().strides()[axis].unsigned_abs();
    let mut axes = [0, 1, 2, 3, 4, 5, 6, 7];
    let axes: &mut [usize] = axes.get_mut(..rank)?;
    axes.sort_by_key(|&axis| Reverse(far(&op.dst, axis)));
    let rises = axes
        .windows(2)
        .any(|pair| far(&op.src, pair[0]) < far(&op.src, pair[1]));
    if rises || axes.is_sorted() {
        return None;
    }
    let view = |view: &View| {
        let (mut sizes, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for (place, &axis) in axes.iter().enumerate() {
            (sizes[place], strides[place]) = (view.shape()[axis], view.layout().strides()[axis]);
        }
        let layout = Layout::strided(&sizes[..rank], &strides[..rank], view.layout().offset());
        View::new(view.span(), view.dtype(), layout.ok()?).ok()
    };
    let mut along = op.along;
    for (place, &axis) in axes.iter().enumerate() {
        along[place] = op.along[axis];
    }
    Some(Resize {
        src: view(&op.src)?,
        dst: view(&op.dst)?,
        along,
        ..*op
    })
}
