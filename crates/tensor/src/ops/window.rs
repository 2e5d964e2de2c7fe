//! Windows as users describe them: a value for each spatial axis, or none for the default everywhere.

use streampool_device::{Slide, Window};

use crate::{Error, Result, Tensor};

/// The most spatial axes of a window.
const MOST_AXES: usize = 3;

/// A window that is described so.
pub(super) struct Sliding<'a> {
    pub op: &'static str,
    pub kernel: &'a [usize],
    pub stride: &'a [usize],
    pub padding: &'a [(usize, usize)],
    pub dilation: &'a [usize],
}

impl Sliding<'_> {
    /// The window over `rank` spatial axes.
    pub fn window(&self, rank: usize) -> Result<Window> {
        let Sliding { op, .. } = *self;
        if rank > MOST_AXES {
            let expected = format!("at most {MOST_AXES}");
            return Err(Error::parameter(op, "spatial axes", rank, expected));
        }
        let kernel = per_axis(op, "kernel", self.kernel, 1, rank)?;
        let stride = per_axis(op, "stride", self.stride, 1, rank)?;
        let dilation = per_axis(op, "dilation", self.dilation, 1, rank)?;
        let padding = per_axis(op, "padding", self.padding, (0, 0), rank)?;
        let mut slides = [Slide::new(1); MOST_AXES];
        for axis in 0..rank {
            slides[axis] = Slide {
                kernel: positive(op, "kernel", kernel[axis])?,
                stride: positive(op, "stride", stride[axis])?,
                dilation: positive(op, "dilation", dilation[axis])?,
                before: narrow(op, "padding", padding[axis].0)?,
                after: narrow(op, "padding", padding[axis].1)?,
            };
        }
        Ok(Window::new(&slides[..rank])?)
    }
}

/// How many windows there are along an axis of `tensor`; with `ceil`, one more that is not filled. None is an error.
pub(super) fn count(
    op: &'static str,
    tensor: &Tensor,
    axis: usize,
    slide: &Slide,
    ceil: bool,
) -> Result<usize> {
    let size = tensor.shape()[axis];
    let windows = match ceil {
        true => slide.windows_ceil(size),
        false => slide.windows(size),
    };
    if windows > 0 {
        return Ok(windows);
    }
    let expected = format!(
        "at least {} elements in axis {axis}, with padding, as a window reaches over",
        slide.reach()
    );
    Err(Error::shape(op, "self", tensor.shape(), expected))
}

/// A value for each of up to [`MOST_AXES`] axes.
pub(super) fn per_axis<T: Copy + std::fmt::Debug>(
    op: &'static str,
    argument: &'static str,
    values: &[T],
    default: T,
    rank: usize,
) -> Result<[T; MOST_AXES]> {
    let mut all = [default; MOST_AXES];
    if values.is_empty() {
        return Ok(all);
    }
    if values.len() != rank {
        let expected = format!("{rank} values, one for each spatial axis, or none");
        let got = format!("{values:?}");
        return Err(Error::parameter(op, argument, got, expected));
    }
    all[..rank].copy_from_slice(values);
    Ok(all)
}

fn positive(op: &'static str, argument: &'static str, value: usize) -> Result<u32> {
    match narrow(op, argument, value)? {
        0 => Err(Error::parameter(op, argument, 0, "at least 1")),
        value => Ok(value),
    }
}

/// Larger ones than this reach beyond any tensor, and their products must not overflow.
const MOST: usize = 1 << 30;

fn narrow(op: &'static str, argument: &'static str, value: usize) -> Result<u32> {
    if value > MOST {
        let expected = format!("at most {MOST}");
        return Err(Error::parameter(op, argument, value, expected));
    }
    Ok(value as u32)
}
