//! More elements around a tensor, or fewer.

use streampool_device::{Dims, Op, Scalar};

use super::join::joined;
use super::other::number_fits;
use crate::{Error, Result, Tensor};

/// What is around a tensor that is padded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Padding {
    /// This number.
    Constant(Scalar),
    /// What is inside, mirrored in the element at the edge, which is not repeated.
    Reflect,
    /// The element at the edge. PyTorch's `replicate`.
    Edge,
    /// What is at the other end. PyTorch's `circular`.
    Wrap,
}

impl Tensor {
    /// This many more elements before and after those of each axis; fewer, if negative.
    ///
    /// One can reflect fewer elements than there are, and wrap as many as there are.
    pub fn pad(&self, amounts: &[(isize, isize)], padding: Padding) -> Result<Tensor> {
        let op = "pad";
        if amounts.len() != self.rank() {
            let got = format!("{} pairs", amounts.len());
            let expected = format!("{}, one for each axis", self.rank());
            return Err(Error::parameter(op, "amounts", got, expected));
        }
        let cropped = self.cropped(amounts)?;
        let more = |amount: isize| amount.max(0).unsigned_abs();
        let around = || {
            amounts
                .iter()
                .map(|&(before, after)| (more(before), more(after)))
        };
        if around().all(|both| both == (0, 0)) {
            return cropped.contiguous();
        }
        if let Padding::Constant(number) = padding {
            return cropped.framed(&around().collect::<Vec<_>>(), number);
        }
        let mut padded = cropped;
        for (axis, (before, after)) in around().enumerate() {
            if (before, after) != (0, 0) {
                padded = padded.extended(axis, [before, after], padding)?;
            }
        }
        Ok(padded)
    }

    /// Without what negative amounts take away.
    fn cropped(&self, amounts: &[(isize, isize)]) -> Result<Tensor> {
        let mut left = self.clone();
        for (axis, &(before, after)) in amounts.iter().enumerate() {
            let size = self.shape()[axis];
            let [before, after] = [before, after].map(|amount| amount.min(0).unsigned_abs());
            let Some(rest) = before
                .checked_add(after)
                .and_then(|less| size.checked_sub(less))
            else {
                let got = format!("-{before} and -{after} for axis {axis}");
                let expected = format!("at most {size} elements less, the size of the axis");
                return Err(Error::parameter("pad", "amounts", got, expected));
            };
            left = left.narrow(axis as isize, before, rest)?;
        }
        Ok(left)
    }

    /// In the middle of a number.
    fn framed(&self, around: &[(usize, usize)], number: Scalar) -> Result<Tensor> {
        let on = self.encoder("pad")?;
        number_fits(on.op(), "padding", number, self.dtype())?;
        let mut sizes = Dims::new(self.shape())?;
        for (size, &(before, after)) in sizes.iter_mut().zip(around) {
            *size = size.saturating_add(before).saturating_add(after);
        }
        let mut whole = on.blank(self.dtype(), &sizes)?;
        on.encode(Op::Fill {
            dst: whole.operand()?,
            value: number,
        })?;
        if self.elem_count() > 0 {
            let mut middle = *whole.layout();
            for (axis, &(before, _)) in around.iter().enumerate() {
                middle = middle.slice(axis, before, before + self.shape()[axis], 1)?;
            }
            on.encode(Op::Copy {
                src: self.operand()?,
                dst: whole.operand_as(middle)?,
            })?;
        }
        Ok(whole.finish())
    }

    /// With more of its own elements along one axis.
    fn extended(&self, axis: usize, around: [usize; 2], padding: Padding) -> Result<Tensor> {
        let op = "pad";
        let (size, signed) = (self.shape()[axis], axis as isize);
        let most = match padding {
            Padding::Reflect => size.saturating_sub(1),
            _ if size > 0 => usize::MAX,
            _ => 0,
        };
        let [before, after] = around;
        if before.max(after) > most {
            let got = format!("{before} and {after} for axis {axis}");
            let expected = format!("at most {most} where the axis has {size} elements");
            return Err(Error::parameter(op, "amounts", got, expected));
        }
        if padding == Padding::Wrap {
            return self.wrapped(axis, around);
        }
        let at_edge = |start: usize, count: usize| {
            let mut sizes = Dims::new(self.shape())?;
            sizes[axis] = count;
            self.narrow(signed, start, 1)?.broadcast_to(&sizes)
        };
        let mirrored =
            |start: usize, count: usize| self.narrow(signed, start, count)?.flip(&[signed]);
        let (front, back) = match padding {
            Padding::Reflect => (mirrored(1, before)?, mirrored(size - 1 - after, after)?),
            _ => (at_edge(0, before)?, at_edge(size - 1, after)?),
        };
        joined(op, &[&front, self, &back], axis)
    }

    /// As often as it takes, end to end; there is at least one element.
    fn wrapped(&self, axis: usize, [before, after]: [usize; 2]) -> Result<Tensor> {
        let (size, signed) = (self.shape()[axis], axis as isize);
        let times = (before / size).saturating_add(after / size);
        let whole = match times {
            0 => self.clone(),
            _ => {
                let mut counts = vec![1; self.rank()];
                counts[axis] = times.saturating_add(1);
                self.tile(&counts)?
            }
        };
        let front = self.narrow(signed, size - before % size, before % size)?;
        let back = self.narrow(signed, 0, after % size)?;
        joined("pad", &[&front, &whole, &back], axis)
    }
}
