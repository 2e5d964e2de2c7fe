//! Functions of several elements, and other types of the same ones.

use streampool_tensor::{DType, Tensor};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Add" => |node| binary(node, |x, y| x.add(y)),
        "Sub" => |node| binary(node, |x, y| x.sub(y)),
        "Mul" => |node| binary(node, |x, y| x.mul(y)),
        "Div" => |node| binary(node, |x, y| x.div(y)),
        "PRelu" => |node| binary(node, |x, y| x.prelu(y)),
        "And" => |node| binary(node, |x, y| x.logical_and(y)),
        "Or" => |node| binary(node, |x, y| x.logical_or(y)),
        "Xor" => |node| binary(node, |x, y| x.logical_xor(y)),
        "Equal" => |node| binary(node, |x, y| x.eq(y)),
        "Greater" => |node| binary(node, |x, y| x.gt(y)),
        "GreaterOrEqual" => |node| binary(node, |x, y| x.ge(y)),
        "Less" => |node| binary(node, |x, y| x.lt(y)),
        "LessOrEqual" => |node| binary(node, |x, y| x.le(y)),
        "BitwiseAnd" => |node| binary(node, |x, y| x.bitwise_and(y)),
        "BitwiseOr" => |node| binary(node, |x, y| x.bitwise_or(y)),
        "BitwiseXor" => |node| binary(node, |x, y| x.bitwise_xor(y)),
        "Max" => |node| folded(node, |x, y| x.maximum(y)),
        "Min" => |node| folded(node, |x, y| x.minimum(y)),
        "Sum" => |node| folded(node, |x, y| x.add(y)),
        "Mean" => mean,
        "Pow" => pow,
        "Mod" => modulo,
        "BitShift" => shift,
        "Clip" => clip,
        "Where" => choose,
        "Cast" => cast,
        "CastLike" => |node| Ok(vec![node.input(0)?.to_dtype(node.input(1)?.dtype())?]),
        "BitCast" => bit_cast,
        _ => return None,
    })
}

type Made = streampool_tensor::Result<Tensor>;

fn binary(node: &Node<'_>, function: impl Fn(&Tensor, &Tensor) -> Made) -> Outputs {
    Ok(vec![function(node.input(0)?, node.input(1)?)?])
}

/// A function of any number of tensors, two at a time.
fn folded(node: &Node<'_>, function: impl Fn(&Tensor, &Tensor) -> Made) -> Outputs {
    let all = node.all()?;
    let first = all[0].clone();
    Ok(vec![
        all[1..]
            .iter()
            .try_fold(first, |result, next| function(&result, next))?,
    ])
}

fn mean(node: &Node<'_>) -> Outputs {
    let count = node.inputs.len() as f64;
    let sum = folded(node, |x, y| x.add(y))?;
    Ok(vec![sum[0].div(count)?])
}

/// In the type of the base.
fn pow(node: &Node<'_>) -> Outputs {
    let (x, y) = (node.input(0)?, node.input(1)?);
    if y.dtype().is_float() && !x.dtype().is_float() {
        let power = x.to_dtype(DType::F64)?.pow(&y.to_dtype(DType::F64)?)?;
        return Ok(vec![power.to_dtype(x.dtype())?]);
    }
    Ok(vec![x.pow(&y.to_dtype(x.dtype())?)?])
}

fn modulo(node: &Node<'_>) -> Outputs {
    match node.flag_or("fmod", false)? {
        true => binary(node, |x, y| x.rem(y)),
        false => binary(node, |x, y| x.modulo(y)),
    }
}

/// By more than the width there is nothing left.
fn shift(node: &Node<'_>) -> Outputs {
    let (x, by) = (node.input(0)?, node.input(1)?);
    let moved = match node.string_or("direction", "")? {
        "LEFT" => x.bitwise_left_shift(by)?,
        "RIGHT" => x.bitwise_right_shift(by)?,
        other => return Err(node.unknown("direction", other)),
    };
    let width = 8 * x.dtype().size() as i64;
    Ok(vec![by.lt(width)?.where_cond(&moved, 0)?])
}

/// Bounds are attributes before version 11.
fn clip(node: &Node<'_>) -> Outputs {
    let mut x = node.input(0)?.clone();
    if let Some(low) = node.attr_float("min")? {
        x = x.maximum(low)?;
    }
    if let Some(high) = node.attr_float("max")? {
        x = x.minimum(high)?;
    }
    if let Some(low) = node.optional(1) {
        x = x.maximum(low)?;
    }
    if let Some(high) = node.optional(2) {
        x = x.minimum(high)?;
    }
    Ok(vec![x])
}

fn choose(node: &Node<'_>) -> Outputs {
    Ok(vec![
        node.input(0)?.where_cond(node.input(1)?, node.input(2)?)?,
    ])
}

fn target(node: &Node<'_>) -> Result<DType, Fault> {
    let missing = || Fault::malformed("attribute to", "left out", "an element type");
    node.attr_dtype("to")?.ok_or_else(missing)
}

fn cast(node: &Node<'_>) -> Outputs {
    Ok(vec![node.input(0)?.to_dtype(target(node)?)?])
}

fn bit_cast(node: &Node<'_>) -> Outputs {
    Ok(vec![node.input(0)?.bit_cast(target(node)?)?])
}
