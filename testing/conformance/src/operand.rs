//! An operand on the host: bytes, an element type and a layout.

use streampool_device::{DType, Layout, MAX_RANK};

use crate::num::Num;
use crate::rng::Rng;

/// The memory of one operand as the host sees it.
#[derive(Debug, Clone)]
pub(crate) struct Operand {
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    bytes: Vec<u8>,
}

impl Operand {
    /// An operand of this layout with every byte of its memory, named by it or not, set to a pattern.
    pub(crate) fn blank(dtype: DType, layout: Layout) -> Operand {
        let last = layout.extent().map_or(-1, |(_, last)| last);
        let elements =
            usize::try_from(last + 1).expect("the last element is at or after the first") + GUARD;
        let pattern = if dtype == DType::Bool { 1 } else { 0x5a };
        Operand {
            dtype,
            layout,
            bytes: vec![pattern; elements * dtype.size()],
        }
    }

    pub(crate) fn row_major(dtype: DType, shape: &[usize]) -> Operand {
        Operand::blank(
            dtype,
            Layout::contiguous(shape).expect("the shape is small"),
        )
    }

    /// Row-major elements with these values.
    pub(crate) fn of(
        dtype: DType,
        shape: &[usize],
        values: impl IntoIterator<Item = Num>,
    ) -> Operand {
        let mut operand = Operand::row_major(dtype, shape);
        operand.set_all(values);
        operand
    }

    /// All of its memory.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Gives every element a value, in row-major order.
    pub(crate) fn set_all(&mut self, values: impl IntoIterator<Item = Num>) {
        let mut values = values.into_iter();
        for at in positions(&self.layout) {
            let value = values.next().expect("a value for each element");
            let size = self.dtype.size();
            value.store(self.dtype, &mut self.bytes[at * size..][..size]);
        }
    }

    /// The same, with these bytes in its memory.
    pub(crate) fn with_bytes(dtype: DType, layout: Layout, bytes: Vec<u8>) -> Operand {
        Operand {
            dtype,
            layout,
            bytes,
        }
    }

    /// Other bytes in its memory.
    pub(crate) fn replace(&mut self, bytes: Vec<u8>) {
        assert_eq!(bytes.len(), self.bytes.len());
        self.bytes = bytes;
    }

    /// The bytes of its elements, in row-major order.
    pub(crate) fn elements(&self) -> Vec<u8> {
        let size = self.dtype.size();
        let each = positions(&self.layout).map(|at| &self.bytes[at * size..][..size]);
        each.flatten().copied().collect()
    }

    /// The elements, in row-major order.
    pub(crate) fn values(&self) -> Vec<Num> {
        let size = self.dtype.size();
        positions(&self.layout)
            .map(|at| Num::load(&self.bytes[at * size..][..size], self.dtype))
            .collect()
    }
}

/// Elements behind the last one that no op may touch.
const GUARD: usize = 5;

/// Where the elements of a layout lie, in row-major order.
pub(crate) fn positions(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    (0..layout.elements()).map(|index| {
        let mut rest = index;
        let mut at = layout.offset() as isize;
        for (&size, &stride) in layout.shape().iter().zip(layout.strides()).rev() {
            at += (rest % size) as isize * stride;
            rest /= size;
        }
        at as usize
    })
}

/// A layout of `shape` with its axes in any order, gaps between them and any of them reversed.
pub(crate) fn any_layout(rng: &mut Rng, shape: &[usize]) -> Layout {
    if rng.chance(3) {
        return Layout::contiguous(shape).expect("the shape is small");
    }
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, rng.below(index + 1));
    }
    let mut strides = [0isize; MAX_RANK];
    let mut step = 1 + rng.below(2) as isize;
    let mut offset = rng.below(4) as isize;
    for axis in order {
        let reversed = rng.chance(3);
        strides[axis] = if reversed { -step } else { step };
        let size = shape[axis].max(1) as isize;
        if reversed {
            offset += step * (size - 1);
        }
        step = step * size + rng.below(3) as isize;
    }
    Layout::strided(shape, &strides[..shape.len()], offset as usize).expect("the shape is small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_layouts_name_each_element_once() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let shape: Vec<usize> = (0..rng.below(6)).map(|_| rng.below(4)).collect();
            let layout = any_layout(&mut rng, &shape);
            assert!(!layout.overlaps(), "{layout}");
            let mut seen: Vec<usize> = positions(&layout).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), layout.elements());
        }
    }
}
