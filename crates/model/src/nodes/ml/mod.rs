//! `ai.onnx.ml`: what scikit-learn, LightGBM and XGBoost become.
//!
//! Strings are numbers here: a reader gives each its place in the list of all strings of a model.

mod encode;
mod features;
mod linear;
mod score;
mod svm;
mod trees;

use streampool_tensor::{DType, Tensor};

use super::call::{Call, Operator, TensorResult};
use crate::error::NodeError;

/// The operator of a name.
pub fn operator(op: &str) -> Option<Operator> {
    let families = [
        trees::operator,
        linear::operator,
        svm::operator,
        features::operator,
        encode::operator,
    ];
    families.iter().find_map(|of| of(op))
}

/// An input as rows: what has one axis is one row.
fn rows(call: &Call<'_>, place: usize) -> Result<Tensor, NodeError> {
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
fn float_rows(call: &Call<'_>, place: usize) -> Result<Tensor, NodeError> {
    Ok(rows(call, place)?.to_dtype(DType::F32)?)
}

/// Floats of an attribute where the node is computed.
fn floats(call: &Call<'_>, values: &[f32], shape: &[usize]) -> Result<Tensor, NodeError> {
    call.lift(&Tensor::from_slice(call.known_pool(), values, shape)?)
}

/// Integers of an attribute where the node is computed.
fn ints(call: &Call<'_>, values: &[i64], shape: &[usize]) -> Result<Tensor, NodeError> {
    call.lift(&Tensor::from_slice(call.known_pool(), values, shape)?)
}

/// Floats that have to be there.
fn attr_floats<'a>(call: &Call<'a>, name: &str) -> Result<&'a [f32], NodeError> {
    let left_out = || NodeError::malformed(format_args!("attribute {name}"), "left out", "floats");
    call.attr_floats(name)?.ok_or_else(left_out)
}

/// Floats in so many columns, or rows.
fn alike(name: &str, got: usize, expected: usize) -> Result<(), NodeError> {
    match got == expected {
        true => Ok(()),
        false => Err(NodeError::malformed(
            format_args!("attribute {name}"),
            format_args!("of {got} values"),
            expected,
        )),
    }
}

/// The labels of classes: integers, or numbers of strings.
fn class_labels<'a>(call: &Call<'a>) -> Result<&'a [i64], NodeError> {
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
fn labelled(call: &Call<'_>, labels: &[i64], places: &Tensor) -> TensorResultOf {
    if labels.iter().copied().eq(0..labels.len() as i64) {
        return Ok(places.clone());
    }
    Ok(ints(call, labels, &[labels.len()])?.take(places)?)
}

/// One of two labels.
fn either(call: &Call<'_>, condition: &Tensor, yes: i64, no: i64) -> TensorResultOf {
    let place = condition.to_dtype(DType::I64)?;
    labelled(call, &[no, yes], &place)
}

type TensorResultOf = Result<Tensor, NodeError>;

/// `1 / (1 + exp(-x))`, as classifiers apply it.
fn logistic(x: &Tensor) -> TensorResult {
    x.sigmoid()
}
