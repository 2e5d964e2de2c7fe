//! Convolution and its transpose.
//!
//! A part of the image is copied, padding and all, so that what a tap of the window contributes to neighbouring
//! elements of the result lies side by side; then each element is one sum over channels and taps, in one order,
//! kept in registers. How the work was divided cannot be seen in the result.

mod axis;
mod image;
mod plan;
mod pointwise;
mod store;
mod sums;
mod weights;

use streampool_device::Conv;

use self::axis::Axis;
use self::plan::Plan;
use self::sums::Summed;
use super::convert::{Float, with_float};
use crate::team::Team;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Conv, team: &dyn Team) -> Result<(), String> {
    if op.dst.layout().elements() == 0 {
        return Ok(());
    }
    if let Some(product) = pointwise::product(op) {
        // SAFETY: the product reads and writes the elements that the convolution does.
        return unsafe { super::matmul::execute(&product, team) };
    }
    with_float!(op.src.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { direct::<T>(op, team) };
        Ok(())
    })
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn direct<T: Float>(op: &Conv, team: &dyn Team)
where
    T::Wide: Summed,
{
    for axes in phases(op) {
        // SAFETY: passed on from the caller; phases write different elements of the result.
        unsafe {
            let weights = weights::Weights::<T>::new(op, &axes);
            Plan::new(op, axes, team.width()).execute::<T>(&weights, team);
        }
    }
}

/// The convolutions that the op is made of, by their dimensions: one, or for the transpose one for each place
/// of the result between two neighbours of the source, because each sees other taps.
fn phases(op: &Conv) -> Vec<[Axis; 3]> {
    let along: Vec<Vec<Axis>> = (0..3)
        .map(|place| {
            // Missing dimensions come first, and have one element.
            let Some(axis) = (place + op.window.len()).checked_sub(3) else {
                return vec![Axis::single()];
            };
            let slide = &op.window[axis];
            let (size, outputs) = (op.src.shape()[axis + 2], op.dst.shape()[axis + 2]);
            match op.transposed {
                false => vec![Axis::forward(slide, size, outputs)],
                true => (0..outputs.min(slide.stride as usize))
                    .map(|phase| Axis::transposed(slide, size, outputs, phase))
                    .collect(),
            }
        })
        .collect();
    let mut phases = Vec::new();
    for z in &along[0] {
        for y in &along[1] {
            for x in &along[2] {
                phases.push([z.clone(), y.clone(), x.clone()]);
            }
        }
    }
    phases
}
