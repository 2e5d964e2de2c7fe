//! Operators on numbers in fewer bits.

use streampool_tensor::{DType, Tensor};

use super::super::call::{Call, Operator, Outputs, resolve};
use super::super::norm::along_rest;
use super::super::pool::average_pooled;
use super::super::quantise::{along, dynamic, integer_product, rounded};
use super::onnx_alike::{channels_last, channels_second};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "QLinearAdd" => |call| {
            let sum = number(call, 0)?.add(&number(call, 3)?)?;
            back(call, &sum, 6)
        },
        "QLinearMul" => |call| {
            let product = number(call, 0)?.mul(&number(call, 3)?)?;
            back(call, &product, 6)
        },
        "QLinearSigmoid" => |call| back(call, &number(call, 0)?.sigmoid()?, 3),
        "QLinearLeakyRelu" => |call| {
            let alpha = call.float_or("alpha", 0.01)?;
            back(call, &number(call, 0)?.leaky_relu(alpha)?, 3)
        },
        "QLinearSoftmax" => softmax,
        "QLinearGlobalAveragePool" => |call| {
            channels_first(call, |x| {
                let axes: Vec<isize> = (2..x.rank() as isize).collect();
                Ok(x.mean(&axes, true)?)
            })
        },
        "QLinearConcat" => concat,
        "QLinearAveragePool" => |call| channels_first(call, |x| average_pooled(call, x)),
        "QLinearReduceMean" => |call| {
            let axes: Vec<isize> = call.axes_of(5)?.unwrap_or_default();
            let keep = call.flag_or("keepdims", true)?;
            back(call, &number(call, 0)?.mean(&axes, keep)?, 3)
        },
        "QLinearWhere" => |call| {
            let (x, y) = (number(call, 1)?, number(call, 4)?);
            back(call, &call.input(0)?.where_cond(&x, &y)?, 7)
        },
        "QGemm" => gemm,
        "DynamicQuantizeMatMul" => dynamic_matmul,
        "MatMulIntegerToFloat" => matmul_to_float,
        _ => return None,
    })
}

/// What inputs `first` and the two after it, a scale and a zero point, stand for.
fn number(call: &Call<'_>, first: usize) -> Result<Tensor, NodeError> {
    let wide = call.input(first)?.to_dtype(DType::F32)?;
    let scale = along(call.input(first + 1)?, 0, 0)?;
    Ok(match call.optional(first + 2)? {
        Some(zero) => wide
            .sub(&along(zero, 0, 0)?.to_dtype(DType::F32)?)?
            .mul(&scale)?,
        None => wide.mul(&scale)?,
    })
}

/// A result in the scale and with the zero point of inputs `scale` and the one after it.
fn back(call: &Call<'_>, y: &Tensor, scale: usize) -> Outputs {
    let scaled = y.div(&along(call.input(scale)?, 0, 0)?)?;
    let zero = match call.optional(scale + 1)? {
        Some(zero) => along(zero, 0, 0)?,
        None => Tensor::zeros(y.pool(), &[], call.input(0)?.dtype())?,
    };
    Ok(vec![rounded(&scaled, &zero, zero.dtype())?])
}

/// Along one axis since version 13 of ONNX's own, which an attribute tells; before, along all from that on.
fn softmax(call: &Call<'_>) -> Outputs {
    let x = number(call, 0)?;
    let axis = resolve(call.axis_or("axis", -1)?, x.rank())?;
    if call.int_or("opset", 13)? >= 13 {
        return back(call, &x.softmax(axis as isize)?, 3);
    }
    back(call, &along_rest(&x, axis, Tensor::softmax)?, 3)
}

/// What a function of `[batch, channels, spatial ...]` makes, where channels may come last.
fn channels_first(
    call: &Call<'_>,
    function: impl Fn(&Tensor) -> Result<Tensor, NodeError>,
) -> Outputs {
    let x = number(call, 0)?;
    match call.flag_or("channels_last", false)? {
        true => back(call, &channels_last(&function(&channels_second(&x)?)?)?, 3),
        false => back(call, &function(&x)?, 3),
    }
}

/// The bias counts in steps of both scales together. Without a scale of its own the result stays what it stands for.
fn gemm(call: &Call<'_>) -> Outputs {
    let turned = |x: Tensor, name| -> Result<Tensor, NodeError> {
        match call.flag_or(name, false)? {
            true => Ok(x.transpose(0, 1)?),
            false => Ok(x),
        }
    };
    // Scales and zero points of the second factor may be one for each column.
    let columns = usize::from(!call.flag_or("transB", false)?);
    let steps = |place, zero: Option<&Tensor>, axis| -> Result<Tensor, NodeError> {
        let wide = call.input(place)?.to_dtype(DType::F32)?;
        Ok(match zero {
            Some(zero) => wide.sub(&along(zero, axis, 2)?.to_dtype(DType::F32)?)?,
            None => wide,
        })
    };
    let a = turned(steps(0, call.optional(2)?, 0)?, "transA")?;
    let b = turned(steps(3, call.optional(5)?, columns)?, "transB")?;
    let mut sum = a.matmul(&b)?;
    if let Some(bias) = call.optional(6)? {
        sum = sum.add(&bias.to_dtype(DType::F32)?)?;
    }
    let scale = call.input(1)?.reshape::<usize>(&[])?;
    let scale = scale.mul(&along(call.input(4)?, 1, 2)?)?;
    let scale = scale.mul(call.float_or("alpha", 1.0)?)?;
    let y = sum.mul(&scale)?;
    match call.has_input(7) {
        true => back(call, &y, 7),
        false => Ok(vec![y]),
    }
}

fn concat(call: &Call<'_>) -> Outputs {
    let places = (2..call.input_count()).step_by(3);
    let parts = places
        .map(|place| number(call, place))
        .collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<&Tensor> = parts.iter().collect();
    if parts.is_empty() {
        return Err(NodeError::malformed(
            "the number of inputs",
            call.input_count(),
            "at least five",
        ));
    }
    let Some(axis) = call.attr_int("axis")? else {
        return Err(NodeError::malformed(
            "attribute axis",
            "left out",
            "an axis",
        ));
    };
    back(call, &Tensor::cat(&parts, axis as isize)?, 0)
}

fn with_bias(y: Tensor, bias: Option<&Tensor>) -> Outputs {
    Ok(vec![match bias {
        Some(bias) => y.add(bias)?,
        None => y,
    }])
}

fn dynamic_matmul(call: &Call<'_>) -> Outputs {
    let (values, scale, zero) = dynamic(call.input(0)?)?;
    let product = integer_product(call, (&values, Some(&zero)), (1, 3))?;
    let scale = scale.mul(call.input(2)?)?;
    with_bias(
        product.to_dtype(scale.dtype())?.mul(&scale)?,
        call.optional(4)?,
    )
}

fn matmul_to_float(call: &Call<'_>) -> Outputs {
    let product = integer_product(call, (call.input(0)?, call.optional(4)?), (1, 5))?;
    let scale = call.input(2)?.mul(call.input(3)?)?;
    with_bias(
        product.to_dtype(scale.dtype())?.mul(&scale)?,
        call.optional(6)?,
    )
}
