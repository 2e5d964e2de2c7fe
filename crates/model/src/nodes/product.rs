//! Matrix products, and what is made of them.

use streampool_tensor::{Activation, Tensor};

use super::call::{Call, Operator, Outputs};
use super::floats::{by_floats, by_wide_floats};
use super::whole;
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "MatMul" => matmul,
        "Gemm" => gemm,
        "Einsum" => einsum,
        "Det" => |call| Ok(vec![by_wide_floats(call.input(0)?, Tensor::det)?]),
        _ => return None,
    })
}

fn matmul(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    Ok(vec![match whole::is_whole(a) && a.dtype() == b.dtype() {
        true => whole::product(a, b)?,
        false => a.matmul(b)?,
    }])
}

fn gemm(call: &Call<'_>) -> Outputs {
    Ok(vec![gemm_product(call)?])
}

/// The product that a node's attributes describe.
pub fn gemm_product(call: &Call<'_>) -> Result<Tensor, NodeError> {
    let turned = |place: usize, attribute: &str| -> Result<Tensor, NodeError> {
        let matrix = call.input(place)?;
        match call.flag_or(attribute, false)? {
            true => Ok(matrix.transpose(0, 1)?),
            false => Ok(matrix.clone()),
        }
    };
    let (a, b) = (turned(0, "transA")?, turned(1, "transB")?);
    let (alpha, beta) = (call.float_or("alpha", 1.0)?, call.float_or("beta", 1.0)?);
    match call.optional(2)? {
        // Not even its NaN counts.
        bias if whole::is_whole(&a) && alpha == 1.0 && beta == 1.0 => {
            let product = whole::product(&a, &b)?;
            Ok(match bias {
                Some(bias) => product.add(bias)?,
                None => product,
            })
        }
        // ONNX has factors that are no integers, too.
        bias if a.dtype().is_integer() => Ok(by_floats(&a, |a| {
            let product = a.matmul_with(&b.to_dtype(a.dtype())?, None, Activation::None, alpha)?;
            match bias {
                Some(bias) => product.add(&bias.to_dtype(a.dtype())?.mul(beta)?),
                None => Ok(product),
            }
        })?),
        Some(_) if beta == 0.0 => Ok(a.matmul_with(&b, None, Activation::None, alpha)?),
        Some(bias) => Ok(bias.addmm(&a, &b, beta, alpha)?),
        None => Ok(a.matmul_with(&b, None, Activation::None, alpha)?),
    }
}

fn einsum(call: &Call<'_>) -> Outputs {
    let equation = call.string_or("equation", "")?;
    Ok(vec![Tensor::einsum(equation, &call.all()?)?])
}
