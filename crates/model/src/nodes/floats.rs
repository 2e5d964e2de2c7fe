//! Functions of floats for other types.

use streampool_tensor::{DType, Tensor};

use super::call::TensorResult;

/// A function in a float type that holds the numbers of `x`, and what it makes in the type of `x`: what is behind the point is
/// left out.
pub fn by_floats(x: &Tensor, function: impl FnOnce(&Tensor) -> TensorResult) -> TensorResult {
    let wide = match x.dtype() {
        float if float.is_float() => return function(x),
        // Not all devices have doubles.
        small if small.size() <= 2 => DType::F32,
        _ => DType::F64,
    };
    let made = function(&x.to_dtype(wide)?)?;
    made.to_dtype(x.dtype())
}

/// As [`by_floats`], in `f32` for halves, too.
pub fn by_wide_floats(x: &Tensor, function: impl FnOnce(&Tensor) -> TensorResult) -> TensorResult {
    match x.dtype() {
        DType::F16 | DType::BF16 => function(&x.to_dtype(DType::F32)?)?.to_dtype(x.dtype()),
        _ => by_floats(x, function),
    }
}
