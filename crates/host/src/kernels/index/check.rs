//! Whether all indices are in range.

use std::sync::atomic::{AtomicBool, Ordering};

use streampool_device::{Indexing, MAX_RANK, View};
use streampool_kernels::{IndexedAxis, Places};

use super::indices::{GRAIN, Indices, is_outside};
use crate::given_up::{self, Steps};
use crate::kernels::scratch;
use crate::kernels::split::split;
use crate::kernels::strided::Walk;
use crate::team::Team;

/// Fails with the first index that is out of range.
///
/// # Safety
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn indices(
    indexing: Indexing,
    places: &Places,
    indices: &View,
    team: &dyn Team,
) -> Result<(), String> {
    let layout = indices.layout();
    // In a list of indices each is for an axis of its own.
    let listed = match indexing {
        Indexing::Nd(_) => layout.rank() - 1,
        Indexing::Axis(_) | Indexing::Elements(_) => layout.rank(),
    };
    // Along a broadcast axis all are one index.
    let mut shape = [0; MAX_RANK];
    let strides = &layout.strides()[..listed];
    for (size, (&all, &stride)) in shape.iter_mut().zip(layout.shape().iter().zip(strides)) {
        *size = if stride == 0 { all.min(1) } else { all };
    }
    let shape = &shape[..listed];
    let walk = Walk::new(shape, [strides]);
    let ([step], indices) = (walk.run_strides(), Indices::new(indices));
    for (number, axis) in places.axes().iter().enumerate() {
        let ahead = number as isize * places.step;
        let outside = AtomicBool::new(false);
        split(walk.elements(), 4 * GRAIN, team, &|range| {
            let mut steps = Steps::default();
            walk.for_each_run(range, &mut |[offset], length| {
                steps.take(8 + length);
                // SAFETY: the walk stays inside the indices.
                if unsafe { indices.any_outside(offset + ahead, step, length, axis.size as i64) } {
                    outside.store(true, Ordering::Relaxed);
                }
            });
        });
        if outside.into_inner() {
            let list = (listed < layout.rank()).then_some(number);
            // SAFETY: passed on.
            return Err(unsafe { complaint(&walk, shape, indices, ahead, axis, list) });
        }
    }
    Ok(())
}

/// What is said of the first index that is out of range.
///
/// # Safety
/// As for [`indices`].
#[cold]
unsafe fn complaint(
    walk: &Walk<1>,
    shape: &[usize],
    indices: Indices,
    ahead: isize,
    axis: &IndexedAxis,
    list: Option<usize>,
) -> String {
    let [step] = walk.run_strides();
    let (mut number, mut found) = (0, None);
    for start in (0..walk.elements()).step_by(GRAIN) {
        given_up::check();
        walk.for_each_run(start..start + GRAIN, &mut |[offset], length| {
            for element in 0..length as isize {
                // SAFETY: the walk stays inside the indices.
                let index = unsafe { indices.value(offset + ahead + element * step) };
                if found.is_none() && is_outside(index, axis.size as i64) {
                    found = Some((number, index));
                }
                number += 1;
            }
        });
        if found.is_some() {
            break;
        }
    }
    let (mut number, index) = found.unwrap_or_default();
    let mut place: Vec<usize> = scratch::list(shape.iter().copied());
    for (at, &size) in place.iter_mut().zip(shape).rev() {
        *at = number % size.max(1);
        number /= size.max(1);
    }
    if let Some(number) = list {
        scratch::push(&mut place, number);
    }
    format!(
        "index {index} at {place:?} is out of range for axis {} of {} elements",
        axis.axis, axis.size
    )
}
