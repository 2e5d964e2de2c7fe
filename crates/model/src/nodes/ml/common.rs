//! What operators of `ai.onnx.ml` are made of.

use streampool_tensor::{DType, Tensor};

use super::super::call::Call;
use crate::error::NodeError;

/// An input as rows: what has one axis is one row.
pub fn rows(call: &Call<'_>, place: usize) -> Result<Tensor, NodeError> {
    let x = call.input(place)?;
    match x.rank() {
        1 => Ok(x.unsqueeze(0)?),
        2 => Ok(x.clone()),
        rank => Err(NodeError::malformed(
            format_args!("input {place}"),
            format_args!("of {rank} axes"),
            "one or two",
        )),
    }
}

/// An input as rows of `f32`.
pub fn float_rows(call: &Call<'_>, place: usize) -> Result<Tensor, NodeError> {
    Ok(rows(call, place)?.to_dtype(DType::F32)?)
}

/// Floats of an attribute where the node is computed.
pub fn floats(call: &Call<'_>, values: &[f32], shape: &[usize]) -> Result<Tensor, NodeError> {
    call.lift(&Tensor::from_slice(call.known_pool(), values, shape)?)
}

/// Integers of an attribute where the node is computed.
pub fn ints(call: &Call<'_>, values: &[i64], shape: &[usize]) -> Result<Tensor, NodeError> {
    call.lift(&Tensor::from_slice(call.known_pool(), values, shape)?)
}

/// Floats that have to be there.
pub fn attr_floats<'a>(call: &Call<'a>, name: &str) -> Result<&'a [f32], NodeError> {
    let left_out = || NodeError::malformed(format_args!("attribute {name}"), "left out", "floats");
    call.attr_floats(name)?.ok_or_else(left_out)
}

/// The labels of classes: integers, or numbers of strings.
pub fn class_labels<'a>(call: &Call<'a>) -> Result<&'a [i64], NodeError> {
    for name in [
        "classlabels_int64s",
        "classlabels_ints",
        "classlabels_strings",
    ] {
        if let Some(labels) = call.attr_ints(name)? {
            return Ok(labels);
        }
    }
    Ok(&[])
}

/// The labels of classes by their places.
pub fn labelled(call: &Call<'_>, labels: &[i64], places: &Tensor) -> Result<Tensor, NodeError> {
    if labels.iter().copied().eq(0..labels.len() as i64) {
        return Ok(places.clone());
    }
    Ok(ints(call, labels, &[labels.len()])?.take(places)?)
}

/// One of two labels.
pub fn either(call: &Call<'_>, condition: &Tensor, yes: i64, no: i64) -> Result<Tensor, NodeError> {
    let place = condition.to_dtype(DType::I64)?;
    labelled(call, &[no, yes], &place)
}
