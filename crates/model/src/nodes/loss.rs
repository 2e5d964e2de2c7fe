//! How far predictions are from the classes that are right.

use streampool_tensor::{DType, Tensor};

use super::call::{Call, Operator};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "NegativeLogLikelihoodLoss" => |call| Ok(vec![loss(call, call.input(0)?)?]),
        "SoftmaxCrossEntropyLoss" => |call| {
            let log = call.input(0)?.log_softmax(1)?;
            Ok(vec![loss(call, &log)?, log])
        },
        _ => return None,
    })
}

/// Of logarithms of probabilities, `[batch, classes, ...]`, for the classes `[batch, ...]` that are right.
fn loss(call: &Call<'_>, log: &Tensor) -> Result<Tensor, NodeError> {
    let target = call.input(1)?.to_dtype(DType::I64)?;
    let classes = log.dim(1)?;
    let ignored = call.attr_int("ignore_index")?;
    let (target, counts) = match ignored {
        Some(ignored) => {
            let counts = target.ne(ignored)?;
            (
                counts.where_cond(&target, &target.full_like(0)?)?,
                Some(counts),
            )
        }
        None => (target, None),
    };
    let picked = log.gather(1, &target.unsqueeze(1)?)?.squeeze(1)?.neg()?;
    let mut weight = match call.optional(2)? {
        Some(weight) if weight.shape() == [classes] => weight.index_select(0, &target)?,
        Some(weight) => {
            let got = format!("of shape {:?}", weight.shape());
            return Err(NodeError::malformed(
                "the weight",
                got,
                format_args!("[{classes}]"),
            ));
        }
        None => picked.full_like(1.0)?,
    };
    if let Some(counts) = counts {
        weight = weight.mul(&counts.to_dtype(weight.dtype())?)?;
    }
    let weighted = picked.mul(&weight)?;
    Ok(match call.string_or("reduction", "mean")? {
        "none" => weighted,
        "sum" => weighted.sum(&[], false)?,
        "mean" => weighted.sum(&[], false)?.div(&weight.sum(&[], false)?)?,
        other => return Err(call.unknown("reduction", other)),
    })
}
