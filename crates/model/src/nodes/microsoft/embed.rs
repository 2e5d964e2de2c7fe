//! Embeddings, and norms of sums.

use streampool_tensor::{DType, Tensor};

use super::super::call::{Call, Operator, Outputs, resolve};
use super::super::norm::{along_rest, moments};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "SkipLayerNormalization" => skip_layer_norm,
        "SkipSimplifiedLayerNormalization" => skip_rms_norm,
        "EmbedLayerNormalization" => embed_layer_norm,
        "BiasAdd" => |call| {
            Ok(vec![
                call.input(0)?.add(call.input(1)?)?.add(call.input(2)?)?,
            ])
        },
        "BiasGelu" => |call| Ok(vec![call.input(0)?.add(call.input(1)?)?.gelu()?]),
        "BiasSoftmax" => bias_softmax,
        "BiasSplitGelu" => bias_split_gelu,
        "FastGelu" => |call| {
            let x = call.input(0)?;
            Ok(vec![match call.optional(1)? {
                Some(bias) => x.add(bias)?.gelu_tanh()?,
                None => x.gelu_tanh()?,
            }])
        },
        "QuickGelu" => |call| Ok(vec![call.input(0)?.swish(call.float_or("alpha", 1.702)?)?]),
        _ => return None,
    })
}

fn epsilon(call: &Call<'_>) -> Result<f64, NodeError> {
    call.float_or("epsilon", 1e-12)
}

/// The sum of the input, what was skipped, and the bias that is input `bias`.
fn summed(call: &Call<'_>, bias: usize) -> Result<Tensor, NodeError> {
    let sum = call.input(0)?.add(call.input(1)?)?;
    Ok(match call.optional(bias)? {
        Some(bias) => sum.add(bias)?,
        None => sum,
    })
}

fn skip_layer_norm(call: &Call<'_>) -> Outputs {
    let sum = summed(call, 4)?;
    let y = sum.layer_norm(-1, Some(call.input(2)?), call.optional(3)?, epsilon(call)?)?;
    with_sum(call, y, sum, true)
}

fn skip_rms_norm(call: &Call<'_>) -> Outputs {
    let sum = summed(call, 3)?;
    let y = sum.rms_norm(-1, Some(call.input(2)?), epsilon(call)?)?;
    with_sum(call, y, sum, false)
}

/// The norm, the mean and the inverse deviation, or the root of the mean square, and the sum, as far as asked for.
fn with_sum(call: &Call<'_>, y: Tensor, sum: Tensor, centred: bool) -> Outputs {
    if call.wanted() == 1 {
        return Ok(vec![y]);
    }
    let [mean, inverse] = moments(&sum, &[-1], centred, epsilon(call)?)?;
    Ok(vec![y, mean, inverse, sum])
}

fn embed_layer_norm(call: &Call<'_>) -> Outputs {
    let ids = call.input(0)?;
    let length = ids.dim(1)?;
    let mut sum = call.input(2)?.index_select(0, ids)?;
    let places = call.input(3)?;
    sum = sum.add(&match call.optional(8)? {
        Some(positions) => places.index_select(0, positions)?,
        None => places.narrow(0, 0, length)?,
    })?;
    if let (Some(segments), Some(embedding)) = (call.optional(1)?, call.optional(4)?) {
        sum = sum.add(&embedding.index_select(0, segments)?)?;
    }
    normed(call, sum, [call.input(5)?, call.input(6)?])
}

/// The norm of a sum, how many tokens count by the mask that is input 7, and the sum.
pub fn normed(call: &Call<'_>, sum: Tensor, [scale, bias]: [&Tensor; 2]) -> Outputs {
    let y = sum.layer_norm(-1, Some(scale), Some(bias), epsilon(call)?)?;
    // How many tokens of each sequence count.
    let lengths = match call.optional(7)? {
        Some(mask) => mask.to_dtype(DType::I32)?.sum(&[1], false)?,
        None => Tensor::zeros(call.pool(), &[sum.dim(0)?], DType::I32)?,
    };
    Ok(vec![y, lengths, sum])
}

fn bias_softmax(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let axis = resolve(call.axis_or("axis", 1)?, x.rank())?;
    // The bias is of the last axes, or, as is asked for, of the first ones.
    if !call.flag_or("is_inner_broadcast", true)? {
        let what = "a bias that is broadcast to outer axes";
        return Err(NodeError::unsupported(what));
    }
    let sum = x.add(call.input(1)?)?;
    Ok(vec![along_rest(&sum, axis, Tensor::softmax)?])
}

fn bias_split_gelu(call: &Call<'_>) -> Outputs {
    let sum = call.input(0)?.add(call.input(1)?)?;
    let half = sum.dim(-1)? / 2;
    let (left, right) = (sum.narrow(-1, 0, half)?, sum.narrow(-1, half, half)?);
    Ok(vec![left.mul(&right.gelu()?)?])
}
