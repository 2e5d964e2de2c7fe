//! Expressions at each level of instructions.

mod functions;
mod fused;
mod threads;
mod types;

use std::sync::Arc;

use half::{bf16, f16};
use streampool_conformance::halves::{nearest_bf16, nearest_f16};
use streampool_device::{Binary, Compare, DType, Expr, Unary};

use crate::kernels::Prepared;
use crate::kernels::simd::Level;
use crate::kernels::simd::forced::at_each_level;
use crate::kernels::tests::ops::{self, Tensor, execute};
use crate::team::Solo;

/// The outputs of `expr` for these inputs, executed once.
fn outputs(expr: &Arc<Expr>, inputs: &[&Tensor], shape: &[usize]) -> Vec<Tensor> {
    let outputs = expr.outputs().iter();
    let outputs: Vec<Tensor> = outputs
        .map(|&value| Tensor::zeros(expr.dtype(value), shape))
        .collect();
    execute(&ops::map(expr, inputs, &outputs), &Prepared::Plain, &Solo).unwrap();
    outputs
}

/// Calls `f` with what `expr` comes to at each level.
fn on_each_level(
    expr: &Arc<Expr>,
    inputs: &[&Tensor],
    shape: &[usize],
    mut f: impl FnMut(Level, Vec<Tensor>),
) {
    at_each_level(|level| f(level, outputs(expr, inputs, shape)));
}

/// The nearest value of a float type.
fn round_to(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F16 => nearest_f16(x).to_f64(),
        DType::BF16 => nearest_bf16(x).to_f64(),
        _ => x,
    }
}

/// The floats of a tensor.
fn floats(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.bytes();
    let short = || {
        let bits = bytes.as_chunks().0.iter();
        bits.map(|&bits| u16::from_ne_bytes(bits))
    };
    match tensor.view.dtype() {
        DType::F32 => tensor.floats().iter().map(|&x| f64::from(x)).collect(),
        DType::F16 => short().map(|bits| f16::from_bits(bits).to_f64()).collect(),
        DType::BF16 => short().map(|bits| bf16::from_bits(bits).to_f64()).collect(),
        DType::F64 => {
            let bits = bytes.as_chunks().0.iter();
            bits.map(|&bits| f64::from_ne_bytes(bits)).collect()
        }
        other => panic!("{other} is no float type"),
    }
}

#[rustfmt::skip]
const UNARY: [Unary; 36] = {
    use Unary::*;
    [
        Neg, Abs, Sign, Relu, Exp, Log, Log1p, Expm1, Sqrt, Rsqrt, Recip, Sin, Cos, Tan, Asin, Acos, Atan, Sinh,
        Cosh, Tanh, Erf, Sigmoid, Silu, Gelu, GeluTanh, Softplus, Floor, Ceil, Round, Trunc, IsNan, IsInf, Not,
        Asinh, Acosh, Atanh,
    ]
};

#[rustfmt::skip]
const BINARY: [Binary; 14] = {
    use Binary::*;
    [Add, Sub, Mul, Div, Rem, Pow, Min, Max, Atan2, And, Or, Xor, Shl, Shr]
};

const COMPARE: [Compare; 6] = {
    use Compare::*;
    [Eq, Ne, Lt, Le, Gt, Ge]
};
