//! What becomes of scores in the end.

use std::f64::consts::{PI, SQRT_2};

use streampool_tensor::Tensor;

use super::super::call::Call;
use crate::error::NodeError;

/// What is applied to scores.
#[derive(Clone, Copy, PartialEq)]
pub enum Transform {
    None,
    Logistic,
    Softmax,
    SoftmaxZero,
    Probit,
}

impl Transform {
    pub fn of(call: &Call<'_>) -> Result<Transform, NodeError> {
        match call.string_or("post_transform", "NONE")? {
            "NONE" => Ok(Transform::None),
            "LOGISTIC" => Ok(Transform::Logistic),
            "SOFTMAX" => Ok(Transform::Softmax),
            "SOFTMAX_ZERO" => Ok(Transform::SoftmaxZero),
            "PROBIT" => Ok(Transform::Probit),
            other => Err(call.unknown("post_transform", other)),
        }
    }

    /// Applied to `[rows, scores]`.
    pub fn apply(self, scores: &Tensor) -> Result<Tensor, NodeError> {
        Ok(match self {
            Transform::None => scores.clone(),
            Transform::Logistic => scores.sigmoid()?,
            Transform::Softmax => scores.softmax(1)?,
            Transform::SoftmaxZero => softmax_zero(scores)?,
            Transform::Probit => probit(scores)?,
        })
    }
}

/// As a softmax, where scores of zero stay zero.
fn softmax_zero(scores: &Tensor) -> Result<Tensor, NodeError> {
    let most = scores.max(&[1], true)?;
    let counts = scores.abs()?.gt(0.000_000_1)?;
    let powers = scores.sub(&most)?.exp()?;
    let zeros = scores.mul(&most.neg()?.exp()?)?;
    let sum = powers
        .masked_fill(&counts.logical_not()?, 0.0)?
        .sum(&[1], true)?;
    Ok(counts.where_cond(&powers, &zeros)?.div(&sum)?)
}

/// The inverse of the normal distribution's function, as near as ONNX Runtime computes it.
fn probit(scores: &Tensor) -> Result<Tensor, NodeError> {
    let x = scores.mul(2.0)?.sub(1.0)?;
    let log = x.rsub(1.0)?.mul(&x.add(1.0)?)?.log()?;
    let half = log.mul(0.5)?.add(2.0 / (PI * 0.147))?;
    let root = half
        .mul(&half)?
        .sub(&log.div(0.147)?)?
        .sqrt()?
        .sub(&half)?
        .sqrt()?;
    let signed = x.lt(0.0)?.where_cond(&root.neg()?, &root)?;
    Ok(signed.mul(SQRT_2)?)
}
