//! Indices as distances.

use std::marker::PhantomData;

use streampool_device::View;
use streampool_kernels::Places;

use super::first_index;
use crate::kernels::simd::vectorised;
use crate::kernels::split::Shared;

/// Distances that are worked out before they are used.
const AHEAD: usize = 256;

/// The type of an index.
pub(super) trait Index: Copy + Send + Sync + 'static {
    /// The index as it is.
    fn value(self) -> i64;
}

impl Index for i32 {
    #[inline(always)]
    fn value(self) -> i64 {
        i64::from(self)
    }
}

impl Index for i64 {
    #[inline(always)]
    fn value(self) -> i64 {
        self
    }
}

/// A part of a run of indexed elements.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    /// All have the same indices, which lead this far.
    Slice { offset: isize, length: usize },
    /// Each has its own, which lead so far.
    Elements(&'a [isize]),
}

/// Indices that are in range, and where they lead.
pub(super) struct Resolved<'a, I> {
    places: &'a Places,
    first: Shared<I>,
    of: PhantomData<I>,
}

impl<'a, I: Index> Resolved<'a, I> {
    pub(super) fn new(places: &'a Places, indices: &View) -> Self {
        Resolved {
            places,
            first: first_index(indices),
            of: PhantomData,
        }
    }

    /// Calls `f` for each part of a run of `length` elements whose indices lie from `at` on, `step` apart, with
    /// how many elements come before it.
    ///
    /// # Safety
    /// The indices can be read.
    #[inline(always)]
    pub(super) unsafe fn for_each_part(
        &self,
        at: isize,
        step: isize,
        length: usize,
        mut f: impl FnMut(usize, Part),
    ) {
        let mut offsets = [0isize; AHEAD];
        if step == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.resolve(at, 0, &mut offsets[..1]) };
            let offset = offsets[0];
            return f(0, Part::Slice { offset, length });
        }
        for start in (0..length).step_by(AHEAD) {
            let offsets = &mut offsets[..AHEAD.min(length - start)];
            // SAFETY: the caller's promise.
            unsafe { self.resolve(at + start as isize * step, step, offsets) };
            f(start, Part::Elements(offsets));
        }
    }

    /// Where the indices from `at` on lead, `step` apart.
    ///
    /// # Safety
    /// The indices can be read.
    #[inline(always)]
    unsafe fn resolve(&self, at: isize, step: isize, offsets: &mut [isize]) {
        if let [only] = offsets {
            *only = 0;
            for (number, axis) in (0..).zip(self.places.axes()) {
                // SAFETY: the caller's promise.
                let index = unsafe { *self.first.at(at + number * self.places.step) };
                *only += position(index.value(), axis.size as i64) as isize * axis.stride;
            }
            return;
        }
        offsets.fill(0);
        for (number, axis) in (0..).zip(self.places.axes()) {
            let from = self.first.at(at + number * self.places.step);
            // SAFETY: the caller's promise.
            unsafe { advance::<I>(from, step, axis.size as i64, axis.stride, offsets) };
        }
    }
}

/// Negative indices count from the end.
#[inline(always)]
fn position(index: i64, size: i64) -> i64 {
    index + (index >> 63 & size)
}

vectorised! {
    /// Adds to each offset what its index leads to.
    ///
    /// # Safety
    /// The indices can be read.
    unsafe fn advance[I: Index](
        from: *const I,
        step: isize,
        size: i64,
        stride: isize,
        offsets: &mut [isize],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for (element, offset) in offsets.iter_mut().enumerate() {
                    *offset += position((*from.add(element)).value(), size) as isize * stride;
                }
            } else {
                for (element, offset) in offsets.iter_mut().enumerate() {
                    let index = *from.offset(element as isize * step);
                    *offset += position(index.value(), size) as isize * stride;
                }
            }
        }
    }
}
