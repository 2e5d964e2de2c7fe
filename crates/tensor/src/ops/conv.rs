//! Convolution and its transpose.

use smallvec::SmallVec;
use streampool_device::{Activation, Conv, DType, Layout, Op, Slide, ToBytes, Window};

use super::window::{self, Sliding, per_axis};
use crate::{Error, Result, Tensor};

/// How a convolution is computed. Slices hold a value for each spatial axis; empty ones mean the default everywhere.
#[derive(Debug, Clone, Copy)]
pub struct ConvOptions<'a> {
    /// Added: `[channels out]`.
    pub bias: Option<&'a Tensor>,
    /// The distance between neighbouring windows; 1.
    pub stride: &'a [usize],
    /// Zeros before and after; none.
    pub padding: &'a [(usize, usize)],
    /// The distance between neighbouring elements of a window; 1.
    pub dilation: &'a [usize],
    /// In how many groups channels are; 1.
    pub groups: usize,
    /// Applied last, in the same launch.
    pub activation: Activation,
    /// The byte that stands for zero, of `u8`; 0.
    pub zero_point: u8,
    /// What makes bytes of sums of bytes: the scale of each channel, `f32` as the bias is then, and the byte that stands for zero.
    pub to_bytes: Option<(&'a Tensor, u8)>,
}

impl Default for ConvOptions<'_> {
    fn default() -> Self {
        ConvOptions {
            bias: None,
            stride: &[],
            padding: &[],
            dilation: &[],
            groups: 1,
            activation: Activation::None,
            zero_point: 0,
            to_bytes: None,
        }
    }
}

impl Tensor {
    /// The convolution of `[batch, channels in, spatial ...]` with `weight`, `[channels out, channels in / groups,
    /// kernel ...]`, over one, two or three spatial axes.
    ///
    /// Of `u8` and weights of `i8` it is made of exact sums, `i32`, over one or two axes, where the device has that: where its
    /// `channels_last` names `u8`. With [`to_bytes`](ConvOptions::to_bytes) it makes bytes of them:
    /// `round(sum * scale + bias) + zero_point`, or what is nearest.
    pub fn conv(&self, weight: &Tensor, options: &ConvOptions<'_>) -> Result<Tensor> {
        let op = "conv";
        let window = self.conv_window(op, weight, options)?;
        let mut shape = [0; 5];
        shape[0] = self.shape()[0];
        shape[1] = weight.shape()[0];
        for (axis, slide) in window.iter().enumerate() {
            shape[axis + 2] = window::count(op, self, axis + 2, slide, false)?;
        }
        self.convolved(
            op,
            weight,
            options,
            window,
            false,
            &shape[..window.len() + 2],
        )
    }

    /// The transposed convolution of `[batch, channels in, spatial ...]` with `weight`, `[channels in, channels out /
    /// groups, kernel ...]`. `extra` says how many elements more than the windows reach the result has in each
    /// spatial axis, at its end; none, if it is empty.
    pub fn conv_transpose(
        &self,
        weight: &Tensor,
        extra: &[usize],
        options: &ConvOptions<'_>,
    ) -> Result<Tensor> {
        let op = "conv_transpose";
        let window = self.conv_window(op, weight, options)?;
        let extra = per_axis(op, "extra", extra, 0, window.len())?;
        let mut shape = [0; 5];
        shape[0] = self.shape()[0];
        shape[1] = weight.shape()[1] * options.groups;
        for (axis, slide) in window.iter().enumerate() {
            let most = slide.stride.max(slide.dilation) as usize - 1;
            if extra[axis] > most {
                let expected = format!(
                    "at most {most} for axis {}, less than its stride or dilation",
                    axis + 2
                );
                return Err(Error::parameter(op, "extra", extra[axis], expected));
            }
            let spread = slide.spread(self.shape()[axis + 2]) + extra[axis] as i128;
            shape[axis + 2] = usize::try_from(spread).map_err(|_| {
                let got = format!("{:?}", options.padding);
                let expected = format!("less than what axis {} reaches", axis + 2);
                Error::parameter(op, "padding", got, expected)
            })?;
        }
        self.convolved(
            op,
            weight,
            options,
            window,
            true,
            &shape[..window.len() + 2],
        )
    }

    fn conv_window(
        &self,
        op: &'static str,
        weight: &Tensor,
        options: &ConvOptions<'_>,
    ) -> Result<Window> {
        if !(3..=5).contains(&self.rank()) {
            let expected = "[batch, channels, spatial ...] with 1 to 3 spatial axes";
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        if weight.rank() != self.rank() {
            let expected = format!("{} axes, as self has", self.rank());
            return Err(Error::shape(op, "weight", weight.shape(), expected));
        }
        let channels = self.shape()[1];
        if options.groups == 0
            || options.groups > channels.max(1)
            || !channels.is_multiple_of(options.groups)
        {
            let expected = format!("a divisor of {channels}, the number of channels");
            return Err(Error::parameter(op, "groups", options.groups, expected));
        }
        Sliding {
            op,
            kernel: &weight.shape()[2..],
            stride: options.stride,
            padding: options.padding,
            dilation: options.dilation,
        }
        .window(self.rank() - 2)
    }

    fn convolved(
        &self,
        op: &'static str,
        weight: &Tensor,
        options: &ConvOptions<'_>,
        window: Window,
        transposed: bool,
        shape: &[usize],
    ) -> Result<Tensor> {
        let on = self
            .encoder(op)?
            .with("weight", [weight])?
            .with("bias", options.bias)?
            .with("scale", options.to_bytes.map(|(scale, _)| scale))?;
        let dtype = match (self.dtype(), options.to_bytes) {
            (DType::U8, None) => DType::I32,
            (dtype, _) => dtype,
        };
        let mut dst = on.blank(dtype, shape)?;
        // Kernels go along the last axis: one of a single element, as a sequence has that is written as a picture, is
        // left out.
        let single = |axis: &usize| {
            (window[axis - 2].kernel, window[axis - 2].before) == (1, 0)
                && [self.shape()[*axis], shape[*axis]] == [1, 1]
        };
        let singles = (3..self.rank()).rev().take_while(single).count();
        let axes = self.rank() - singles;
        // A sequence is a picture of one row, for which devices have the most ways.
        let one_row = axes == 3 && !transposed;
        let leading = |layout: &Layout| {
            let mut shape = SmallVec::<[usize; 5]>::from_slice(&layout.shape()[..axes]);
            let mut strides = SmallVec::<[isize; 5]>::from_slice(&layout.strides()[..axes]);
            if one_row {
                strides.insert(2, strides[2].saturating_mul(shape[2] as isize));
                shape.insert(2, 1);
            }
            Layout::strided(&shape, &strides, layout.offset())
        };
        let window = match one_row {
            true => Window::new(&[Slide::new(1), window[0]])?,
            false => Window::new(&window[..axes - 2])?,
        };
        let to = leading(dst.layout())?;
        on.encode(Op::Conv(Box::new(Conv {
            src: self.operand_as(leading(self.layout())?)?,
            weight: weight.operand_as(leading(weight.layout())?)?,
            bias: options.bias.map(Tensor::operand).transpose()?,
            dst: dst.operand_as(to)?,
            window,
            groups: options.groups,
            transposed,
            activation: options.activation,
            zero_point: options.zero_point,
            to_bytes: (options.to_bytes)
                .map(|(scale, zero_point)| {
                    let scale = scale.operand()?;
                    Ok::<_, Error>(ToBytes { scale, zero_point })
                })
                .transpose()?,
        })))?;
        Ok(dst.finish())
    }
}
