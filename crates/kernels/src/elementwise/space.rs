//! The elements that an op goes over: the fewest dimensions that name them, and where each operand has them.

use smallvec::SmallVec;
use streampool_device::{MAX_RANK, Span, View};

/// Sizes of dimensions, and each operand's strides along them. There is at least one element, and at least
/// one dimension.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) rank: usize,
    pub(super) sizes: [usize; MAX_RANK],
    pub(super) operands: SmallVec<[Strided; 4]>,
}

/// An operand over a [`Space`].
#[derive(Debug)]
pub(super) struct Strided {
    /// Where its first element lies.
    span: Span,
    /// Bytes of an element.
    pub(super) size: usize,
    /// In elements.
    pub(super) strides: [isize; MAX_RANK],
}

/// Whether elements have to be gone over row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Their number counts.
    RowMajor,
    /// It does not: the order is that of the last operand in memory.
    Any,
}

impl Space {
    /// The elements of the last of `views`, to whose shape the others broadcast; `None` if there are none.
    pub(super) fn new<'a>(
        views: impl DoubleEndedIterator<Item = &'a View> + Clone,
        order: Order,
    ) -> Option<Space> {
        let shape = views.clone().next_back()?.shape();
        if shape.contains(&0) {
            return None;
        }
        let mut space = Space {
            rank: 0,
            sizes: [1; MAX_RANK],
            operands: views
                .clone()
                .map(|view| Strided {
                    span: view.span(),
                    size: view.dtype().size(),
                    strides: [0; MAX_RANK],
                })
                .collect(),
        };
        // Most ops are on operands like these, and each launch comes by here.
        let plain = |view: &View| view.shape() == shape && view.layout().is_contiguous();
        if views.clone().all(plain) {
            space.rank = 1;
            space.sizes[0] = shape.iter().product();
            for (operand, view) in space.operands.iter_mut().zip(views) {
                operand.strides[0] = 1;
                operand.advance(view.layout().offset() as isize);
            }
            return Some(space);
        }
        space.place(shape, views);
        if order == Order::Any {
            space.turn_forward();
            space.sort();
        }
        space.merge();
        Some(space)
    }

    /// The operand whose order in memory is followed.
    pub(super) fn last(&self) -> &Strided {
        &self.operands[self.operands.len() - 1]
    }

    pub(super) fn elements(&self) -> usize {
        self.sizes[..self.rank].iter().product()
    }

    /// Whether every number of an element, and every distance from an operand's first, is below 2³¹.
    pub(super) fn is_small(&self) -> bool {
        const LIMIT: usize = 1 << 31;
        self.elements() < LIMIT
            && self.operands.iter().all(|operand| {
                let reach =
                    |axis: usize| (self.sizes[axis] - 1) * operand.strides[axis].unsigned_abs();
                (0..self.rank).map(reach).sum::<usize>() < LIMIT
            })
    }

    /// Whether the operand's elements lie without gaps in the order of the space.
    pub(super) fn is_dense(&self, operand: &Strided) -> bool {
        let mut step = 1;
        (0..self.rank).rev().all(|axis| {
            let fits = operand.strides[axis] == step;
            step *= self.sizes[axis] as isize;
            fits
        })
    }

    /// Whether the operand is one element, repeated.
    pub(super) fn is_single(&self, operand: &Strided) -> bool {
        operand.strides[..self.rank]
            .iter()
            .all(|&stride| stride == 0)
    }

    /// Takes sizes and strides from `shape` and `views`, but for dimensions of one element.
    fn place<'a>(&mut self, shape: &[usize], views: impl Iterator<Item = &'a View>) {
        for (operand, view) in self.operands.iter_mut().zip(views) {
            let lead = shape.len() - view.shape().len();
            let mut rank = 0;
            for (axis, &size) in shape.iter().enumerate() {
                if size == 1 {
                    continue;
                }
                if axis >= lead && view.shape()[axis - lead] == size {
                    operand.strides[rank] = view.layout().strides()[axis - lead];
                }
                self.sizes[rank] = size;
                rank += 1;
            }
            self.rank = rank;
            operand.advance(view.layout().offset() as isize);
        }
        if self.rank == 0 {
            self.rank = 1;
            for operand in &mut self.operands {
                operand.strides[0] = 1;
            }
        }
    }

    /// Goes over dimensions along which the last operand is reversed from their other end.
    fn turn_forward(&mut self) {
        for axis in 0..self.rank {
            if self.last().strides[axis] < 0 {
                let distance = self.sizes[axis] as isize - 1;
                for operand in &mut self.operands {
                    operand.advance(distance * operand.strides[axis]);
                    operand.strides[axis] = -operand.strides[axis];
                }
            }
        }
    }

    /// Puts dimensions along which the last operand takes longer steps first.
    fn sort(&mut self) {
        for sorted in 1..self.rank {
            let mut axis = sorted;
            while axis > 0 && self.last().strides[axis - 1] < self.last().strides[axis] {
                self.sizes.swap(axis - 1, axis);
                for operand in &mut self.operands {
                    operand.strides.swap(axis - 1, axis);
                }
                axis -= 1;
            }
        }
    }

    /// Makes one dimension of neighbours that every operand passes through in equal steps.
    fn merge(&mut self) {
        let mut kept = 0;
        for axis in 1..self.rank {
            let size = self.sizes[axis];
            let merges = self
                .operands
                .iter()
                .all(|operand| operand.strides[kept] == operand.strides[axis] * size as isize);
            if merges {
                self.sizes[kept] *= size;
            } else {
                kept += 1;
                self.sizes[kept] = size;
            }
            for operand in &mut self.operands {
                operand.strides[kept] = operand.strides[axis];
            }
        }
        self.rank = kept + 1;
    }
}

impl Strided {
    /// Where its first element lies, and what follows it.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    /// Whether the first element's address is a multiple of `bytes`, as far as the handle tells it: where
    /// that is no address, allocations are aligned and handles are, too, or speed is lost and nothing else.
    pub(super) fn is_aligned(&self, bytes: usize) -> bool {
        (self.span.handle as usize)
            .wrapping_add(self.span.offset)
            .is_multiple_of(bytes)
    }

    fn advance(&mut self, elements: isize) {
        let bytes = elements * self.size as isize;
        self.span.offset = self.span.offset.wrapping_add_signed(bytes);
        self.span.bytes = self.span.bytes.wrapping_add_signed(-bytes);
    }
}

#[cfg(test)]
mod tests {
    use streampool_device::{DType, Layout};

    use super::*;

    fn view(dtype: DType, layout: Layout) -> View {
        let span = Span {
            handle: 4096,
            offset: 64,
            bytes: 1 << 20,
        };
        View::new(span, dtype, layout).unwrap()
    }

    fn strided(shape: &[usize], strides: &[isize], offset: usize) -> View {
        view(DType::F32, Layout::strided(shape, strides, offset).unwrap())
    }

    fn row_major(shape: &[usize]) -> View {
        view(DType::F32, Layout::contiguous(shape).unwrap())
    }

    fn space(views: &[View], order: Order) -> Space {
        Space::new(views.iter(), order).unwrap()
    }

    fn shape(space: &Space) -> &[usize] {
        &space.sizes[..space.rank]
    }

    fn strides(space: &Space, operand: usize) -> &[isize] {
        &space.operands[operand].strides[..space.rank]
    }

    #[test]
    fn contiguous_operands_have_one_dimension() {
        let views = [row_major(&[3, 1, 4, 5]), row_major(&[3, 1, 4, 5])];
        let space = space(&views, Order::RowMajor);
        assert_eq!((shape(&space), strides(&space, 0)), (&[60][..], &[1][..]));
        assert!(space.is_dense(space.last()));
    }

    #[test]
    fn a_scalar_has_one_dense_element() {
        let space = space(&[row_major(&[]), row_major(&[1, 1])], Order::Any);
        assert_eq!((shape(&space), strides(&space, 0)), (&[1][..], &[1][..]));
        assert!(space.operands.iter().all(|operand| space.is_dense(operand)));
    }

    #[test]
    fn nothing_is_no_space() {
        assert!(Space::new([row_major(&[3, 0])].iter(), Order::Any).is_none());
    }

    #[test]
    fn inputs_broadcast_from_the_right() {
        let views = [
            row_major(&[5]),
            row_major(&[4, 1]),
            row_major(&[]),
            row_major(&[2, 4, 5]),
        ];
        let space = space(&views, Order::Any);
        assert_eq!(shape(&space), [2, 4, 5]);
        assert_eq!(strides(&space, 0), [0, 0, 1]);
        assert_eq!(strides(&space, 1), [0, 1, 0]);
        assert!(space.is_single(&space.operands[2]) && !space.is_single(&space.operands[1]));
        assert!(space.is_dense(space.last()));
    }

    #[test]
    fn dimensions_follow_the_last_operand_in_memory() {
        let turned = strided(&[5, 4], &[1, 5], 0);
        let space = space(&[row_major(&[5, 4]), turned], Order::Any);
        assert_eq!(shape(&space), [4, 5]);
        assert_eq!(
            (strides(&space, 0), strides(&space, 1)),
            (&[1, 4][..], &[5, 1][..])
        );
        let both = self::space(&[turned, turned], Order::Any);
        assert_eq!(shape(&both), [20]);
        let counted = self::space(&[turned], Order::RowMajor);
        assert_eq!(strides(&counted, 0), [1, 5]);
    }

    #[test]
    fn reversed_operands_are_gone_over_forward() {
        let reversed = strided(&[3, 4], &[-4, -1], 11);
        let forward = row_major(&[3, 4]);
        let space = space(&[forward, reversed], Order::Any);
        assert_eq!((shape(&space), strides(&space, 1)), (&[12][..], &[1][..]));
        assert_eq!(strides(&space, 0), [-1]);
        assert_eq!(space.operands[0].span().offset, 64 + 4 * 11);
        assert_eq!(space.operands[1].span().offset, 64);
        let counted = self::space(&[reversed], Order::RowMajor);
        assert_eq!(
            (strides(&counted, 0), counted.operands[0].span().offset),
            (&[-1][..], 64 + 44)
        );
    }

    #[test]
    fn offsets_are_folded_into_spans() {
        let part = strided(&[4, 2], &[6, 1], 7);
        let space = space(&[part], Order::Any);
        assert_eq!(shape(&space), [4, 2]);
        let span = space.operands[0].span();
        assert_eq!((span.offset, span.bytes), (64 + 28, (1 << 20) - 28));
    }

    #[test]
    fn large_distances_are_seen() {
        let mut space = space(&[row_major(&[4, 5])], Order::Any);
        assert!(space.is_small());
        space.operands[0].strides[0] = -(1 << 27);
        space.sizes[0] = 17;
        assert!(!space.is_small());
    }
}
