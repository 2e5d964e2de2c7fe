//! Matrix products, and what is made of them.

use streampool_tensor::{DType, Tensor};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "MatMul" => matmul,
        "Gemm" => gemm,
        "Einsum" => einsum,
        "Det" => |node| Ok(vec![node.input(0)?.det()?]),
        _ => return None,
    })
}

fn matmul(node: &Node<'_>) -> Outputs {
    Ok(vec![node.input(0)?.matmul(node.input(1)?)?])
}

fn gemm(node: &Node<'_>) -> Outputs {
    let turned = |place: usize, attribute: &str| -> Result<Tensor, Fault> {
        let matrix = node.input(place)?;
        match node.flag_or(attribute, false)? {
            true => Ok(matrix.transpose(0, 1)?),
            false => Ok(matrix.clone()),
        }
    };
    let (a, b) = (turned(0, "transA")?, turned(1, "transB")?);
    let (alpha, beta) = (node.float_or("alpha", 1.0)?, node.float_or("beta", 1.0)?);
    let product = match node.optional(2) {
        Some(bias) => bias.addmm(&a, &b, beta, alpha)?,
        None => Tensor::zeros(node.pool(), &[], a.dtype())?.addmm(&a, &b, 0.0, alpha)?,
    };
    Ok(vec![product])
}

fn einsum(node: &Node<'_>) -> Outputs {
    let equation = node.string_or("equation", "")?;
    Ok(vec![Tensor::einsum(equation, &node.all()?)?])
}

/// The product of integer matrices, each less its zero point, exactly, as `i32`.
pub fn matmul_integer(a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    // Differences of bytes, and sums of their products, are exact in `f64`.
    let product = a.to_dtype(DType::F64)?.matmul(&b.to_dtype(DType::F64)?)?;
    Ok(product.to_dtype(DType::I32)?)
}
