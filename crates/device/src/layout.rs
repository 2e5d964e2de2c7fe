//! Shapes and strides: how the elements of a view lie in memory.

use crate::{Error, Result};

/// The most dimensions a layout has.
pub const MAX_RANK: usize = 8;

/// The most elements a layout has, and the farthest it reaches, dimensions of size zero counted as one: more than any
/// memory holds, yet few enough that a few such numbers, or one and a size in bytes, can be multiplied.
pub const MAX_ELEMENTS: usize = 1 << 48;

/// Sizes of the dimensions, stored in place so that layouts copy without allocating.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims<T = usize> {
    // As wide as the values: without padding, layouts copy fast.
    rank: usize,
    values: [T; MAX_RANK],
}

impl<T: Copy + Default> Dims<T> {
    /// The dimensions of `values`; at most [`MAX_RANK`].
    #[inline(always)]
    pub fn new(values: &[T]) -> Result<Self> {
        if values.len() > MAX_RANK {
            return Err(Error::Invalid {
                what: "the rank of a layout",
                got: values.len().to_string(),
                expected: format!("at most {MAX_RANK}"),
            });
        }
        let mut dims = Dims {
            rank: values.len(),
            values: [T::default(); MAX_RANK],
        };
        dims.values[..values.len()].copy_from_slice(values);
        Ok(dims)
    }
}

impl<T> std::ops::Deref for Dims<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.values[..self.rank]
    }
}

impl<T> std::ops::DerefMut for Dims<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[..self.rank]
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Dims<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A shape, a stride for each dimension and an offset, all counted in elements.
///
/// Strides may be zero (broadcasting) or negative (reversal). No layout counts more than [`MAX_ELEMENTS`], names an
/// element farther away or has a longer stride: constructors refuse those.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Dims,
    strides: Dims<isize>,
    offset: usize,
}

impl Layout {
    /// Row-major elements without gaps.
    #[inline(always)]
    pub fn contiguous(shape: &[usize]) -> Result<Layout> {
        let shape = Dims::new(shape)?;
        let mut strides = Dims::new(&[0isize; MAX_RANK][..shape.len()])?;
        let mut step = 1isize;
        for axis in (0..shape.len()).rev() {
            strides[axis] = step;
            step = isize::try_from(shape[axis].max(1))
                .ok()
                .and_then(|size| step.checked_mul(size))
                .filter(|&elements| elements <= MAX_ELEMENTS as isize)
                .ok_or_else(|| too_large(&shape))?;
        }
        Ok(Layout {
            shape,
            strides,
            offset: 0,
        })
    }

    /// Elements at `offset` plus each index times its stride.
    pub fn strided(shape: &[usize], strides: &[isize], offset: usize) -> Result<Layout> {
        if shape.len() != strides.len() {
            return Err(Error::Invalid {
                what: "the number of strides",
                got: strides.len().to_string(),
                expected: format!("{}, one for each dimension", shape.len()),
            });
        }
        let layout = Layout {
            shape: Dims::new(shape)?,
            strides: Dims::new(strides)?,
            offset,
        };
        layout.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<()> {
        let mut elements = 1usize;
        let mut reach = Some(self.offset);
        for (&size, &stride) in self.shape.iter().zip(self.strides.iter()) {
            elements = elements
                .checked_mul(size.max(1))
                .filter(|&elements| elements <= MAX_ELEMENTS)
                .ok_or_else(|| too_large(&self.shape))?;
            let stride = Some(stride.unsigned_abs()).filter(|&stride| stride <= MAX_ELEMENTS);
            reach = stride
                .and_then(|stride| stride.checked_mul(size.saturating_sub(1)))
                .and_then(|span| reach?.checked_add(span));
        }
        match reach {
            Some(reach) if reach <= MAX_ELEMENTS => Ok(()),
            _ => Err(Error::Invalid {
                what: "the reach of a layout",
                got: self.to_string(),
                expected: format!("at most {MAX_ELEMENTS} elements"),
            }),
        }
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The stride of each dimension, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Where the first element lies, in elements.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// How many elements it has.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The lowest and the highest element it names; `None` if it has none.
    #[inline(always)]
    pub fn extent(&self) -> Option<(isize, isize)> {
        let (mut first, mut last) = (self.offset as isize, self.offset as isize);
        for (&size, &stride) in self.shape.iter().zip(self.strides.iter()) {
            let span = stride * (size as isize - 1);
            match size {
                0 => return None,
                _ if span < 0 => first += span,
                _ => last += span,
            }
        }
        Some((first, last))
    }

    /// Whether the elements lie row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (&size, &stride) in self.shape.iter().zip(self.strides.iter()).rev() {
            if size != 1 && stride != step {
                return self.elements() == 0;
            }
            step *= size as isize;
        }
        true
    }

    /// Whether two indices may name the same element: such a layout cannot be written to.
    ///
    /// The test is safe, not exact: interleaved layouts that happen not to collide count as overlapping.
    pub fn overlaps(&self) -> bool {
        if self.is_contiguous() || self.elements() == 0 {
            return false;
        }
        let mut axes = Dims::new(&[(0usize, 0usize); MAX_RANK]).expect("the rank is the maximum");
        let mut rank = 0;
        for (&size, &stride) in self.shape.iter().zip(self.strides.iter()) {
            if size > 1 {
                axes[rank] = (stride.unsigned_abs(), size);
                rank += 1;
            }
        }
        axes[..rank].sort_unstable();
        let mut covered = 0usize;
        axes[..rank].iter().any(|&(stride, size)| {
            let collides = stride <= covered;
            covered += stride * (size - 1);
            collides
        })
    }

    /// The same elements with the dimensions in another order.
    pub fn permute(&self, order: &[usize]) -> Result<Layout> {
        let mut seen = [false; MAX_RANK];
        let valid = order.len() == self.rank()
            && order
                .iter()
                .all(|&axis| axis < self.rank() && !std::mem::replace(&mut seen[axis], true));
        if !valid {
            return Err(Error::Invalid {
                what: "the order of a permutation",
                got: format!("{order:?}"),
                expected: format!("each axis below {} once", self.rank()),
            });
        }
        let mut permuted = *self;
        for (to, &from) in order.iter().enumerate() {
            permuted.shape[to] = self.shape[from];
            permuted.strides[to] = self.strides[from];
        }
        Ok(permuted)
    }

    /// The elements repeated to `shape`: dimensions of size one and missing leading ones get stride zero.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Layout> {
        let refused = || Error::Invalid {
            what: "a broadcast",
            got: format!("{:?} to {shape:?}", self.shape()),
            expected: "sizes that agree from the right, or are one".to_owned(),
        };
        let shape = Dims::new(shape)?;
        let lead = shape.len().checked_sub(self.rank()).ok_or_else(refused)?;
        let mut strides = [0isize; MAX_RANK];
        for (axis, (&size, &stride)) in self.shape.iter().zip(self.strides.iter()).enumerate() {
            match shape[lead + axis] {
                wanted if wanted == size => strides[lead + axis] = stride,
                _ if size == 1 => {}
                _ => return Err(refused()),
            }
        }
        Layout::strided(&shape, &strides[..shape.len()], self.offset)
    }

    /// Every `step`-th element of `axis` from `start` up to, not including, `end`.
    pub fn slice(&self, axis: usize, start: usize, end: usize, step: usize) -> Result<Layout> {
        if axis >= self.rank() || start > end || end > self.shape[axis] || step == 0 {
            return Err(Error::Invalid {
                what: "a slice",
                got: format!(
                    "{start}..{end} by {step} of axis {axis} of {:?}",
                    self.shape()
                ),
                expected: "an axis of the shape, a range inside it and a step of at least one"
                    .to_owned(),
            });
        }
        let mut sliced = *self;
        sliced.shape[axis] = (end - start).div_ceil(step);
        if sliced.elements() > 0 {
            let offset = self.offset as isize + start as isize * self.strides[axis];
            sliced.offset = usize::try_from(offset).map_err(|_| Error::Invalid {
                what: "the offset of a slice",
                got: offset.to_string(),
                expected: "not before the memory that the layout begins in".to_owned(),
            })?;
            sliced.strides[axis] = match sliced.shape[axis] {
                1 => self.strides[axis],
                _ => self.strides[axis] * step as isize,
            };
        }
        Ok(sliced)
    }
}

fn too_large(shape: &[usize]) -> Error {
    Error::Invalid {
        what: "the number of elements",
        got: format!("{shape:?}"),
        expected: format!("a product of at most {MAX_ELEMENTS}"),
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} with strides {:?} from {}",
            self.shape, self.strides, self.offset
        )
    }
}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extent_follows_negative_strides() {
        let reversed = Layout::strided(&[4, 3], &[-3, 1], 9).unwrap();
        assert_eq!(reversed.extent(), Some((0, 11)));
        assert!(!reversed.is_contiguous() && !reversed.overlaps());
    }

    #[test]
    fn slicing_keeps_inside() {
        let layout = Layout::contiguous(&[10]).unwrap();
        let odd = layout.slice(0, 1, 10, 2).unwrap();
        assert_eq!(
            (odd.shape(), odd.strides(), odd.offset()),
            (&[5][..], &[2][..], 1)
        );
        assert_eq!(odd.extent(), Some((1, 9)));
        assert!(layout.slice(0, 3, 11, 1).is_err());
        assert_eq!(layout.slice(0, 10, 10, 3).unwrap().elements(), 0);
    }

    #[test]
    fn broadcasting_overlaps_and_reads() {
        let row = Layout::contiguous(&[3]).unwrap();
        let grid = row.broadcast_to(&[2, 3]).unwrap();
        assert_eq!(grid.strides(), &[0, 1]);
        assert!(grid.overlaps());
        assert!(row.broadcast_to(&[2, 4]).is_err());
        assert!(row.broadcast_to(&[]).is_err());
    }

    #[test]
    fn overflow_is_refused() {
        assert!(Layout::contiguous(&[usize::MAX, 2]).is_err());
        assert!(Layout::contiguous(&[1 << 40, 1 << 40]).is_err());
        assert!(Layout::strided(&[3], &[isize::MAX], 0).is_err());
        assert!(Layout::strided(&[3], &[isize::MIN], 0).is_err());
        assert!(Layout::strided(&[1], &[1], usize::MAX).is_err());
        assert!(Layout::contiguous(&[1; 9]).is_err());
        // What no memory holds is refused before anybody multiplies it.
        let one = Layout::contiguous(&[1]).unwrap();
        assert!(one.broadcast_to(&[MAX_ELEMENTS]).is_ok());
        assert!(one.broadcast_to(&[MAX_ELEMENTS + 1]).is_err());
        assert!(one.broadcast_to(&[1 << 24, 1 << 24, 2]).is_err());
        assert!(Layout::contiguous(&[0, MAX_ELEMENTS + 1]).is_err());
        assert!(Layout::strided(&[1], &[1 << 49], 0).is_err());
        assert!(Layout::strided(&[2], &[1], MAX_ELEMENTS).is_err());
    }

    #[test]
    fn more_than_eight_axes_are_refused() {
        let refused = |layout: Result<Layout>| {
            let told = layout.unwrap_err().to_string();
            assert!(told.contains("rank"), "{told}");
        };
        let layout = Layout::contiguous(&[3]).unwrap();
        refused(layout.broadcast_to(&[1, 1, 1, 1, 1, 1, 1, 1, 3]));
        refused(layout.broadcast_to(&[1; 100]));
        refused(Layout::contiguous(&[1; 9]));
        refused(Layout::strided(&[1; 9], &[1; 9], 0));
    }

    #[test]
    fn contiguity_ignores_dimensions_of_one() {
        assert!(
            Layout::strided(&[2, 1, 3], &[3, 77, 1], 5)
                .unwrap()
                .is_contiguous()
        );
        assert!(
            !Layout::strided(&[2, 3], &[4, 1], 0)
                .unwrap()
                .is_contiguous()
        );
        assert!(Layout::contiguous(&[]).unwrap().is_contiguous());
    }
}
