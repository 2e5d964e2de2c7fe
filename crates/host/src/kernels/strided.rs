//! One walk over the index space that several layouts share, in runs of its innermost dimension.

use std::ops::Range;

use streampool_device::{MAX_RANK, View};

/// The shared index space of `N` operands, with as few dimensions as their strides allow.
///
/// Elements are numbered row-major. Dimensions of size one are dropped, and neighbours that are one
/// dimension in every operand are merged, so contiguous operands of any rank become a single run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk<const N: usize> {
    rank: usize,
    sizes: [usize; MAX_RANK],
    strides: [[isize; N]; MAX_RANK],
    elements: usize,
}

impl<const N: usize> Walk<N> {
    /// The walk over `shape`; each operand has one stride for each dimension.
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let mut walk = Self::unmerged(shape, strides);
        walk.merge();
        walk
    }

    /// As [`Walk::new`], but in the order in which operand `by` lies in memory, for work that does not
    /// care about the order.
    pub(crate) fn in_memory_order(shape: &[usize], strides: [&[isize]; N], by: usize) -> Self {
        let mut walk = Self::unmerged(shape, strides);
        // Insertion sort: stable, and at most eight dimensions.
        for end in 1..walk.rank {
            let mut at = end;
            while at > 0
                && walk.strides[at - 1][by].unsigned_abs() < walk.strides[at][by].unsigned_abs()
            {
                walk.strides.swap(at - 1, at);
                walk.sizes.swap(at - 1, at);
                at -= 1;
            }
        }
        walk.merge();
        walk
    }

    fn unmerged(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let mut walk = Walk {
            rank: 0,
            sizes: [1; MAX_RANK],
            strides: [[0; N]; MAX_RANK],
            elements: shape.iter().product(),
        };
        for (axis, &size) in shape.iter().enumerate() {
            if size != 1 {
                walk.sizes[walk.rank] = size;
                walk.strides[walk.rank] = strides.map(|strides| strides[axis]);
                walk.rank += 1;
            }
        }
        walk
    }

    fn merge(&mut self) {
        if self.elements == 0 {
            return;
        }
        let mut kept = 0;
        for axis in 1..self.rank {
            let inner = self.sizes[axis] as isize;
            let mergeable = (0..N)
                .all(|operand| self.strides[kept][operand] == self.strides[axis][operand] * inner);
            if mergeable {
                self.sizes[kept] *= self.sizes[axis];
            } else {
                kept += 1;
                self.sizes[kept] = self.sizes[axis];
            }
            self.strides[kept] = self.strides[axis];
        }
        self.rank = self.rank.min(kept + 1);
    }

    /// How many elements there are.
    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    /// The length of a whole run.
    pub(crate) fn run_length(&self) -> usize {
        match self.rank {
            0 => 1,
            rank => self.sizes[rank - 1],
        }
    }

    /// The distance between neighbours of a run, for each operand. Of a single element it says 1, so that
    /// it takes the contiguous path.
    pub(crate) fn run_strides(&self) -> [isize; N] {
        match self.rank {
            0 => [1; N],
            rank => self.strides[rank - 1],
        }
    }

    /// The sizes and strides of all dimensions left, the outermost first.
    pub(crate) fn dimensions(&self) -> impl ExactSizeIterator<Item = (usize, [isize; N])> + '_ {
        (0..self.rank).map(|axis| (self.sizes[axis], self.strides[axis]))
    }

    /// Calls `f` for each run of the elements numbered `range`, in order, with the run's first element as an
    /// offset into each operand (in elements) and its length. Runs at the ends of the range may be parts.
    pub(crate) fn for_each_run(&self, range: Range<usize>, f: &mut dyn FnMut([isize; N], usize)) {
        self.each_run(range, f);
    }

    /// As [`Walk::for_each_run`], compiled for each `f`: where runs may be of few elements.
    #[inline]
    pub(crate) fn each_run(&self, range: Range<usize>, mut f: impl FnMut([isize; N], usize)) {
        let mut left = range.end.min(self.elements).saturating_sub(range.start);
        if left == 0 {
            return;
        }
        let Some(inner) = self.rank.checked_sub(1) else {
            return f([0; N], 1);
        };
        if inner == 0 {
            let mut offsets = self.strides[0];
            for offset in &mut offsets {
                *offset *= range.start as isize;
            }
            return f(offsets, left);
        }
        let (mut index, mut offsets) = self.locate(range.start);
        let mut length = (self.sizes[inner] - index[inner]).min(left);
        f(offsets, length);
        left -= length;
        for (offset, stride) in offsets.iter_mut().zip(self.strides[inner]) {
            *offset -= stride * index[inner] as isize;
        }
        while left > 0 {
            self.step(&mut index[..inner], &mut offsets);
            length = self.sizes[inner].min(left);
            f(offsets, length);
            left -= length;
        }
    }

    /// The index of the element numbered `element`, and its offset into each operand.
    fn locate(&self, mut element: usize) -> ([usize; MAX_RANK], [isize; N]) {
        let mut index = [0; MAX_RANK];
        let mut offsets = [0; N];
        for axis in (0..self.rank).rev() {
            index[axis] = element % self.sizes[axis];
            element /= self.sizes[axis];
            for (offset, stride) in offsets.iter_mut().zip(self.strides[axis]) {
                *offset += stride * index[axis] as isize;
            }
        }
        (index, offsets)
    }

    /// Moves on by one in the outer dimensions.
    #[inline]
    fn step(&self, index: &mut [usize], offsets: &mut [isize; N]) {
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            let wraps = index[axis] == self.sizes[axis];
            let moved = if wraps {
                index[axis] = 0;
                1 - self.sizes[axis] as isize
            } else {
                1
            };
            for (offset, stride) in offsets.iter_mut().zip(self.strides[axis]) {
                *offset += stride * moved;
            }
            if !wraps {
                return;
            }
        }
    }
}

/// The strides with which `view` is read as if it had `shape`, to which it broadcasts; those beyond the
/// rank are zero.
pub(crate) fn broadcast_strides(view: &View, shape: &[usize]) -> [isize; MAX_RANK] {
    let layout = view.layout();
    let lead = shape.len() - layout.rank();
    let mut strides = [0; MAX_RANK];
    for (axis, (&size, &stride)) in layout.shape().iter().zip(layout.strides()).enumerate() {
        if size == shape[lead + axis] {
            strides[lead + axis] = stride;
        }
    }
    strides
}

/// The address of the element of `view` at index zero. On the host a span's handle is an address.
pub(crate) fn address<T>(view: &View) -> *mut T {
    let span = view.span();
    let bytes = view.layout().offset().wrapping_mul(view.dtype().size());
    std::ptr::with_exposed_provenance_mut::<u8>(span.handle as usize)
        .wrapping_add(span.offset)
        .wrapping_add(bytes)
        .cast()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The offsets of all elements, by definition.
    fn expected(shape: &[usize], strides: [&[isize]; 2]) -> Vec<[isize; 2]> {
        let total: usize = shape.iter().product();
        (0..total)
            .map(|mut element| {
                let mut offsets = [0, 0];
                for axis in (0..shape.len()).rev() {
                    let index = (element % shape[axis]) as isize;
                    element /= shape[axis];
                    offsets[0] += index * strides[0][axis];
                    offsets[1] += index * strides[1][axis];
                }
                offsets
            })
            .collect()
    }

    fn walked(walk: &Walk<2>, range: Range<usize>) -> Vec<[isize; 2]> {
        let mut found = Vec::new();
        let steps = walk.run_strides();
        walk.for_each_run(range, &mut |offsets, length| {
            assert!(length >= 1 && length <= walk.run_length());
            found.extend(
                (0..length as isize)
                    .map(|i| [offsets[0] + i * steps[0], offsets[1] + i * steps[1]]),
            );
        });
        found
    }

    proptest! {
        #[test]
        fn any_range_of_any_layouts_is_walked_in_order(
            dims in prop::collection::vec((0usize..4, -6isize..7, -6isize..7), 0..6),
            contiguous in any::<bool>(),
            cut in (0usize..200, 0usize..200),
        ) {
            let shape: Vec<usize> = dims.iter().map(|dim| dim.0).collect();
            let mut first: Vec<isize> = dims.iter().map(|dim| dim.1).collect();
            let second: Vec<isize> = dims.iter().map(|dim| dim.2).collect();
            if contiguous {
                let mut step = 1;
                for axis in (0..shape.len()).rev() {
                    first[axis] = step;
                    step *= shape[axis].max(1) as isize;
                }
            }
            let all = expected(&shape, [&first, &second]);
            let walk = Walk::new(&shape, [&first, &second]);
            let start = cut.0.min(all.len());
            let end = (start + cut.1).min(all.len());
            prop_assert_eq!(walk.elements(), all.len());
            prop_assert_eq!(walked(&walk, 0..all.len()), &all[..]);
            prop_assert_eq!(walked(&walk, start..end), &all[start..end]);
            let mut sorted = walked(&Walk::in_memory_order(&shape, [&first, &second], 1), 0..all.len());
            let mut all = all;
            sorted.sort_unstable();
            all.sort_unstable();
            prop_assert_eq!(sorted, all);
        }
    }

    #[test]
    fn what_is_contiguous_is_one_run() {
        let walk = Walk::new(&[2, 1, 3, 4], [&[12, 99, 4, 1], &[12, 0, 4, 1]]);
        assert_eq!((walk.run_length(), walk.run_strides()), (24, [1, 1]));
        let transposed = Walk::in_memory_order(&[3, 4], [&[1, 3], &[1, 3]], 0);
        assert_eq!(
            (transposed.run_length(), transposed.run_strides()),
            (12, [1, 1])
        );
        assert_eq!(transposed.dimensions().len(), 1);
    }
}
