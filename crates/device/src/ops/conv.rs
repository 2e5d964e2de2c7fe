//! Convolution and its transpose.

use super::{Slide, Window, optional};
use crate::check::{dtype, float, invalid, product, rank, require, shape, steps, writable};
use crate::{Access, Activation, DType, OpKind, Result, View};

/// `dst = activation(src * weight + bias)`, the convolution (as in machine learning: a correlation) or its transpose.
///
/// All are floats of one type; or `src` is `u8`, `weight` is `i8`, and `bias` and `dst` are `i32`, whose sums wrap: a convolution over two
/// dimensions, without an activation, on devices whose [`channels_last`](crate::Device::channels_last) names `u8`. Such sums may be made
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conv<T = View> {
    /// `[batch, channels in, spatial ...]`, one to three spatial dimensions.
    pub src: T,
    /// `[channels out, channels in / groups, kernel ...]`; transposed: `[channels in, channels out / groups, kernel ...]`.
    pub weight: T,
    /// `[channels out]`.
    pub bias: Option<T>,
    /// `[batch, channels out, spatial ...]`, with as many windows as there are; transposed: up to
    /// `max(stride, dilation) - 1` more than the windows spread to.
    pub dst: T,
    /// How the kernel slides; transposed, over `dst`.
    pub window: Window,
    /// Channels are in this many groups, and each sees its own.
    pub groups: usize,
    /// Whether each element of `src` is spread over a window of `dst`, instead of each of `dst` being the sum
    /// over a window of `src`.
    pub transposed: bool,
    /// Applied last.
    pub activation: Activation,
    /// The byte of `src` that stands for zero, as what pads does: it is taken from each. Of floats, 0.
    pub zero_point: u8,
    /// What makes bytes of sums of bytes: `dst` is `u8` then, and `bias` is `f32`.
    pub to_bytes: Option<ToBytes<T>>,
}

/// Makes bytes of sums: `round(sum * scale + bias) + zero_point`, each step in `f32`, or the nearest byte; of NaN, zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToBytes<T = View> {
    /// `[channels out]`, `f32`.
    pub scale: T,
    /// The byte that stands for zero.
    pub zero_point: u8,
}

impl<T> Conv<T> {
    /// Whether it sees patches: windows of more than one place, side by side and without padding, so that each element is in one at most.
    pub fn is_of_patches(&self) -> bool {
        let is_beside = |slide: &Slide| {
            let is_padded = slide.before > 0 || slide.after > 0;
            slide.kernel == slide.stride && slide.dilation == 1 && !is_padded
        };
        self.groups == 1
            && !self.transposed
            && self.window.iter().all(is_beside)
            && self.window.iter().any(|slide| slide.kernel > 1)
    }

    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Conv<U>, E> {
        Ok(Conv {
            src: f("src", Access::Read, &self.src)?,
            weight: f("weight", Access::Read, &self.weight)?,
            bias: optional(&self.bias, "bias", Access::Read, f)?,
            dst: f("dst", Access::Write, &self.dst)?,
            window: self.window,
            groups: self.groups,
            transposed: self.transposed,
            activation: self.activation,
            zero_point: self.zero_point,
            to_bytes: match &self.to_bytes {
                Some(ToBytes { scale, zero_point }) => Some(ToBytes {
                    scale: f("scale", Access::Read, scale)?,
                    zero_point: *zero_point,
                }),
                None => None,
            },
        })
    }
}

impl Conv<View> {
    /// Whether it is one of bytes.
    pub fn is_of_bytes(&self) -> bool {
        self.src.dtype() == DType::U8
    }

    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Conv;
        let Conv {
            src,
            weight,
            dst,
            groups,
            ..
        } = self;
        writable(kind, "dst", dst)?;
        let is_of_bytes = self.is_of_bytes();
        if is_of_bytes {
            let is_plain = !self.transposed && self.window.len() == 2;
            require(
                kind,
                "src",
                is_plain && self.activation == Activation::None,
                format_args!("u8, of {} dimensions", self.window.len()),
                "floats, or a plain convolution over two dimensions without an activation",
            )?;
        } else {
            float(kind, "src", src)?;
            let is_plain = self.zero_point == 0 && self.to_bytes.is_none();
            require(
                kind,
                "src",
                is_plain,
                format_args!("{}, with a scale or a zero point", src.dtype()),
                "u8, or neither",
            )?;
        }
        let [weight_type, bias_type, made_type] = match (is_of_bytes, &self.to_bytes) {
            (true, Some(_)) => [DType::I8, DType::F32, DType::U8],
            (true, None) => [DType::I8, DType::I32, DType::I32],
            (false, _) => [src.dtype(); 3],
        };
        rank(kind, "src", src, self.window.len() + 2)?;
        for (argument, view, expected) in [("weight", weight, weight_type), ("dst", dst, made_type)]
        {
            rank(kind, argument, view, self.window.len() + 2)?;
            dtype(kind, argument, view.dtype(), expected)?;
        }
        let spread = if self.transposed { dst } else { src };
        self.window.check(kind, spread.shape())?;
        let channels = src.shape()[1];
        require(
            kind,
            "groups",
            *groups > 0 && channels.is_multiple_of(*groups),
            groups,
            format_args!("a divisor of the {channels} channels of src"),
        )?;
        let (from, to) = (weight.shape()[0], weight.shape()[1]);
        let grouped = product(kind, "weight", [to, *groups])?;
        let (read, made) = match self.transposed {
            false => (grouped, from),
            true => (from, grouped),
        };
        if read != channels || !made.is_multiple_of(*groups) {
            return Err(invalid(
                kind,
                "weight",
                format_args!("of shape {:?}", weight.shape()),
                format_args!("one for {channels} channels in {groups} groups"),
            ));
        }
        shape(kind, "dst", &dst.shape()[..2], &[src.shape()[0], made])?;
        for (axis, slide) in self.window.iter().enumerate() {
            let (size, got) = (src.shape()[axis + 2], dst.shape()[axis + 2]);
            require(
                kind,
                "weight",
                weight.shape()[axis + 2] == slide.kernel as usize,
                format_args!("of shape {:?}", weight.shape()),
                format_args!("a kernel of {} in dimension {}", slide.kernel, axis + 2),
            )?;
            let (fits, expected) = match self.transposed {
                false => (got == slide.windows(size), slide.windows(size) as i128),
                true => {
                    let spread = slide.spread(size);
                    let extra = got as i128 - spread;
                    let most = i128::from(slide.stride.max(slide.dilation));
                    (extra >= 0 && (extra == 0 || extra < most), spread)
                }
            };
            require(
                kind,
                "dst",
                fits,
                format_args!("of shape {:?}", dst.shape()),
                format_args!("{expected} elements in dimension {}", axis + 2),
            )?;
        }
        if let Some(bias) = &self.bias {
            dtype(kind, "bias", bias.dtype(), bias_type)?;
            shape(kind, "bias", bias.shape(), &[made])?;
        }
        if let Some(ToBytes { scale, .. }) = &self.to_bytes {
            dtype(kind, "scale", scale.dtype(), DType::F32)?;
            shape(kind, "scale", scale.shape(), &[made])?;
        }
        // Each element of what the windows lie on meets all weights of its group.
        let windows = if self.transposed { src } else { dst };
        let each = weight.layout().elements() / groups;
        steps(kind, "weight", [windows.layout().elements(), each])
    }
}
