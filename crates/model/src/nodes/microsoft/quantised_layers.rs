//! Whole layers with weights of bytes.

use streampool_tensor::{DType, Tensor};

use super::super::call::{Call, Operator, Outputs};
use super::super::quantise::{along, integer_product};
use super::super::recurrent;
use super::{attention, embed};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "QAttention" => quantised_attention,
        "QEmbedLayerNormalization" => embed_layer_norm,
        "DynamicQuantizeLSTM" => lstm,
        _ => return None,
    })
}

fn quantised_attention(call: &Call<'_>) -> Outputs {
    let product = integer_product(call, (call.input(0)?, call.optional(6)?), (1, 7))?;
    let scale = call.input(3)?.mul(&along(call.input(4)?, 0, 1)?)?;
    let sum = product.to_dtype(scale.dtype())?.mul(&scale)?;
    attention::projected(call, &sum.add(call.input(2)?)?, 8, (5, usize::MAX))
}

fn embed_layer_norm(call: &Call<'_>) -> Outputs {
    // What inputs `place` and the scale and zero point that belong to it stand for, as far as it is chosen.
    let number = |place: usize, chosen: &dyn Fn(&Tensor) -> Result<Tensor, NodeError>| {
        let values = chosen(call.input(place)?)?.to_dtype(DType::F32)?;
        let zero = along(call.input(place + 11)?, 0, 0)?.to_dtype(DType::F32)?;
        let scale = along(call.input(place + 6)?, 0, 0)?;
        Ok::<_, NodeError>(values.sub(&zero)?.mul(&scale)?)
    };
    let all = |x: &Tensor| Ok(x.clone());
    let ids = call.input(0)?;
    let length = ids.dim(1)?;
    let mut sum = number(2, &|x| Ok(x.index_select(0, ids)?))?;
    sum = sum.add(&number(3, &|x| Ok(x.narrow(0, 0, length)?))?)?;
    if let Some(segments) = call.optional(1)? {
        sum = sum.add(&number(4, &|x| Ok(x.index_select(0, segments)?))?)?;
    }
    let (scale, bias) = (number(5, &all)?, number(6, &all)?);
    embed::normed(call, sum, [&scale, &bias])
}

/// With weights as the numbers that they stand for, and inputs and states as they are: nearer to the layer that was quantised than
/// ONNX Runtime's, which makes bytes of these in each step.
fn lstm(call: &Call<'_>) -> Outputs {
    let weight = |place: usize, scale: usize| -> Result<Tensor, NodeError> {
        let values = call.input(place)?;
        let own = |place: usize| -> Result<Tensor, NodeError> {
            let tensor = call.input(place)?.to_dtype(DType::F32)?;
            let directions = values.dim(0)?;
            Ok(tensor.reshape(&[directions as i64, 1, -1])?)
        };
        let numbers = values.to_dtype(DType::F32)?.sub(&own(scale + 1)?)?;
        Ok(numbers.mul(&own(scale)?)?.transpose(1, 2)?)
    };
    recurrent::lstm_of(call, &weight(1, 8)?, &weight(2, 10)?)
}
