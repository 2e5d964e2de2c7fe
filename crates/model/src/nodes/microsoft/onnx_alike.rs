//! Operators that mean, or nearly, what ONNX's own mean.

use streampool_tensor::Tensor;

use super::super::call::{Call, Operator, Outputs};
use super::super::floats::by_wide_floats;
use super::super::{conv, create, elementwise, grid, index, layout, norm, order, pool, quantise};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    match op {
        "QuantizeLinear" | "DequantizeLinear" | "QLinearConv" => quantise::operator(op),
        "Gelu" => elementwise::operator(op),
        "SimplifiedLayerNormalization" => norm::operator(op),
        "Pad" => layout::operator(op),
        "Trilu" | "GatherND" => index::operator(op),
        "GridSample" => grid::operator(op),
        "Range" => create::operator(op),
        "CausalConvWithState" => conv::operator(op),
        "ExpandDims" => Some(expand_dims),
        "Inverse" => Some(|call| Ok(vec![by_wide_floats(call.input(0)?, Tensor::inverse)?])),
        "Unique" => Some(unique),
        "NhwcMaxPool" => Some(|call| {
            let x = channels_second(call.input(0)?)?;
            Ok(vec![channels_last(&pool::max_pooled(call, &x)?)?])
        }),
        "NhwcConv" => Some(|call| {
            let x = channels_second(call.input(0)?)?;
            let y = conv::convolved(
                call,
                &x,
                &channels_second(call.input(1)?)?,
                call.optional(2)?,
            )?;
            Ok(vec![channels_last(&y)?])
        }),
        _ => None,
    }
}

fn expand_dims(call: &Call<'_>) -> Outputs {
    Ok(vec![call.input(0)?.unsqueeze(call.int(1)? as isize)?])
}

/// In the order in which they come first, and not where that is.
fn unique(call: &Call<'_>) -> Outputs {
    let [values, _, inverse, counts] = order::unique_by_place(call.input(0)?, None)?;
    Ok(vec![values, inverse, counts])
}

/// `[batch, spatial ..., channels]` as `[batch, channels, spatial ...]`.
pub fn channels_second(x: &Tensor) -> Result<Tensor, NodeError> {
    let rank = x.rank() as isize;
    let order: Vec<isize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    Ok(x.permute(&order)?)
}

/// The reverse of [`channels_second`].
pub fn channels_last(x: &Tensor) -> Result<Tensor, NodeError> {
    let rank = x.rank() as isize;
    let order: Vec<isize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    Ok(x.permute(&order)?)
}
