//! Linear models.

use streampool_tensor::{DType, Tensor};

use super::super::call::{Call, Operator, Outputs};
use super::common::{attr_floats, class_labels, either, float_rows, floats, labelled};
use super::score::Transform;
use crate::error::{NodeError, alike};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "LinearClassifier" => classifier,
        "LinearRegressor" => regressor,
        _ => return None,
    })
}

/// `x` times the transpose of `[targets, features]`, plus intercepts.
fn scores(call: &Call<'_>, targets: usize) -> Result<Tensor, NodeError> {
    let x = float_rows(call, 0)?;
    let (coefficients, features) = (attr_floats(call, "coefficients")?, x.dim(1)?);
    alike(
        "coefficients",
        coefficients.len(),
        targets.saturating_mul(features),
    )?;
    let weight = floats(call, coefficients, &[targets, features])?;
    let bias = match call.attr_floats("intercepts")? {
        Some(intercepts) if !intercepts.is_empty() => {
            alike("intercepts", intercepts.len(), targets)?;
            Some(floats(call, intercepts, &[targets])?)
        }
        _ => None,
    };
    Ok(x.linear(&weight, bias.as_ref())?)
}

fn regressor(call: &Call<'_>) -> Outputs {
    let scores = scores(call, call.size_or("targets", 1)?)?;
    let transform = match Transform::of(call)? {
        Transform::Probit => return Err(NodeError::unsupported("post_transform PROBIT")),
        // Of one number there is nothing else.
        Transform::Softmax | Transform::SoftmaxZero if scores.dim(1)? == 1 => Transform::None,
        transform => transform,
    };
    Ok(vec![transform.apply(&scores)?])
}

fn classifier(call: &Call<'_>) -> Outputs {
    let labels = class_labels(call)?;
    let targets = call.attr_floats("intercepts")?.map_or(0, <[f32]>::len);
    let transform = Transform::of(call)?;
    if targets == 0 {
        let expected = "one for each class";
        return Err(NodeError::malformed(
            "attribute intercepts",
            "left out",
            expected,
        ));
    }
    let scores = scores(call, targets)?;
    if targets == 1 {
        let (yes, no) = match *labels {
            [no, yes] => (yes, no),
            _ if call.has("classlabels_strings") => {
                let got = format_args!("{} names", labels.len());
                return Err(NodeError::malformed(
                    "attribute classlabels_strings",
                    got,
                    "2",
                ));
            }
            _ => (1, 0),
        };
        let label = either(call, &scores.gt(0.0)?.squeeze(1)?, yes, no)?;
        if labels.len() != 2 {
            return Ok(vec![label, transform.apply(&scores)?]);
        }
        let scores = match transform {
            Transform::Probit => return Err(NodeError::unsupported("PROBIT of two classes")),
            // A probability, and what is left.
            Transform::Logistic => {
                let second = scores.sigmoid()?;
                Tensor::cat(&[&second.rsub(1.0)?, &second], 1)?
            }
            _ => Tensor::cat(&[&scores.rsub(1.0)?, &scores], 1)?,
        };
        return Ok(vec![label, scores]);
    }
    alike("classlabels", labels.len(), targets)?;
    let label = labelled(
        call,
        labels,
        &scores.argmax(1, false)?.to_dtype(DType::I64)?,
    )?;
    Ok(vec![label, transform.apply(&scores)?])
}
