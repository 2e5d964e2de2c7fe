//! How the operands of one call lie over the index space they share.

use streampool_device::{MAX_RANK, View};

/// An operand over the shared index space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand {
    /// The first element.
    pub(super) base: *mut u8,
    /// Bytes of one element.
    pub(super) size: usize,
    /// Bytes from one element to the next along each dimension.
    pub(super) strides: [isize; MAX_RANK],
    pub(super) access: Access,
}

/// How blocks of an operand are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Each block lies in memory as loops want it.
    Direct,
    /// One element for all: spread over a buffer once.
    Constant,
    /// Through a buffer, block by block.
    Staged,
    /// The same, and alike in all blocks that begin at the same place of the innermost dimension.
    Repeated,
}

impl Operand {
    pub(super) const EMPTY: Operand = Operand {
        base: std::ptr::null_mut(),
        size: 0,
        strides: [0; MAX_RANK],
        access: Access::Direct,
    };
}

/// The index space of one call: row-major, with as few dimensions as the operands allow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    pub(super) rank: usize,
    pub(super) sizes: [usize; MAX_RANK],
    pub(super) elements: usize,
    /// Whether blocks end where the innermost dimension does.
    pub(super) by_rows: bool,
}

/// A row shorter than this is not worth a block of its own.
const LONG_ROW: usize = 256;

impl Space {
    /// The space of views that broadcast to the last of them, in the order in which that one lies in memory;
    /// fills in `operands`, one for each view.
    pub(super) fn new(inputs: &[View], outputs: &[View], operands: &mut [Operand]) -> Space {
        let target = outputs.first().map_or(&[][..], |output| output.shape());
        let elements = target.iter().product();
        let mut space = Space {
            rank: 1,
            sizes: [1; MAX_RANK],
            elements,
            by_rows: true,
        };
        space.sizes[0] = elements;
        let views = || inputs.iter().chain(outputs);
        for (operand, view) in operands.iter_mut().zip(views()) {
            let (span, layout) = (view.span(), view.layout());
            let size = view.dtype().size();
            let address = span.handle as usize + span.offset + layout.offset() * size;
            *operand = Operand {
                base: std::ptr::with_exposed_provenance_mut(address),
                size,
                ..Operand::EMPTY
            };
        }
        let simple = views().all(|view| {
            let count = view.shape().iter().product::<usize>();
            count == 1 || count == elements && view.layout().is_contiguous()
        });
        if simple {
            for (operand, view) in operands.iter_mut().zip(views()) {
                let one = elements != 1 && view.shape().iter().product::<usize>() == 1;
                operand.strides[0] = if one { 0 } else { operand.size as isize };
            }
        } else {
            space.spread(inputs, outputs, operands);
            space.merge(operands);
        }
        space.by_rows = space.rank == 1 || space.sizes[space.rank - 1] >= LONG_ROW;
        let (read, written) = operands.split_at_mut(inputs.len());
        for operand in read.iter_mut() {
            operand.access = space.access(operand);
        }
        for operand in written {
            // Loops do not work in place: what is read and written is staged.
            let in_place = read.iter().any(|input| input.base == operand.base);
            operand.access = match space.access(operand) {
                Access::Direct if !in_place => Access::Direct,
                _ => Access::Staged,
            };
        }
        space
    }

    fn access(&self, operand: &Operand) -> Access {
        let inner = self.rank - 1;
        let strides = &operand.strides[..self.rank];
        let direct = strides[inner] == operand.size as isize
            && (self.by_rows
                || (0..inner).all(|axis| {
                    strides[axis] == strides[axis + 1] * self.sizes[axis + 1] as isize
                }));
        match direct {
            true => Access::Direct,
            false if strides.iter().all(|&stride| stride == 0) => Access::Constant,
            false if strides[..inner].iter().all(|&stride| stride == 0) => Access::Repeated,
            false => Access::Staged,
        }
    }

    /// One dimension for each of the output's that is longer than one, the farthest stride first.
    fn spread(&mut self, inputs: &[View], outputs: &[View], operands: &mut [Operand]) {
        let target = outputs[0].layout();
        let mut order = [0; MAX_RANK];
        self.rank = 0;
        for (axis, &size) in target.shape().iter().enumerate() {
            if size != 1 {
                order[self.rank] = axis;
                self.rank += 1;
            }
        }
        let order = &mut order[..self.rank];
        order.sort_by_key(|&axis| std::cmp::Reverse(target.strides()[axis].unsigned_abs()));
        for (dimension, &axis) in order.iter().enumerate() {
            self.sizes[dimension] = target.shape()[axis];
            for (operand, view) in operands.iter_mut().zip(inputs.iter().chain(outputs)) {
                let missing = target.rank() - view.layout().rank();
                let stride = match axis.checked_sub(missing) {
                    Some(axis) if view.shape()[axis] != 1 => view.layout().strides()[axis],
                    _ => 0,
                };
                operand.strides[dimension] = stride * operand.size as isize;
            }
        }
    }

    /// Joins neighbours that are one dimension in every operand.
    fn merge(&mut self, operands: &mut [Operand]) {
        let mut kept = 0;
        for dimension in 1..self.rank {
            let size = self.sizes[dimension];
            let joins = operands
                .iter()
                .all(|operand| operand.strides[kept] == operand.strides[dimension] * size as isize);
            if joins {
                self.sizes[kept] *= size;
            } else {
                kept += 1;
                self.sizes[kept] = size;
            }
            for operand in operands.iter_mut() {
                operand.strides[kept] = operand.strides[dimension];
            }
        }
        self.rank = kept + 1;
    }

    /// Where the element of this number lies along each dimension.
    pub(super) fn position(&self, mut number: usize) -> [usize; MAX_RANK] {
        let mut position = [0; MAX_RANK];
        for axis in (1..self.rank).rev() {
            position[axis] = number % self.sizes[axis];
            number /= self.sizes[axis];
        }
        position[0] = number;
        position
    }

    /// How many bytes from the first element the one at this position lies.
    pub(super) fn offset(&self, operand: &Operand, position: &[usize; MAX_RANK]) -> isize {
        let strides = &operand.strides[..self.rank];
        strides
            .iter()
            .zip(position)
            .map(|(&stride, &index)| stride * index as isize)
            .sum()
    }
}
