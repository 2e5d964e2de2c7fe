//! The same elements in other places.

use streampool_device::MAX_RANK;

use super::join::joined;
use crate::{Error, Result, Tensor, axis};

/// How [`depth_to_space`](Tensor::depth_to_space) takes channels apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DepthOrder {
    /// The place in the block counts before the channel that is left: ONNX's `DCR`.
    #[default]
    BlockFirst,
    /// The channel that is left counts before the place in the block: ONNX's `CRD`, and PyTorch's `pixel_shuffle`.
    ChannelFirst,
}

impl Tensor {
    /// The elements moved along axes by as many places, those that leave at one end back in at the other. Without
    /// axes, all elements in row-major order are moved by the one shift there is.
    pub fn roll(&self, shifts: &[isize], axes: &[isize]) -> Result<Tensor> {
        let op = "roll";
        if axes.is_empty() && shifts.len() == 1 {
            let row = self.reshape(&[self.elem_count()])?;
            return row.rolled(0, shifts[0])?.contiguous()?.view(self.shape());
        }
        if shifts.len() != axes.len() {
            let got = format!("{} shifts", shifts.len());
            let expected = format!("{}, one for each axis", axes.len());
            return Err(Error::parameter(op, "shifts", got, expected));
        }
        let mut moved = self.clone();
        for (&shift, &axis) in shifts.iter().zip(axes) {
            moved = moved.rolled(axis::resolve(op, "axes", axis, self.rank())?, shift)?;
        }
        moved.contiguous()
    }

    fn rolled(&self, axis: usize, shift: isize) -> Result<Tensor> {
        let size = self.shape()[axis];
        let signed = axis as isize;
        let by = match size {
            0 => 0,
            _ => shift.rem_euclid(size as isize) as usize,
        };
        if by == 0 {
            return Ok(self.clone());
        }
        let front = self.narrow(signed, size - by, by)?;
        let back = self.narrow(signed, 0, size - by)?;
        joined("roll", &[&front, &back], axis)
    }

    /// Channels of `[..., channels, height, width]` laid out as blocks of `block` times `block` elements: to
    /// `[..., channels / block², height * block, width * block]`.
    pub fn depth_to_space(&self, block: usize, order: DepthOrder) -> Result<Tensor> {
        let op = "depth_to_space";
        let [outer, channels, height, width] = self.image(op)?;
        let area = block
            .checked_mul(block)
            .filter(|&area| area > 0 && channels % area == 0);
        let Some(area) = area else {
            let expected = format!("one whose square divides {channels}, the number of channels");
            return Err(Error::parameter(op, "block", block, expected));
        };
        let left = channels / area;
        let apart = match order {
            DepthOrder::BlockFirst => self
                .reshape(&[outer, block, block, left, height, width])?
                .permute(&[0, 3, 4, 1, 5, 2])?,
            DepthOrder::ChannelFirst => self
                .reshape(&[outer, left, block, block, height, width])?
                .permute(&[0, 1, 4, 2, 5, 3])?,
        };
        apart.reshape(&self.image_of([left, height * block, width * block]))
    }

    /// Blocks of `block` times `block` elements of `[..., channels, height, width]` as channels: to
    /// `[..., channels * block², height / block, width / block]`. It undoes [`depth_to_space`](Self::depth_to_space)
    /// of the same order.
    pub fn space_to_depth(&self, block: usize, order: DepthOrder) -> Result<Tensor> {
        let op = "space_to_depth";
        let [outer, channels, height, width] = self.image(op)?;
        if block == 0 || height % block != 0 || width % block != 0 {
            let expected = format!("one that divides {height} and {width}, the height and width");
            return Err(Error::parameter(op, "block", block, expected));
        }
        let (rows, columns) = (height / block, width / block);
        let apart = self.reshape(&[outer, channels, rows, block, columns, block])?;
        let order: [isize; 6] = match order {
            DepthOrder::BlockFirst => [0, 3, 5, 1, 2, 4],
            DepthOrder::ChannelFirst => [0, 1, 3, 5, 2, 4],
        };
        apart
            .permute(&order)?
            .reshape(&self.image_of([channels * block * block, rows, columns]))
    }

    /// [`depth_to_space`](Self::depth_to_space), channels first.
    pub fn pixel_shuffle(&self, factor: usize) -> Result<Tensor> {
        self.depth_to_space(factor, DepthOrder::ChannelFirst)
    }

    /// [`space_to_depth`](Self::space_to_depth), channels first.
    pub fn pixel_unshuffle(&self, factor: usize) -> Result<Tensor> {
        self.space_to_depth(factor, DepthOrder::ChannelFirst)
    }

    /// The last three sizes, after the product of the others.
    fn image(&self, op: &'static str) -> Result<[usize; 4]> {
        match self.shape() {
            [outer @ .., channels, height, width] => {
                Ok([outer.iter().product(), *channels, *height, *width])
            }
            other => Err(Error::shape(
                op,
                "self",
                other,
                "[..., channels, height, width]",
            )),
        }
    }

    fn image_of(&self, sizes: [usize; 3]) -> Vec<usize> {
        [&self.shape()[..self.rank() - 3], &sizes].concat()
    }

    /// Vectors, or single values, as coordinates of a grid: the i-th result has along axis `i` the elements of the i-th
    /// tensor, and repeats them along the others. Results are views.
    pub fn meshgrid(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
        let op = "meshgrid";
        if tensors.len() > MAX_RANK {
            let expected = format!("at most {MAX_RANK}");
            return Err(Error::parameter(op, "tensors", tensors.len(), expected));
        }
        if let Some(tensor) = tensors.iter().find(|tensor| tensor.rank() > 1) {
            return Err(Error::shape(
                op,
                "tensors",
                tensor.shape(),
                "at most one axis",
            ));
        }
        let sizes: Vec<usize> = tensors.iter().map(|tensor| tensor.elem_count()).collect();
        let along = |(axis, tensor): (usize, &&Tensor)| {
            let mut only = vec![1; sizes.len()];
            only[axis] = sizes[axis];
            tensor.view(&only)?.broadcast_to(&sizes)
        };
        tensors.iter().enumerate().map(along).collect()
    }

    /// As [`meshgrid`](Self::meshgrid), with the first two axes changed for each other: columns, then rows.
    pub fn meshgrid_xy(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
        let grid = Tensor::meshgrid(tensors)?;
        match tensors.len() {
            0 | 1 => Ok(grid),
            _ => grid.iter().map(|part| part.transpose(0, 1)).collect(),
        }
    }
}
