//! Functions of several elements, and other types of the same ones.

use streampool_tensor::{DType, Other, Tensor};

use super::call::{Call, Operator, Outputs, TensorResult, wider};
use crate::error::NodeError;
use crate::onnx::{self, Round};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Add" => |call| with_number(call, true, |x, y| x.add(y)),
        "Sub" => |call| with_number(call, false, |x, y| x.sub(y)),
        "Mul" => |call| with_number(call, true, |x, y| x.mul(y)),
        "Div" => |call| with_number(call, false, |x, y| x.div(y)),
        "PRelu" => |call| Ok(vec![call.input(0)?.prelu(&second(call, 1)?)?]),
        "And" => |call| binary(call, |x, y| x.logical_and(y)),
        "Or" => |call| binary(call, |x, y| x.logical_or(y)),
        "Xor" => |call| binary(call, |x, y| x.logical_xor(y)),
        "Equal" => |call| with_number(call, true, |x, y| x.eq(y)),
        "Greater" => |call| with_number(call, false, |x, y| x.gt(y)),
        "GreaterOrEqual" => |call| with_number(call, false, |x, y| x.ge(y)),
        "Less" => |call| with_number(call, false, |x, y| x.lt(y)),
        "LessOrEqual" => |call| with_number(call, false, |x, y| x.le(y)),
        "BitwiseAnd" => |call| binary(call, |x, y| x.bitwise_and(y)),
        "BitwiseOr" => |call| binary(call, |x, y| x.bitwise_or(y)),
        "BitwiseXor" => |call| binary(call, |x, y| x.bitwise_xor(y)),
        "Max" => |call| folded(call, |x, y| x.maximum(y)),
        "Min" => |call| folded(call, |x, y| x.minimum(y)),
        "Sum" => |call| summed(call, 1),
        "Mean" => |call| summed(call, call.input_count()),
        "Pow" => pow,
        "Mod" => modulo,
        "BitShift" => shift,
        "Clip" => clip,
        "Where" => choose,
        "Cast" => cast,
        "CastLike" => |call| Ok(vec![call.input(0)?.to_dtype(call.given(1)?.dtype())?]),
        "Affine" => affine,
        "ImageScaler" => image_scaler,
        "BitCast" => bit_cast,
        _ => return None,
    })
}

fn binary(call: &Call<'_>, function: impl Fn(&Tensor, &Tensor) -> TensorResult) -> Outputs {
    Ok(vec![function(call.input(0)?, &second(call, -1)?)?])
}

/// A function of two tensors, one of which may be a number that is known, and is then no operand; where the two may
/// change places, also the first.
fn with_number(
    call: &Call<'_>,
    symmetric: bool,
    function: impl Fn(&Tensor, Other<'_>) -> TensorResult,
) -> Outputs {
    for (place, other) in [(1, 0), (0, 1)] {
        if place == 0 && !symmetric {
            continue;
        }
        let (number, tensor) = (call.given(place)?, call.given(other)?);
        if number.rank() > tensor.rank() || number.dtype() != tensor.dtype() {
            continue;
        }
        if let Some(number) = call.number(place)? {
            return Ok(vec![function(call.input(other)?, number.into())?]);
        }
    }
    let second = second(call, -1)?;
    Ok(vec![function(call.input(0)?, (&second).into())?])
}

/// The second operand. Before version 7 it lies along the axes of the first from one on, which is `default` unless it is
/// named; -1 stands for the last.
fn second(call: &Call<'_>, default: i64) -> Result<Tensor, NodeError> {
    let (x, y) = (call.given(0)?, call.input(1)?);
    let axis = call.int_or("axis", default)?;
    if call.opset() >= 7 || axis < 0 || y.elem_count() == 1 {
        return Ok(y.clone());
    }
    let behind = (x.rank() as i64 - axis - y.rank() as i64).max(0);
    (0..behind).try_fold(y.clone(), |y, _| Ok(y.unsqueeze(-1)?))
}

/// A function of any number of tensors, two at a time.
fn folded(call: &Call<'_>, function: impl Fn(&Tensor, &Tensor) -> TensorResult) -> Outputs {
    let all = call.all()?;
    let first = all[0].clone();
    Ok(vec![
        all[1..]
            .iter()
            .try_fold(first, |result, next| function(&result, next))?,
    ])
}

/// The sum of any number of tensors, over a count; halves are added in `f32`.
fn summed(call: &Call<'_>, count: usize) -> Outputs {
    let all = call.all()?;
    let dtype = all[0].dtype();
    if let Some(other) = all.iter().find(|other| other.dtype() != dtype) {
        let got = format!("of {dtype} and {}", other.dtype());
        return Err(NodeError::malformed("the inputs", got, "of one type"));
    }
    let wide = wider(dtype);
    let mut sum = all[0].to_dtype(wide)?;
    for next in &all[1..] {
        sum = sum.add(&next.to_dtype(wide)?)?;
    }
    if count != 1 {
        sum = sum.div(count as f64)?;
    }
    Ok(vec![sum.to_dtype(dtype)?])
}

/// In the type of the base.
fn pow(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    if let Some(power) = call.number(1)?
        && x.dtype().is_float()
        && call.given(1)?.rank() <= x.rank()
    {
        return Ok(vec![x.pow(power)?]);
    }
    let y = second(call, -1)?;
    if x.dtype().is_float() || x.dtype().is_unsigned() && !y.dtype().is_float() {
        return Ok(vec![x.pow(&y.to_dtype(x.dtype())?)?]);
    }
    whole_power(x, &y)
}

/// A power of integers, as C computes it: that of real numbers, and what the type cannot hold becomes its least number.
fn whole_power(x: &Tensor, y: &Tensor) -> Outputs {
    let dtype = x.dtype();
    let (least, bits) = (i64::MIN >> (64 - 8 * dtype.size()), 8 * dtype.size() as i32);
    let limit = 2f64.powi(bits - 1);
    let (power, fits) = match y.dtype().is_float() {
        true => {
            let power = x.to_dtype(DType::F64)?.pow(&y.to_dtype(DType::F64)?)?;
            let fits = power.ge(-limit)?.logical_and(&power.lt(limit)?)?;
            (power.to_dtype(dtype)?, fits)
        }
        // Exact, and wraps; whether it does is seen well enough in `f32`, which all devices have.
        false => {
            let about = x.to_dtype(DType::F32)?.pow(&y.to_dtype(DType::F32)?)?;
            (x.pow(&y.to_dtype(dtype)?)?, about.abs()?.le(limit)?)
        }
    };
    Ok(vec![fits.where_cond(&power, least)?])
}

fn modulo(call: &Call<'_>) -> Outputs {
    match call.flag_or("fmod", false)? {
        true => binary(call, |x, y| x.rem(y)),
        false => binary(call, |x, y| x.modulo(y)),
    }
}

/// By more than the width there is nothing left.
fn shift(call: &Call<'_>) -> Outputs {
    let (x, by) = (call.input(0)?, call.input(1)?);
    let moved = match call.string_or("direction", "")? {
        "LEFT" => x.bitwise_left_shift(by)?,
        "RIGHT" => x.bitwise_right_shift(by)?,
        other => return Err(call.unknown("direction", other)),
    };
    let width = 8 * x.dtype().size() as i64;
    Ok(vec![by.lt(width)?.where_cond(&moved, 0)?])
}

/// Bounds are attributes before version 11.
fn clip(call: &Call<'_>) -> Outputs {
    let mut x = call.input(0)?.clone();
    if let Some(low) = call.attr_float("min")? {
        x = x.maximum(low)?;
    }
    if let Some(high) = call.attr_float("max")? {
        x = x.minimum(high)?;
    }
    if let Some(low) = bound(call, 1)? {
        x = x.maximum(low)?;
    }
    if let Some(high) = bound(call, 2)? {
        x = x.minimum(high)?;
    }
    Ok(vec![x])
}

fn bound<'c>(call: &'c Call<'_>, place: usize) -> Result<Option<Other<'c>>, NodeError> {
    match call.number(place)? {
        Some(number) => Ok(Some(number.into())),
        None => Ok(call.optional(place)?.map(Other::from)),
    }
}

/// An operator of early versions: `alpha * x + beta`.
fn affine(call: &Call<'_>) -> Outputs {
    let (alpha, beta) = (call.float_or("alpha", 1.0)?, call.float_or("beta", 0.0)?);
    Ok(vec![call.input(0)?.mul(alpha)?.add(beta)?])
}

/// An operator of early versions: scaled, and with a number added to each channel.
fn image_scaler(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let bias = call.attr_floats("bias")?.unwrap_or(&[]);
    let bias = Tensor::from_slice(call.known_pool(), bias, &[bias.len(), 1, 1])?;
    let bias = call.lift(&bias.to_dtype(x.dtype())?)?;
    Ok(vec![x.mul(call.float_or("scale", 1.0)?)?.add(&bias)?])
}

fn choose(call: &Call<'_>) -> Outputs {
    Ok(vec![
        call.input(0)?.where_cond(call.input(1)?, call.input(2)?)?,
    ])
}

fn target(call: &Call<'_>) -> Result<DType, NodeError> {
    let missing = || NodeError::malformed("attribute to", "left out", "an element type");
    call.attr_dtype("to")?.ok_or_else(missing)
}

fn cast(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let is_saturated = call.int_or("saturate", 1)? != 0;
    Ok(vec![match call.attr_small("to")? {
        Some(small) if small.is_exponent() => {
            let round = match call.string_or("round_mode", "up")? {
                "up" => Round::Up,
                "down" => Round::Down,
                "nearest" => Round::Nearest,
                other => {
                    let expected = "up, down or nearest";
                    return Err(NodeError::malformed("round_mode", other, expected));
                }
            };
            onnx::powers(x, is_saturated, round)?
        }
        Some(small) => small.of_numbers(x, is_saturated)?,
        None => x.to_dtype(target(call)?)?,
    }])
}

fn bit_cast(call: &Call<'_>) -> Outputs {
    let (x, dtype) = (call.input(0)?, target(call)?);
    // A truth is zero or one, whatever other bits say.
    if dtype == DType::Bool && x.dtype().size() == 1 {
        return Ok(vec![x.to_dtype(dtype)?]);
    }
    Ok(vec![x.bit_cast(dtype)?])
}
