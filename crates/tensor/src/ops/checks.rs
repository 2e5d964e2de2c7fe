//! What many operators check of what they are given.

use streampool_device::DType;

use crate::{Error, Result, Tensor};

/// That a tensor holds floats.
pub(super) fn floats(op: &'static str, argument: &'static str, tensor: &Tensor) -> Result<()> {
    match tensor.dtype() {
        float if float.is_float() => Ok(()),
        other => Err(Error::dtype(op, argument, other, "a float type")),
    }
}

/// That a tensor is of this type.
pub(super) fn of_type(
    op: &'static str,
    argument: &'static str,
    tensor: &Tensor,
    dtype: DType,
) -> Result<()> {
    if tensor.dtype() == dtype {
        return Ok(());
    }
    let expected = format!("{dtype}: convert it with `to_dtype`");
    Err(Error::dtype(op, argument, tensor.dtype(), expected))
}

/// That a tensor has this shape, which is `why` it has to have it.
pub(super) fn shaped(
    op: &'static str,
    argument: &'static str,
    tensor: &Tensor,
    shape: &[usize],
    why: impl std::fmt::Display,
) -> Result<()> {
    if tensor.shape() == shape {
        return Ok(());
    }
    let expected = format!("{shape:?}, {why}");
    Err(Error::shape(op, argument, tensor.shape(), expected))
}

/// That a number is finite and not negative.
pub(super) fn not_negative(op: &'static str, argument: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    let expected = "finite and not negative";
    Err(Error::parameter(op, argument, value, expected))
}
