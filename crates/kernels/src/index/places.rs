//! What indices name: one form for all ways of indexing.

use streampool_device::{Indexing, MAX_RANK, View};

/// Where the element for each place among the indexed elements is found: at the place's own distance, and for
/// each indexed axis as many strides further as its index says.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// Strides of the indices along the shape of the indexed elements; zero where a slice goes on.
    pub indices: [isize; MAX_RANK],
    /// Strides of what is indexed along the same shape; zero where an index decides.
    pub data: [isize; MAX_RANK],
    /// The distance between two indices of one place.
    pub step: isize,
    axes: [IndexedAxis; MAX_RANK],
    depth: usize,
}

/// An axis along which an index decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexedAxis {
    /// Its number.
    pub axis: usize,
    /// How many elements it has.
    pub size: usize,
    /// The distance between them.
    pub stride: isize,
}

impl Places {
    /// The places for these indices into `data`; all were validated.
    pub fn new(indexing: Indexing, indices: &View, data: &View) -> Places {
        let (by, within) = (indices.layout().strides(), data.layout().strides());
        let mut places = Places {
            indices: [0; MAX_RANK],
            data: [0; MAX_RANK],
            step: 0,
            axes: [IndexedAxis::default(); MAX_RANK],
            depth: 0,
        };
        let mut rank = 0;
        let mut dimension = |index: isize, datum: isize| {
            places.indices[rank] = index;
            places.data[rank] = datum;
            rank += 1;
        };
        let indexed = match indexing {
            Indexing::Axis(axis) => {
                within[..axis].iter().for_each(|&datum| dimension(0, datum));
                by.iter().for_each(|&index| dimension(index, 0));
                within[axis + 1..]
                    .iter()
                    .for_each(|&datum| dimension(0, datum));
                axis..axis + 1
            }
            Indexing::Elements(axis) => {
                for (other, (&index, &datum)) in by.iter().zip(within).enumerate() {
                    dimension(index, if other == axis { 0 } else { datum });
                }
                axis..axis + 1
            }
            Indexing::Nd(batch) => {
                let last = by.len() - 1;
                let depth = indices.shape()[last];
                for (other, &index) in by[..last].iter().enumerate() {
                    dimension(index, if other < batch { within[other] } else { 0 });
                }
                within[batch + depth..]
                    .iter()
                    .for_each(|&datum| dimension(0, datum));
                places.step = by[last];
                batch..batch + depth
            }
        };
        for axis in indexed {
            places.axes[places.depth] = IndexedAxis {
                axis,
                size: data.shape()[axis],
                stride: within[axis],
            };
            places.depth += 1;
        }
        places
    }

    /// The axes along which indices decide, in the order of their indices.
    pub fn axes(&self) -> &[IndexedAxis] {
        &self.axes[..self.depth]
    }
}

#[cfg(test)]
mod tests {
    use streampool_device::DType;

    use super::*;
    use crate::rows::testing::row_major;

    fn places(indexing: Indexing, indices: &[usize], data: &[usize]) -> Places {
        let indices = row_major(DType::I64, indices);
        Places::new(indexing, &indices, &row_major(DType::F32, data))
    }

    fn axis(axis: usize, size: usize, stride: isize) -> IndexedAxis {
        IndexedAxis { axis, size, stride }
    }

    #[test]
    fn a_slice_goes_on_around_the_indices() {
        let places = places(Indexing::Axis(1), &[6, 7], &[2, 5, 3]);
        assert_eq!(places.indices[..4], [0, 7, 1, 0]);
        assert_eq!(places.data[..4], [15, 0, 0, 1]);
        assert_eq!(places.axes(), [axis(1, 5, 3)]);
    }

    #[test]
    fn elements_stay_in_their_place_but_for_one_axis() {
        let places = places(Indexing::Elements(0), &[6, 2], &[4, 3]);
        assert_eq!(places.indices[..2], [2, 1]);
        assert_eq!(places.data[..2], [0, 1]);
        assert_eq!(places.axes(), [axis(0, 4, 3)]);
    }

    #[test]
    fn lists_of_indices_come_behind_the_batch() {
        let places = places(Indexing::Nd(1), &[2, 6, 2], &[2, 3, 4, 5]);
        assert_eq!(places.indices[..3], [12, 2, 0]);
        assert_eq!(places.data[..3], [60, 0, 1]);
        assert_eq!(
            (places.step, places.axes()),
            (1, &[axis(1, 3, 20), axis(2, 4, 5)][..])
        );
    }
}
