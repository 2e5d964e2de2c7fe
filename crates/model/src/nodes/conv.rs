//! Convolutions.

use streampool_tensor::{ConvOptions, Tensor};

use super::Operator;
use super::sliding::{Sliding, each, halves, pads};
use crate::error::Fault;
use crate::node::{Node, Outputs, size};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Conv" => |node| {
            let (x, weight) = (node.input(0)?, node.input(1)?);
            Ok(vec![convolved(node, x, weight, node.optional(2))?])
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
    node: &Node<'_>,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor, Fault> {
    let sliding = Sliding::of(node, spatial(x)?, spatial(weight)?)?;
    let options = ConvOptions {
        bias,
        stride: &sliding.stride,
        padding: &sliding.padding,
        dilation: &sliding.dilation,
        groups: node.size_or("group", 1)?,
        ..ConvOptions::default()
    };
    Ok(x.conv(weight, &options)?)
}

/// The sizes behind batch and channels.
pub fn spatial(tensor: &Tensor) -> Result<&[usize], Fault> {
    let shape = tensor.shape();
    let got = format!("of shape {shape:?}");
    let missing = || Fault::malformed("an input", got, "[batch, channels, spatial ...]");
    shape.get(2..).ok_or_else(missing)
}

fn conv_transpose(node: &Node<'_>) -> Outputs {
    let (x, weight) = (node.input(0)?, node.input(1)?);
    let (sizes, kernel) = (spatial(x)?, spatial(weight)?);
    let rank = sizes.len().min(kernel.len());
    let (stride, dilation) = (each(node, "strides", rank)?, each(node, "dilations", rank)?);
    let mut extra = match node.has("output_padding") {
        true => each(node, "output_padding", rank)?,
        false => vec![0; rank],
    };
    let auto = node.string_or("auto_pad", "NOTSET")?;
    let wanted = node.sizes("output_shape")?;
    let mut padding = match auto {
        "VALID" => vec![(0, 0); rank],
        _ => pads(node, rank)?,
    };
    for axis in 0..rank {
        let whole = match (wanted.len().checked_sub(rank), auto) {
            // The sizes may be those of all axes.
            (Some(skipped), _) => wanted[skipped + axis],
            (None, "SAME_UPPER" | "SAME_LOWER") => sizes[axis] * stride[axis],
            _ => continue,
        };
        let reach = (kernel[axis].max(1) - 1) * dilation[axis] + 1;
        let spread = sizes[axis].saturating_sub(1) * stride[axis] + reach + extra[axis];
        padding[axis] = halves(spread.saturating_sub(whole), auto != "SAME_UPPER");
        extra[axis] += whole.saturating_sub(spread);
    }
    let options = ConvOptions {
        bias: node.optional(2),
        stride: &stride,
        padding: &padding,
        dilation: &dilation,
        groups: node.size_or("group", 1)?,
        ..ConvOptions::default()
    };
    Ok(vec![x.conv_transpose(weight, &extra, &options)?])
}

/// A convolution of each channel by itself that sees only what is before, some of it from an earlier call.
fn causal_conv(node: &Node<'_>) -> Outputs {
    let (x, weight) = (node.input(0)?, node.input(1)?);
    let (batch, channels, past) = match (x.shape(), weight.shape()) {
        (&[batch, channels, _], &[_, _, kernel]) if kernel > 0 => (batch, channels, kernel - 1),
        (x, weight) => {
            let got = format!("{x:?} and {weight:?}");
            return Err(Fault::malformed(
                "the shapes of input and weight",
                got,
                "three axes each",
            ));
        }
    };
    let before = match node.optional(3) {
        Some(before) => before.clone(),
        None => Tensor::zeros(node.pool(), &[batch, channels, past], x.dtype())?,
    };
    let all = Tensor::cat(&[&before, x], 2)?;
    let options = ConvOptions {
        bias: node.optional(2),
        groups: channels,
        ..ConvOptions::default()
    };
    let y = all.conv(weight, &options)?;
    let y = match node.string_or("activation", "none")? {
        "none" => y,
        "silu" | "swish" => y.silu()?,
        other => return Err(node.unknown("activation", other)),
    };
    let present = all.narrow(2, x.shape()[2], past)?;
    Ok(vec![y, present])
}

fn deform_conv(node: &Node<'_>) -> Outputs {
    let (x, weight) = (node.input(0)?, node.input(1)?);
    let sliding = Sliding::of(node, spatial(x)?, spatial(weight)?)?;
    let options = ConvOptions {
        bias: node.optional(3),
        stride: &sliding.stride,
        padding: &sliding.padding,
        dilation: &sliding.dilation,
        groups: node.size_or("group", 1)?,
        ..ConvOptions::default()
    };
    Ok(vec![x.deform_conv(
        weight,
        node.input(2)?,
        node.optional(4),
        &options,
    )?])
}

fn fold(node: &Node<'_>) -> Outputs {
    let sizes = |place| {
        let given = node.ints(place)?.into_iter();
        given
            .map(|value| size("a size", value))
            .collect::<Result<Vec<usize>, Fault>>()
    };
    let (image, block) = (sizes(1)?, sizes(2)?);
    let rank = image.len();
    let (stride, dilation) = (each(node, "strides", rank)?, each(node, "dilations", rank)?);
    let padding = pads(node, rank)?;
    let options = ConvOptions {
        stride: &stride,
        padding: &padding,
        dilation: &dilation,
        ..ConvOptions::default()
    };
    Ok(vec![node.input(0)?.fold(&image, &block, &options)?])
}
