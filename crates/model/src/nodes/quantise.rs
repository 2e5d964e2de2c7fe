//! Numbers in fewer bits, and products of those.

use streampool_tensor::{DType, Tensor};

use super::Operator;
use super::conv::convolved;
use super::product::matmul_integer;
use crate::error::Fault;
use crate::node::{Node, Outputs, resolve};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "QuantizeLinear" => quantize,
        "DequantizeLinear" => dequantize,
        "DynamicQuantizeLinear" => dynamic_quantize,
        "MatMulInteger" => |node| {
            let a = less_zero(node.input(0)?, node.optional(2), -2)?;
            let b = less_zero(node.input(1)?, node.optional(3), -1)?;
            Ok(vec![matmul_integer(&a, &b)?])
        },
        "ConvInteger" => |node| {
            let x = less_zero(node.input(0)?, node.optional(2), 1)?;
            let weight = less_zero(node.input(1)?, node.optional(3), 0)?;
            let sums = convolved(node, &x, &weight, None)?;
            Ok(vec![sums.to_dtype(DType::I32)?])
        },
        "QLinearMatMul" => |node| {
            let a = dequantized(node, 0, -2)?;
            let b = dequantized(node, 3, -1)?;
            requantized(node, &a.matmul(&b)?, 6)
        },
        "QLinearConv" => |node| {
            let x = dequantized(node, 0, 1)?;
            let weight = dequantized(node, 3, 0)?;
            let scale = seen_along(node.input(1)?, 0, 1)?.to_dtype(DType::F64)?;
            let scale = scale.mul(&node.input(4)?.to_dtype(DType::F64)?)?;
            let bias = node
                .optional(8)
                .map(|bias| bias.to_dtype(DType::F64)?.mul(&scale));
            let y = convolved(node, &x, &weight, bias.transpose()?.as_ref())?;
            requantized(node, &y, 6)
        },
        _ => return None,
    })
}

/// `values` of one axis, seen so that they lie along `axis` of `rank`; a single one fits anywhere.
fn seen_along(values: &Tensor, axis: usize, rank: usize) -> Result<Tensor, Fault> {
    if values.elements() == 1 {
        return Ok(values.reshape::<usize>(&[])?);
    }
    let mut shape = vec![1; rank];
    if let Some(size) = shape.get_mut(axis) {
        *size = values.elements();
    }
    Ok(values.reshape(&shape)?)
}

/// A tensor less its zero point, in `f64`, where sums of products of bytes are exact.
fn less_zero(x: &Tensor, zero: Option<&Tensor>, axis: isize) -> Result<Tensor, Fault> {
    let wide = x.to_dtype(DType::F64)?;
    let Some(zero) = zero else {
        return Ok(wide);
    };
    let along = match zero.rank() {
        0 | 1 => seen_along(zero, resolve(axis, x.rank())?, x.rank())?,
        _ => zero.clone(),
    };
    Ok(wide.sub(&along.to_dtype(DType::F64)?)?)
}

/// What inputs `first` and the two after it, a scale and a zero point, stand for.
fn dequantized(node: &Node<'_>, first: usize, axis: isize) -> Result<Tensor, Fault> {
    let x = node.input(first)?;
    let whole = less_zero(x, node.optional(first + 2), axis)?;
    let scale = node.input(first + 1)?;
    let scale = match scale.rank() {
        0 | 1 => seen_along(scale, resolve(axis, x.rank())?, x.rank())?,
        _ => scale.clone(),
    };
    Ok(whole.mul(&scale.to_dtype(DType::F64)?)?)
}

/// A result in the scale and with the zero point of inputs `scale` and the one after it.
fn requantized(node: &Node<'_>, y: &Tensor, scale: usize) -> Outputs {
    let (scale, zero) = (node.input(scale)?, node.input(scale + 1)?);
    let scale = seen_along(scale, 0, 0)?.to_dtype(y.dtype())?;
    Ok(vec![rounded(
        &y.div(&scale)?,
        &seen_along(zero, 0, 0)?,
        zero.dtype(),
    )?])
}

/// The nearest integers, plus the zero point, in the range of `dtype`.
fn rounded(scaled: &Tensor, zero: &Tensor, dtype: DType) -> Result<Tensor, Fault> {
    let (low, high) = match dtype {
        DType::I8 => (f64::from(i8::MIN), f64::from(i8::MAX)),
        DType::U8 => (0.0, f64::from(u8::MAX)),
        DType::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        DType::U16 => (0.0, f64::from(u16::MAX)),
        other => return Err(Fault::unsupported(format_args!("a quantised {other}"))),
    };
    let moved = scaled
        .round()?
        .to_dtype(DType::F32)?
        .add(&zero.to_dtype(DType::F32)?)?;
    Ok(moved.clamp(low, high)?.to_dtype(dtype)?)
}

/// Scales or zero points, spread over the elements of `x` that share them.
fn spread(node: &Node<'_>, values: &Tensor, x: &Tensor) -> Result<Tensor, Fault> {
    let block = node.size_or("block_size", 0)?;
    if values.elements() == 1 && block == 0 {
        return seen_along(values, 0, 0);
    }
    let axis = resolve(node.axis_or("axis", 1)?, x.rank())?;
    if block == 0 {
        return seen_along(values, axis, x.rank());
    }
    let blocks = values.repeat_interleave(block, axis as isize)?;
    Ok(blocks.narrow(axis as isize, 0, x.shape()[axis])?)
}

fn quantize(node: &Node<'_>) -> Outputs {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let zero = node.optional(2);
    let named = node.attr_dtype("output_dtype")?;
    let dtype = zero.map(Tensor::dtype).or(named).unwrap_or(DType::U8);
    let zero = match zero {
        Some(zero) => spread(node, zero, x)?,
        None => Tensor::zeros(node.pool(), &[], dtype)?,
    };
    let scale = spread(node, scale, x)?.to_dtype(x.dtype())?;
    Ok(vec![rounded(&x.div(&scale)?, &zero, dtype)?])
}

fn dequantize(node: &Node<'_>) -> Outputs {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let dtype = scale.dtype();
    let mut whole = x.to_dtype(DType::F32)?;
    if let Some(zero) = node.optional(2) {
        whole = whole.sub(&spread(node, zero, x)?.to_dtype(DType::F32)?)?;
    }
    let scale = spread(node, scale, x)?.to_dtype(DType::F32)?;
    Ok(vec![whole.mul(&scale)?.to_dtype(dtype)?])
}

fn dynamic_quantize(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let (low, high) = (
        x.min(&[], false)?.minimum(0.0)?,
        x.max(&[], false)?.maximum(0.0)?,
    );
    let scale = high.sub(&low)?.div(255.0)?;
    let none = Tensor::zeros(node.pool(), &[], DType::U8)?;
    let zero = rounded(&low.neg()?.div(&scale)?, &none, DType::U8)?;
    let y = rounded(&x.div(&scale)?, &zero, DType::U8)?;
    Ok(vec![y, scale, zero])
}
