//! Indices as distances.

use streampool_device::View;
use streampool_kernels::Places;

use super::indices::{Indices, position};

/// Distances that are worked out before they are used.
const AHEAD: usize = 256;

/// A part of a run of indexed elements.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    /// All have the same indices, which lead this far.
    Slice { offset: isize, length: usize },
    /// Each has its own, which lead so far.
    Elements(&'a [isize]),
}

/// Indices that are in range, and where they lead.
pub(super) struct Resolved<'a> {
    places: &'a Places,
    indices: Indices,
}

impl<'a> Resolved<'a> {
    pub(super) fn new(places: &'a Places, indices: &View) -> Self {
        Resolved {
            places,
            indices: Indices::new(indices),
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
        if step == 0 {
            let mut only = [0];
            // SAFETY: the caller's promise.
            unsafe { self.resolve(at, 0, &mut only) };
            let [offset] = only;
            return f(0, Part::Slice { offset, length });
        }
        let mut offsets = [0isize; AHEAD];
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
                let index = unsafe { self.indices.value(at + number * self.places.step) };
                *only += position(index, axis.size as i64) as isize * axis.stride;
            }
            return;
        }
        offsets.fill(0);
        for (number, axis) in (0..).zip(self.places.axes()) {
            let at = at + number * self.places.step;
            let (size, stride) = (axis.size as i64, axis.stride);
            // SAFETY: the caller's promise.
            unsafe { self.indices.advance(at, step, size, stride, offsets) };
        }
    }
}
