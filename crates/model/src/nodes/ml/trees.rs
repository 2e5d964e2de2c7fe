//! Ensembles of trees, whose records were made when the model was read.

use streampool_device::{TreeCombine, TreeTest};
use streampool_tensor::{DType, Tensor, TreeOptions};

use super::super::call::{Call, Operator, Outputs, size};
use super::common::{class_labels, either, floats, labelled, rows};
use super::score::Transform;
use crate::error::NodeError;
use crate::trees;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "TreeEnsembleClassifier" => classifier,
        "TreeEnsembleRegressor" => |call| {
            let targets = call.size_or("n_targets", 1)?;
            let how = call.string_or("aggregate_function", "SUM")?;
            let scores = aggregated(call, targets, how)?.to_dtype(DType::F32)?;
            Ok(vec![finished(scores, Transform::of(call)?)?])
        },
        "TreeEnsemble" => |call| {
            let targets = call.size_or("n_targets", 1)?;
            let how = match call.int_or("aggregate_function", 1)? {
                0 => "AVERAGE",
                1 => "SUM",
                2 => "MIN",
                3 => "MAX",
                other => return Err(call.unknown("aggregate_function", other)),
            };
            let transform = match call.int_or("post_transform", 0)? {
                0 => Transform::None,
                1 => Transform::Softmax,
                2 => Transform::Logistic,
                3 => Transform::SoftmaxZero,
                4 => Transform::Probit,
                other => return Err(call.unknown("post_transform", other)),
            };
            let scores = aggregated(call, targets, how)?;
            let scores = scores.to_dtype(call.input(0)?.dtype())?;
            Ok(vec![finished(scores, transform)?])
        },
        _ => return None,
    })
}

/// What the trees say of each row, in the type of what they compare.
fn ensemble(call: &Call<'_>, targets: usize, combine: TreeCombine) -> Result<Tensor, NodeError> {
    let mut x = rows(call, 0)?;
    let records = call.given(1)?;
    let wide = x.dtype() == DType::F64 || call.int_or(trees::WIDE, 0)? != 0;
    x = x.to_dtype(if wide { DType::F64 } else { DType::F32 })?;
    let features = call.size_or(trees::FEATURES, 0)?;
    if x.dim(1)? < features {
        let got = format_args!("of {} features", x.shape()[1]);
        return Err(NodeError::malformed(
            "input 0",
            got,
            format!("at least {features}"),
        ));
    }
    let options = TreeOptions {
        trees: call.size_or(trees::TREES, 0)?,
        targets,
        depth: call.size_or(trees::DEPTH, 0)?,
        test: match call.int_or(trees::TEST, 2)? {
            0 => TreeTest::AtMost,
            1 => TreeTest::Below,
            _ => TreeTest::Bits,
        },
        combine,
    };
    let records = match wide && call.int_or(trees::WIDE, 0)? == 0 {
        true => call.lift(&trees::widened(records)?)?,
        false => call.input(1)?.clone(),
    };
    Ok(x.trees(&records, &options)?)
}

/// With what the leaves say aggregated, and base values.
fn aggregated(call: &Call<'_>, targets: usize, how: &str) -> Result<Tensor, NodeError> {
    let combine = match how {
        "SUM" | "AVERAGE" => TreeCombine::Sum,
        "MIN" => TreeCombine::Min,
        "MAX" => TreeCombine::Max,
        other => return Err(call.unknown("aggregate_function", other)),
    };
    let mut scores = ensemble(call, targets, combine)?;
    if how == "AVERAGE" {
        scores = scores
            .div(size("the number of trees", call.int_or(trees::TREES, 1)?)?.max(1) as f64)?;
    }
    match &base_values(call)?[..] {
        [] => Ok(scores),
        base if base.len() == targets => {
            let base = floats(call, base, &[1, targets])?.to_dtype(scores.dtype())?;
            Ok(scores.add(&base)?)
        }
        base => Err(NodeError::malformed(
            "attribute base_values",
            format_args!("of {} values", base.len()),
            format!("none or {targets}"),
        )),
    }
}

fn base_values(call: &Call<'_>) -> Result<Vec<f32>, NodeError> {
    match call.attr_tensor("base_values_as_tensor")? {
        Some(tensor) => Ok(tensor.to_dtype(DType::F32)?.to_vec::<f32>()?),
        None => Ok(streampool_tensor::room::copied(
            call.attr_floats("base_values")?.unwrap_or(&[]),
        )?),
    }
}

/// Of one target nothing but a probit is taken, as ONNX Runtime has it.
fn finished(scores: Tensor, transform: Transform) -> Result<Tensor, NodeError> {
    match transform {
        Transform::Softmax | Transform::SoftmaxZero | Transform::Logistic
            if scores.dim(1)? == 1 =>
        {
            Ok(scores)
        }
        transform => transform.apply(&scores),
    }
}

/// The label of each row, and the scores of all classes. What two classes mean is as in ONNX Runtime: the specification does
/// not say.
fn classifier(call: &Call<'_>) -> Outputs {
    let labels = class_labels(call)?;
    let classes = labels.len();
    let transform = Transform::of(call)?;
    let base = base_values(call)?;
    if classes < 2 {
        return Err(NodeError::unsupported(format_args!(
            "a classifier of {classes} classes"
        )));
    }
    let scores = ensemble(call, classes, TreeCombine::Sum)?.to_dtype(DType::F32)?;
    if classes > 2 {
        let scores = match base.len() {
            0 => scores,
            count if count <= classes => {
                let mut all = streampool_tensor::room::filled(0.0, classes)?;
                all[..count].copy_from_slice(&base);
                scores.add(&floats(call, &all, &[1, classes])?)?
            }
            count => {
                let got = format_args!("of {count} values");
                return Err(NodeError::malformed(
                    "attribute base_values",
                    got,
                    format!("at most {classes}"),
                ));
            }
        };
        let label = labelled(call, labels, &scores.argmax(1, false)?)?;
        return Ok(vec![label, transform.apply(&scores)?]);
    }
    let target = call.int_or(trees::TARGET, -1)?;
    let (has_first, has_second) = (target != 1, target != 0);
    let [mut first, mut second] = [scores.narrow(1, 0, 1)?, scores.narrow(1, 1, 1)?];
    let nothing = first.clone();
    match base[..] {
        [] => {}
        [one, ..] if base.len() == 1 || base.len() == 2 && !has_second => {
            first = first.add(f64::from(one))?;
        }
        [_, other] => {
            second = first.add(f64::from(other))?;
            first = second.neg()?;
        }
        _ => {
            let got = format_args!("of {} values", base.len());
            return Err(NodeError::malformed(
                "attribute base_values",
                got,
                "at most 2",
            ));
        }
    }
    if !has_first {
        first = nothing;
    }
    let pair = has_second || base.len() == 2;
    let weight = if has_second { &second } else { &first };
    let positive = call.int_or(trees::POSITIVE, 0)? != 0;
    let binary = target >= 0;
    let chosen = weight
        .gt(if binary && positive { 0.5 } else { 0.0 })?
        .squeeze(1)?;
    // Where trees speak of both classes, the label is 1 or 0 whatever the classes are called.
    let (yes, no) = if binary || call.has("classlabels_strings") {
        (labels[1], labels[0])
    } else {
        (1, 0)
    };
    let label = either(call, &chosen, yes, no)?;
    let scores = match (pair, transform) {
        (true, transform) => transform.apply(&Tensor::cat(&[&first, &second], 1)?)?,
        (false, Transform::Probit) => return Err(NodeError::unsupported("PROBIT of two classes")),
        (false, Transform::Logistic) => {
            Tensor::cat(&[&first.neg()?.sigmoid()?, &first.sigmoid()?], 1)?
        }
        (false, _) if binary && positive => Tensor::cat(&[&first.rsub(1.0)?, &first], 1)?,
        (false, _) => Tensor::cat(&[&first.neg()?, &first], 1)?,
    };
    Ok(vec![label, scores])
}
