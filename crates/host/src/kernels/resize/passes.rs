//! Interpolation, one dimension after the other.

use std::ops::Range;

use streampool_device::{Resize, View};

use super::taps::Taps;
use crate::given_up::{self, Steps};
use crate::kernels::convert::Float;
use crate::kernels::real::Real;
use crate::kernels::rows;
use crate::kernels::scratch::{Count, list, push, with_room, with_scratch};
use crate::kernels::simd::vectorised;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 14;
/// Elements of the result that are made at a time, about, so that what is between stays in the cache.
const BLOCK: usize = 1 << 16;

/// # Safety
/// As for `execute`; the elements are of type `T`.
pub(super) unsafe fn execute<T: Float>(op: &Resize, team: &dyn Team) {
    let plan = Plan::new(op);
    let grain = GRAIN.div_ceil(plan.block_elements());
    split(plan.slices * plan.bands, grain, team, &|range| {
        with_scratch(plan.scratch(), |scratch: *mut T::Wide| {
            for number in range.clone() {
                // SAFETY: blocks are disjoint, and the scratch has the room that the plan asks for; the rest the
                // caller promises.
                unsafe { plan.block::<T>(number, scratch) };
            }
        });
    });
}

/// The dimensions from the first that is interpolated, made block by block.
struct Plan<'a> {
    op: &'a Resize,
    /// The first dimension that is interpolated.
    first: usize,
    /// Choices of the dimensions before it.
    slices: usize,
    /// Into how many bands it is cut.
    bands: usize,
    /// One for each dimension from the first; `None` where places are the elements.
    taps: Vec<Option<Taps>>,
    /// The order in which they are gone over.
    order: Vec<usize>,
}

impl<'a> Plan<'a> {
    fn new(op: &'a Resize) -> Self {
        let (from, to) = (op.src.shape(), op.dst.shape());
        let taps = |axis: usize| {
            let taps = Taps::new(op, axis);
            (!taps.is_identity(from[axis])).then_some(taps)
        };
        let mut all: Vec<Option<Taps>> = list((0..to.len()).map(taps));
        let first = all.iter().position(Option::is_some).unwrap_or(to.len());
        let taps = all.split_off(first);
        // What shrinks comes first, then the last dimension, of which each element is picked alone.
        let last = to.len().wrapping_sub(1);
        let mut order: Vec<usize> = list(first..to.len());
        order.retain(|&axis| taps[axis - first].is_some());
        order.sort_by_key(|&axis| (to[axis] >= from[axis], axis != last));
        let elements: usize = to[first..].iter().product();
        let most = to.get(first).copied().unwrap_or(1);
        Plan {
            op,
            first,
            slices: to[..first].iter().product(),
            bands: elements.div_ceil(BLOCK).clamp(1, most),
            taps,
            order,
        }
    }

    fn block_elements(&self) -> usize {
        let elements: usize = self.op.dst.shape()[self.first..].iter().product();
        elements.div_ceil(self.bands)
    }

    /// The places of a band along the first dimension.
    fn band(&self, band: usize) -> Range<usize> {
        let places = self.op.dst.shape().get(self.first).copied().unwrap_or(1);
        places * band / self.bands..places * (band + 1) / self.bands
    }

    /// The elements of the source along the first dimension that a band is made of.
    fn seen(&self, band: Range<usize>) -> Range<usize> {
        let Some(Some(taps)) = self.taps.first() else {
            return 0..1;
        };
        let elements = || {
            band.clone().flat_map(|place| {
                given_up::check();
                taps.of(place).iter().map(|tap| tap.0)
            })
        };
        elements().min().unwrap_or(0)..elements().max().map_or(1, |last| last + 1)
    }

    /// The sizes of a band of the source.
    fn source_sizes(&self, band: Range<usize>) -> Vec<usize> {
        let mut sizes = list(self.op.src.shape()[self.first..].iter().copied());
        if let Some(size) = sizes.first_mut() {
            *size = self.seen(band).len();
        }
        sizes
    }

    /// How many numbers the two halves of the scratch hold.
    fn scratch(&self) -> Count {
        let most = (0..self.bands).map(|band| self.half(self.band(band)));
        Count::of(most.max().unwrap_or(0)) * 2
    }

    /// The most numbers there are of a band between two dimensions.
    fn half(&self, band: Range<usize>) -> usize {
        let mut sizes = self.source_sizes(band.clone());
        let mut most: usize = sizes.iter().product();
        for &axis in &self.order {
            sizes[axis - self.first] = self.places(axis, &band);
            most = most.max(sizes.iter().product());
        }
        most
    }

    fn places(&self, axis: usize, band: &Range<usize>) -> usize {
        match axis == self.first {
            true => band.len(),
            false => self.op.dst.shape()[axis],
        }
    }

    /// # Safety
    /// As for `execute`; the elements are of type `T`, and `scratch` has room for so many numbers.
    unsafe fn block<T: Float>(&self, number: usize, scratch: *mut T::Wide) {
        let (slice, band) = (number / self.bands, self.band(number % self.bands));
        let half = self.half(band.clone());
        let (mut now, mut next) = (scratch, scratch.wrapping_add(half));
        let mut sizes = self.source_sizes(band.clone());
        let seen = self.seen(band.clone());
        let start = self.start(&self.op.src, slice, seen.start);
        let strides = &self.op.src.layout().strides()[self.first..];
        let walk = Walk::new(&sizes, [strides]);
        let (mut done, mut steps) = (0, Steps::default());
        walk.for_each_run(0..walk.elements(), &mut |[offset], count| {
            // SAFETY: the run lies in the source, and the numbers in the scratch.
            unsafe {
                let row = std::slice::from_raw_parts_mut(now.add(done), count);
                row.fill(T::Wide::ZERO);
                let from = address::<T>(&self.op.src).wrapping_offset(start + offset);
                rows::read::<T>(from, walk.run_strides()[0], row);
            }
            done += count;
            steps.take(count);
        });
        for &axis in &self.order {
            let Some(taps) = &self.taps[axis - self.first] else {
                continue;
            };
            let at = axis - self.first;
            let (outer, inner): (usize, usize) = (
                sizes[..at].iter().product(),
                sizes[at + 1..].iter().product(),
            );
            let (places, skipped) = match axis == self.first {
                true => (band.clone(), seen.start),
                false => (0..self.op.dst.shape()[axis], 0),
            };
            let pass = Pass {
                taps,
                places: places.clone(),
                skipped,
                size: sizes[at],
                inner,
            };
            let pairs = match inner {
                1 => pass.pairs::<T::Wide>(),
                _ => None,
            };
            if let Some(pairs) = pairs {
                steps.take(outer * pairs.len());
                // SAFETY: both halves have room for all that a pass reads and writes.
                unsafe { interpolate_along(&pairs, outer, now, sizes[at], next) };
                sizes[at] = places.len();
                std::mem::swap(&mut now, &mut next);
                continue;
            }
            for index in 0..outer {
                // SAFETY: as above.
                unsafe {
                    let from = now.add(index * sizes[at] * inner);
                    let to = next.add(index * places.len() * inner);
                    interpolate::<T::Wide>(&pass, from, to);
                }
            }
            sizes[at] = places.len();
            std::mem::swap(&mut now, &mut next);
        }
        if let Some(value) = self.op.outside {
            // SAFETY: as many numbers were made as the sizes say.
            unsafe { self.put_outside(now, &sizes, &band, T::Wide::from_f64(value)) };
        }
        let start = self.start(&self.op.dst, slice, band.start);
        let strides = &self.op.dst.layout().strides()[self.first..];
        let walk = Walk::new(&sizes, [strides]);
        let mut done = 0;
        let to = Shared(address::<T>(&self.op.dst));
        walk.for_each_run(0..walk.elements(), &mut |[offset], count| {
            // SAFETY: the run lies in the block of the result, and the numbers in the scratch.
            unsafe {
                let row = std::slice::from_raw_parts(now.add(done), count);
                rows::write::<T>(row, to.at(start + offset), walk.run_strides()[0]);
            }
            done += count;
        });
    }

    /// Where a slice begins in a view, from element `first` of the first dimension on.
    fn start(&self, view: &View, mut slice: usize, first: usize) -> isize {
        let (shape, strides) = (view.shape(), view.layout().strides());
        let mut start = strides
            .get(self.first)
            .map_or(0, |stride| first as isize * stride);
        for axis in (0..self.first).rev() {
            start += (slice % shape[axis]) as isize * strides[axis];
            slice /= shape[axis];
        }
        start
    }

    /// Puts the value in all places that lie outside along any dimension.
    ///
    /// # Safety
    /// There are as many numbers as the sizes say.
    unsafe fn put_outside<R: Real>(
        &self,
        numbers: *mut R,
        sizes: &[usize],
        band: &Range<usize>,
        value: R,
    ) {
        for (at, taps) in self.taps.iter().enumerate() {
            let Some(taps) = taps else {
                continue;
            };
            let first = if at == 0 { band.start } else { 0 };
            let inner: usize = sizes[at + 1..].iter().product();
            let outer: usize = sizes[..at].iter().product();
            for place in (0..sizes[at]).filter(|place| taps.is_outside[first + place]) {
                for index in 0..outer {
                    // SAFETY: the places are counted by the sizes.
                    unsafe {
                        let from = numbers.add((index * sizes[at] + place) * inner);
                        std::slice::from_raw_parts_mut(from, inner).fill(value);
                    }
                }
            }
        }
    }
}

/// One dimension that is gone over.
struct Pass<'a> {
    taps: &'a Taps,
    places: Range<usize>,
    /// Elements of the source that are not there.
    skipped: usize,
    /// Elements that are.
    size: usize,
    /// Neighbours that are interpolated alike.
    inner: usize,
}

/// What two elements count for a place: most places are made of no more. Where there is only one, it counts twice by half.
type Pair<R> = ([usize; 2], [R; 2]);

impl Pass<'_> {
    /// What each place is made of, if that is never more than two elements.
    fn pairs<R: Real>(&self) -> Option<Vec<Pair<R>>> {
        let mut pairs = with_room(Count::of(self.places.len()));
        for place in self.places.clone() {
            let taps = self.taps.of(place);
            let (&first, &last) = (taps.first()?, taps.last()?);
            let (elements, weights) = match taps.len() {
                1 => ([first.0; 2], [R::from_f64(first.1 / 2.0); 2]),
                2 => (
                    [first.0, last.0],
                    [first, last].map(|tap| R::from_f64(tap.1)),
                ),
                _ => return None,
            };
            push(
                &mut pairs,
                (elements.map(|element| element - self.skipped), weights),
            );
        }
        Some(pairs)
    }
}

vectorised! {
    /// Each place of so many rows, whose places follow one another.
    ///
    /// # Safety
    /// What the pass sees can be read of each row, and each place be written.
    unsafe fn interpolate_along[R: Real](pairs: &[Pair<R>], rows: usize, from: *const R, size: usize, to: *mut R) {
        for row in 0..rows {
            let (from, to) = (from.wrapping_add(row * size), to.wrapping_add(row * pairs.len()));
            for (index, ([one, other], [weight, rest])) in pairs.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { *to.add(index) = *from.add(*one) * *weight + *from.add(*other) * *rest };
            }
        }
    }
}

vectorised! {
    /// # Safety
    /// What the pass sees can be read, and a row for each of its places be written.
    unsafe fn interpolate[R: Real](pass: &Pass<'_>, from: *const R, to: *mut R) {
        let (inner, mut steps) = (pass.inner, Steps::default());
        for (row, place) in pass.places.clone().enumerate() {
            let to = to.wrapping_add(row * inner);
            let mut taps = pass.taps.of(place);
            steps.take(taps.len() * inner);
            let row_of = |element: usize| {
                debug_assert!(element - pass.skipped < pass.size);
                from.wrapping_add((element - pass.skipped) * inner)
            };
            // SAFETY: the caller's promise.
            unsafe {
                match taps {
                    &[(one, weight), (other, rest), ref left @ ..] => {
                        let (one, other) = (row_of(one), row_of(other));
                        let (weight, rest) = (R::from_f64(weight), R::from_f64(rest));
                        for index in 0..inner {
                            *to.add(index) = *one.add(index) * weight + *other.add(index) * rest;
                        }
                        taps = left;
                    }
                    &[(one, weight), ref left @ ..] => {
                        let (one, weight) = (row_of(one), R::from_f64(weight));
                        for index in 0..inner {
                            *to.add(index) = *one.add(index) * weight;
                        }
                        taps = left;
                    }
                    [] => {}
                }
                for &(element, weight) in taps {
                    let (from, weight) = (row_of(element), R::from_f64(weight));
                    for index in 0..inner {
                        *to.add(index) = *to.add(index) + *from.add(index) * weight;
                    }
                }
            }
        }
    }
}
