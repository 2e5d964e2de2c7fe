//! Putting by index: in the order of the updates, whoever does it.

use std::ops::Range;

use streampool_device::{MAX_RANK, Scatter};
use streampool_kernels::Places;

use super::indices::GRAIN;
use super::resolve::{Part, Resolved};
use crate::given_up;
use crate::kernels::combine::{Combine, Reducible};
use crate::kernels::convert::Native;
use crate::kernels::rows::prefetch;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::{Walk, address};
use crate::team::Team;

/// What becomes of an element when another is put where it is.
pub(super) trait Put<T> {
    /// Whether that is the new one, whatever the old one is.
    const REPLACES: bool = false;
    /// What is left of both.
    fn put(old: T, new: T) -> T;
}

/// The new one.
pub(super) enum Overwrite {}

impl<T> Put<T> for Overwrite {
    const REPLACES: bool = true;

    #[inline(always)]
    fn put(_old: T, new: T) -> T {
        new
    }
}

/// Both combined.
pub(super) struct With<K>(K);

impl<T: Reducible, K: Combine<T::Wide>> Put<T> for With<K> {
    #[inline(always)]
    fn put(old: T, new: T) -> T {
        T::finish(K::combine(old.widen(), new.widen()), None)
    }
}

/// Puts all updates where they belong.
///
/// Threads share the work along a dimension in which different updates never meet, so that each place gets
/// its updates in their order.
///
/// # Safety
/// As for [`scatter`](super::scatter); elements can be taken for `T`, and all indices are in range.
pub(super) unsafe fn put<T: Native, P: Put<T>>(op: &Scatter, places: &Places, team: &dyn Team) {
    let shape = op.updates.shape();
    let elements = op.updates.layout().elements();
    let apart = (0..shape.len())
        .filter(|&axis| places.data[axis] != 0)
        .max_by_key(|&axis| shape[axis]);
    let Some(axis) = apart else {
        // SAFETY: passed on.
        return unsafe { put_part::<T, P>(op, places, None) };
    };
    // Each thread goes through all indices, so there are no more parts than threads.
    let grain = (GRAIN * shape[axis]).div_ceil(elements.max(1));
    let grain = grain.max(shape[axis].div_ceil(team.width()));
    split(shape[axis], grain, team, &|range| {
        // SAFETY: passed on; ranges of an axis along which places differ are disjoint.
        unsafe { put_part::<T, P>(op, places, Some((axis, range))) };
    });
}

/// After so many updates it is asked whether anybody still wants the work.
const AT_ONCE: usize = 1 << 20;

/// # Safety
/// As for [`put`]; nobody else puts anything into the same range of the axis.
unsafe fn put_part<T: Native, P: Put<T>>(
    op: &Scatter,
    places: &Places,
    part: Option<(usize, Range<usize>)>,
) {
    let strides = [op.updates.layout().strides(), &places.indices, &places.data];
    let rank = op.updates.shape().len();
    let mut shape = [1; MAX_RANK];
    shape[..rank].copy_from_slice(op.updates.shape());
    let mut start = [0isize; 3];
    if let Some((axis, range)) = part {
        shape[axis] = range.len();
        start = strides.map(|strides| strides[axis] * range.start as isize);
    }
    let walk = Walk::new(&shape[..rank], strides.map(|strides| &strides[..rank]));
    let from = Shared(address::<T>(&op.updates));
    let to = Shared(address::<T>(&op.dst));
    let resolved = Resolved::new(places, &op.indices);
    let [source, index_step, target] = walk.run_strides();
    let mut ahead = Ahead::<T>::new();
    for first in (0..walk.elements()).step_by(AT_ONCE) {
        given_up::check();
        walk.for_each_run(
            first..first + AT_ONCE,
            &mut |[update, index, datum], length| {
                // SAFETY: the walk stays inside the updates and the indices, which lead inside the result.
                unsafe {
                    resolved.for_each_part(index + start[1], index_step, length, |before, part| {
                        let before = before as isize;
                        let from = from.at(update + start[0] + before * source);
                        let to = to.at(datum + start[2] + before * target);
                        match part {
                            // No operand of a scatter overlaps its result.
                            Part::Slice { offset, length }
                                if P::REPLACES && [source, target] == [1, 1] =>
                            {
                                ahead.put(Slice {
                                    from,
                                    to: to.offset(offset),
                                    length,
                                });
                            }
                            part => put_run::<T, P>(from, to, [source, target], part),
                        }
                    });
                }
            },
        );
    }
    // SAFETY: as above.
    unsafe { ahead.finish() };
}

/// Elements side by side, and where they go.
#[derive(Clone, Copy)]
struct Slice<T> {
    from: *const T,
    to: *mut T,
    length: usize,
}

impl<T: Copy> Slice<T> {
    /// # Safety
    /// The elements can be read and written, and do not overlap.
    unsafe fn copy(self) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(self.from, self.to, self.length) }
    }
}

/// The slices to be put next, in their order. The memory where they go is fetched meanwhile: stores that miss the cache wait for
/// one another.
struct Ahead<T> {
    slices: [Slice<T>; SLICES_AHEAD],
    oldest: usize,
}

/// So many slices are on their way.
const SLICES_AHEAD: usize = 8;

impl<T: Copy> Ahead<T> {
    fn new() -> Self {
        let nothing = std::ptr::NonNull::<T>::dangling().as_ptr();
        let slice = Slice {
            from: nothing,
            to: nothing,
            length: 0,
        };
        Ahead {
            slices: [slice; SLICES_AHEAD],
            oldest: 0,
        }
    }

    /// Takes a slice, and puts the oldest.
    ///
    /// # Safety
    /// As for [`Slice::copy`], until it is put.
    #[inline(always)]
    unsafe fn put(&mut self, slice: Slice<T>) {
        prefetch(slice.to, slice.length);
        let oldest = std::mem::replace(&mut self.slices[self.oldest], slice);
        self.oldest = (self.oldest + 1) % SLICES_AHEAD;
        // SAFETY: promised when it came.
        unsafe { oldest.copy() };
    }

    /// Puts those that are left.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    unsafe fn finish(self) {
        let (later, first) = self.slices.split_at(self.oldest);
        for slice in first.iter().chain(later) {
            // SAFETY: promised when it came.
            unsafe { slice.copy() };
        }
    }
}

/// # Safety
/// The elements can be read and written.
#[inline(always)]
unsafe fn put_run<T: Native, P: Put<T>>(from: *const T, to: *mut T, steps: [isize; 2], part: Part) {
    let [source, target] = steps;
    // SAFETY: the caller's promise.
    unsafe {
        match part {
            Part::Slice { offset, length } if steps == [1, 1] => {
                let to = to.offset(offset);
                for element in 0..length {
                    let place = to.add(element);
                    place.write(P::put(*place, *from.add(element)));
                }
            }
            Part::Slice { offset, length } => {
                let to = to.offset(offset);
                for element in 0..length as isize {
                    let place = to.offset(element * target);
                    place.write(P::put(*place, *from.offset(element * source)));
                }
            }
            Part::Elements(offsets) => {
                for (element, &offset) in (0..).zip(offsets) {
                    let place = to.offset(offset + element * target);
                    place.write(P::put(*place, *from.offset(element * source)));
                }
            }
        }
    }
}
