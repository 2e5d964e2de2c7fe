//! Convolutions.

use streampool_tensor::{ConvOptions, DType, Tensor};

use super::call::{Call, Operator, Outputs};
use super::floats::by_floats;
use super::sliding::{Sliding, counted, each, halves, pads, reach, spread};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Conv" => |call| {
            let (x, weight) = (call.input(0)?, call.input(1)?);
            Ok(vec![convolved(call, x, weight, call.optional(2)?)?])
        },
        "ConvTranspose" => conv_transpose,
        "CausalConvWithState" => causal_conv,
        "DeformConv" => deform_conv,
        "Col2Im" => fold,
        _ => return None,
    })
}

/// The convolution that a node's attributes describe.
pub fn convolved(
    call: &Call<'_>,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor, NodeError> {
    let options = ConvOptions {
        bias,
        ..ConvOptions::default()
    };
    convolved_with(call, x, weight, &options)
}

/// As [`convolved`], with what attributes do not say.
pub fn convolved_with(
    call: &Call<'_>,
    x: &Tensor,
    weight: &Tensor,
    options: &ConvOptions<'_>,
) -> Result<Tensor, NodeError> {
    let sliding = Sliding::of(call, spatial(x)?, kernel_of(call, weight)?)?;
    let options = ConvOptions {
        stride: &sliding.stride,
        padding: &sliding.padding,
        dilation: &sliding.dilation,
        groups: call.size_or("group", 1)?,
        ..*options
    };
    Ok(x.conv(weight, &options)?)
}

/// The sizes of a window, which the node may name once more.
pub fn kernel_of<'t>(call: &Call<'_>, weight: &'t Tensor) -> Result<&'t [usize], NodeError> {
    let (own, named) = (spatial(weight)?, call.sizes("kernel_shape")?);
    if !call.has("kernel_shape") || named == own {
        return Ok(own);
    }
    let (got, expected) = (format!("{named:?}"), format!("{own:?}, as of the weights"));
    Err(NodeError::malformed(
        "attribute kernel_shape",
        got,
        expected,
    ))
}

/// The sizes behind batch and channels.
pub fn spatial(tensor: &Tensor) -> Result<&[usize], NodeError> {
    let shape = tensor.shape();
    let got = format!("of shape {shape:?}");
    let missing = || NodeError::malformed("an input", got, "[batch, channels, spatial ...]");
    shape.get(2..).ok_or_else(missing)
}

fn conv_transpose(call: &Call<'_>) -> Outputs {
    let (x, weight) = (call.input(0)?, call.input(1)?);
    let (sizes, kernel) = (spatial(x)?, kernel_of(call, weight)?);
    let rank = sizes.len().min(kernel.len());
    let (stride, dilation) = (each(call, "strides", rank)?, each(call, "dilations", rank)?);
    let mut extra = match call.has("output_padding") {
        true => each(call, "output_padding", rank)?,
        false => vec![0; rank],
    };
    let auto = call.string_or("auto_pad", "NOTSET")?;
    let wanted = call.sizes("output_shape")?;
    if call.has("output_shape") && wanted.len() != rank + 2 {
        counted("output_shape", &wanted, rank)?;
    }
    if wanted.contains(&0) {
        let (got, expected) = (format!("{wanted:?}"), "at least 1 for each axis");
        return Err(NodeError::malformed(
            "attribute output_shape",
            got,
            expected,
        ));
    }
    let mut padding = match auto {
        "VALID" => vec![(0, 0); rank],
        "NOTSET" | "" | "SAME_UPPER" | "SAME_LOWER" => pads(call, rank)?,
        other => return Err(call.unknown("auto_pad", other)),
    };
    for axis in 0..rank {
        let whole = match (wanted.len().checked_sub(rank), auto) {
            // The sizes may be those of all axes.
            (Some(skipped), _) => wanted[skipped + axis],
            (None, "SAME_UPPER" | "SAME_LOWER") => sizes[axis].saturating_mul(stride[axis]),
            _ => continue,
        };
        let reach = reach(kernel[axis], dilation[axis]);
        let spread = spread(sizes[axis], stride[axis], reach).saturating_add(extra[axis]);
        padding[axis] = halves(spread.saturating_sub(whole), auto != "SAME_UPPER");
        extra[axis] = extra[axis].saturating_add(whole.saturating_sub(spread));
    }
    let options = ConvOptions {
        bias: call.optional(2)?,
        stride: &stride,
        padding: &padding,
        dilation: &dilation,
        groups: call.size_or("group", 1)?,
        ..ConvOptions::default()
    };
    Ok(vec![x.conv_transpose(weight, &extra, &options)?])
}

/// A convolution of each channel by itself that sees only what is before, some of it from an earlier call.
fn causal_conv(call: &Call<'_>) -> Outputs {
    let (x, weight) = (call.input(0)?, call.input(1)?);
    let (batch, channels, past) = match (x.shape(), weight.shape()) {
        (&[batch, channels, _], &[_, _, kernel]) if kernel > 0 => (batch, channels, kernel - 1),
        (x, weight) => {
            let got = format!("{x:?} and {weight:?}");
            return Err(NodeError::malformed(
                "the shapes of input and weight",
                got,
                "three axes each",
            ));
        }
    };
    let before = match call.optional(3)? {
        Some(before) => before.clone(),
        None => Tensor::zeros(call.pool(), &[batch, channels, past], x.dtype())?,
    };
    let all = Tensor::cat(&[&before, x], 2)?;
    let options = ConvOptions {
        bias: call.optional(2)?,
        groups: channels,
        ..ConvOptions::default()
    };
    let y = all.conv(weight, &options)?;
    let y = match call.string_or("activation", "none")? {
        "none" => y,
        "silu" | "swish" => y.silu()?,
        other => return Err(call.unknown("activation", other)),
    };
    let present = all.narrow(2, x.shape()[2], past)?;
    Ok(vec![y, present])
}

fn deform_conv(call: &Call<'_>) -> Outputs {
    let (x, weight, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let kernel = kernel_of(call, weight)?;
    let sliding = Sliding::of(call, spatial(x)?, kernel)?;
    let each = kernel
        .iter()
        .fold(2, |all: usize, &size| all.saturating_mul(size));
    let (groups, joined) = (call.size_or("offset_group", 1)?, offset.dim(1)?);
    if groups.checked_mul(each) != Some(joined) {
        let expected = format!("{joined} offsets, {each} for each group");
        return Err(NodeError::malformed(
            "attribute offset_group",
            groups,
            expected,
        ));
    }
    let options = ConvOptions {
        bias: call.optional(3)?,
        stride: &sliding.stride,
        padding: &sliding.padding,
        dilation: &sliding.dilation,
        groups: call.size_or("group", 1)?,
        ..ConvOptions::default()
    };
    Ok(vec![x.deform_conv(
        weight,
        offset,
        call.optional(4)?,
        &options,
    )?])
}

fn fold(call: &Call<'_>) -> Outputs {
    let (image, block) = (call.input_sizes(1)?, call.input_sizes(2)?);
    let rank = image.len();
    let (stride, dilation) = (each(call, "strides", rank)?, each(call, "dilations", rank)?);
    let padding = pads(call, rank)?;
    let options = ConvOptions {
        stride: &stride,
        padding: &padding,
        dilation: &dilation,
        ..ConvOptions::default()
    };
    let x = call.input(0)?;
    // Sums of integers wrap.
    let wide = match x.dtype().is_integer() {
        true => x.to_dtype(DType::I64)?,
        false => x.clone(),
    };
    let folded = by_floats(&wide, |x| x.fold(&image, &block, &options))?;
    Ok(vec![folded.to_dtype(x.dtype())?])
}
