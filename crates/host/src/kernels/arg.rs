//! The index of the largest or smallest element.

use super::combine::{Combine, Reducible};
use super::real::is_nan;
use super::reduce::{CHUNK, GRAIN, Plan, row};
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::address;
use crate::given_up;
use crate::team::Team;

/// Writes, for each kept element, the index of the first that `K` chooses.
///
/// # Safety
/// As for [`execute`](super::execute); the elements are of type `T`, the results `i64`.
pub(super) unsafe fn arg<T: Reducible, K: Combine<T::Wide>>(plan: &Plan, team: &dyn Team) {
    let (from, to) = (
        Shared(address::<T>(plan.src)),
        Shared(address::<i64>(plan.dst)),
    );
    let steps = plan.kept.run_strides();
    // One axis is reduced, so it is one run.
    let ([step], length) = (plan.reduced.run_strides(), plan.reduced.elements());
    split(
        plan.kept.elements(),
        GRAIN.div_ceil(length.max(1)),
        team,
        &|range| {
            plan.kept.for_each_run(range, |offsets, count| {
                for index in 0..count as isize {
                    // SAFETY: the plan's offsets lie in the views; ranges are disjoint.
                    unsafe {
                        let from = from.at(offsets[0] + index * steps[0]);
                        let found = first::<T, K>(from, step, length);
                        to.at(offsets[1] + index * steps[1]).write(found as i64);
                    }
                }
            });
        },
    );
}

/// Where the first of the largest or smallest is.
///
/// # Safety
/// So many elements can be read.
unsafe fn first<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    step: isize,
    length: usize,
) -> usize {
    let chunks = || {
        (0..length).step_by(CHUNK).map(|start| {
            if start > 0 {
                given_up::check();
            }
            let from = from.wrapping_offset(start as isize * step);
            (start, from, CHUNK.min(length - start))
        })
    };
    let wanted = chunks().fold(K::IDENTITY, |wanted, (_, from, count)| {
        // SAFETY: the caller's promise.
        K::combine(wanted, unsafe { row::<T, K>(from, step, count) })
    });
    let found = chunks().find_map(|(start, from, count)| {
        // SAFETY: as above.
        let place = unsafe { position::<T>(from, step, count, wanted) };
        (place < count).then_some(start + place)
    });
    found.unwrap_or(length)
}

vectorised! {
    /// Where the first element equal to `wanted` is, or the first NaN if that is wanted.
    ///
    /// # Safety
    /// The run can be read.
    unsafe fn position[T: Reducible](from: *const T, step: isize, length: usize, wanted: T::Wide) -> usize {
        let mut index = 0;
        let nan = is_nan(wanted);
        while index < length {
            // SAFETY: the caller's promise.
            let value = unsafe { (*from.offset(index as isize * step)).widen() };
            if value == wanted || nan && is_nan(value) {
                break;
            }
            index += 1;
        }
        index
    }
}
