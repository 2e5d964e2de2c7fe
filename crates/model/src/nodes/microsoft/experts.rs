//! Mixtures of experts: small networks, of which a few are chosen for each row.

use streampool_tensor::Tensor;

use super::super::call::{Call, Operator, Outputs, size};
use super::few_bits::FewBits;
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "MoE" => |call| {
            let layer = |place: usize| -> Result<Layer, NodeError> {
                let bias = call.optional(place + 1)?.cloned();
                Ok((call.input(place)?.clone(), bias))
            };
            let normed = call.flag_or("normalize_routing_weights", false)?;
            let third = call.has_input(6).then(|| layer(6)).transpose()?;
            mixed(call, [layer(2)?, layer(4)?], third, normed)
        },
        // Its shares always add up to one.
        "QMoE" => |call| {
            let layers = [widened(call, 2, 11)?, widened(call, 5, 12)?];
            let third = call.has_input(8).then(|| widened(call, 8, 13));
            mixed(call, layers, third.transpose()?, true)
        },
        _ => return None,
    })
}

/// Weights `[experts, out, in]`, and a bias `[experts, out]`.
type Layer = (Tensor, Option<Tensor>);

/// A layer of few bits as floats: of inputs from `first` on, and of zero points at `zeros`.
fn widened(call: &Call<'_>, first: usize, zeros: usize) -> Result<Layer, NodeError> {
    let kind = call.string_or("quant_type", "int")?;
    if kind != "int" {
        return Err(call.unknown("quant_type", kind));
    }
    let bits = call.size_or("expert_weight_bits", 4)?;
    let name = match first {
        2 => "fc1_expert_weight_bits",
        5 => "fc2_expert_weight_bits",
        _ => "expert_weight_bits",
    };
    let bits = call.size_or(name, bits)?;
    let [packed, scales, zeros] = call.beside([first, first + 1, zeros])?;
    let (Some(packed), Some(scales)) = (packed, scales) else {
        return Err(NodeError::malformed(
            "the weights",
            "left out",
            "weights and scales",
        ));
    };
    let &[experts, rows, bytes] = packed.shape() else {
        let got = format_args!("of shape {:?}", packed.shape());
        return Err(NodeError::malformed("the weights", got, "three axes"));
    };
    let columns = bytes.saturating_mul(8) / bits.max(1);
    let matrices = FewBits {
        bits,
        size: match call.size_or("block_size", 0)? {
            0 => columns,
            size => size,
        },
        rows: experts.saturating_mul(rows),
        columns,
    };
    let wide = matrices.widened(packed, scales, zeros)?;
    let wide = call.lift(&wide.reshape(&[experts, rows, columns])?)?;
    let bias = call.optional(first + 2)?.cloned();
    Ok((wide.to_dtype(call.input(0)?.dtype())?, bias))
}

/// What the first layer makes goes through an activation, times what the third one makes if there is one, and the second layer.
fn mixed(call: &Call<'_>, layers: [Layer; 2], third: Option<Layer>, normed: bool) -> Outputs {
    let [first, second] = layers;
    if call.flag_or("use_sparse_mixer", false)? {
        return Err(NodeError::unsupported("a sparse mixer"));
    }
    let (input, odds) = (call.input(0)?, call.input(1)?);
    let width = input.dim(-1)?;
    let x = input.reshape(&[-1, width as i64])?;
    let (rows, experts) = (x.dim(0)?, odds.dim(-1)?);
    let odds = odds.reshape(&[rows, experts])?.softmax(1)?;
    let count = size("attribute k", call.int_or("k", 1)?)?.min(experts);
    let (mut shares, chosen) = odds.topk(count, 1, true)?;
    if normed {
        shares = shares.div(&shares.sum(&[1], true)?)?;
    }
    if rows.saturating_mul(count) < experts {
        // Of few rows, only what is chosen: `[rows, chosen, ...]`.
        let own = |tensor: &Tensor| tensor.index_select(0, &chosen);
        let part = |(weight, bias): &Layer| -> Result<Layer, NodeError> {
            Ok((own(weight)?, bias.as_ref().map(own).transpose()?))
        };
        let x = x.reshape(&[rows, 1, 1, width])?;
        let third = third.as_ref().map(part).transpose()?;
        let hidden = activated(call, &x, &part(&first)?, third.as_ref())?;
        let made = layer(&hidden, &part(&second)?)?.squeeze(2)?;
        let sum = made.mul(&shares.unsqueeze(2)?)?.sum(&[1], false)?;
        return Ok(vec![sum.reshape(input.shape())?]);
    }
    // Each expert for each row, of which most count for nothing: `[experts, rows, ...]`.
    let none = odds.mul(0.0)?;
    let shares = none.scatter(1, &chosen, &shares)?.transpose(0, 1)?;
    let hidden = activated(call, &x.unsqueeze(0)?, &first, third.as_ref())?;
    let made = layer(&hidden, &second)?;
    let sum = made.mul(&shares.unsqueeze(2)?)?.sum(&[0], false)?;
    Ok(vec![sum.reshape(input.shape())?])
}

fn layer(x: &Tensor, (weight, bias): &Layer) -> Result<Tensor, NodeError> {
    let y = x.matmul(&weight.transpose(-2, -1)?)?;
    Ok(match bias {
        Some(bias) => y.add(&bias.unsqueeze(-2)?)?,
        None => y,
    })
}

fn activated(
    call: &Call<'_>,
    x: &Tensor,
    first: &Layer,
    third: Option<&Layer>,
) -> Result<Tensor, NodeError> {
    let x_third = third.map(|third| layer(x, third)).transpose()?;
    let x = layer(x, first)?;
    let made = match call.string_or("activation_type", "relu")? {
        "relu" => x.relu()?,
        "gelu" => x.gelu_tanh()?,
        "silu" => x.swish(1.0)?,
        "identity" => x,
        "swiglu" => return gated(call, &x, x_third),
        other => return Err(call.unknown("activation_type", other)),
    };
    match x_third {
        Some(factor) => Ok(made.mul(&factor)?),
        None => Ok(made),
    }
}

/// One half of the features, by way of a sigmoid, times the other half; or all of them times those of the third layer.
fn gated(call: &Call<'_>, x: &Tensor, third: Option<Tensor>) -> Result<Tensor, NodeError> {
    if call.flag_or("swiglu_limit_after_activation", false)? {
        return Err(NodeError::unsupported("a limit behind the activation"));
    }
    let half = x.dim(-1)? / 2;
    let (mut gate, mut other) = match (call.int_or("swiglu_fusion", 0)?, third) {
        (0, Some(third)) => (x.clone(), third),
        (_, Some(_)) => {
            return Err(NodeError::unsupported("a third layer beside joined ones"));
        }
        (1, None) => {
            let mut shape = x.shape().to_vec();
            shape.pop();
            shape.extend([half, 2]);
            let pairs = x.reshape(&shape)?;
            (pairs.select(-1, 0)?, pairs.select(-1, 1)?)
        }
        (2, None) => (x.narrow(-1, 0, half)?, x.narrow(-1, half, half)?),
        (other, None) => return Err(call.unknown("swiglu_fusion", other)),
    };
    if let Some(limit) = call.attr_float("swiglu_limit")? {
        gate = gate.minimum(limit)?;
        other = other.clamp(-limit, limit)?;
    }
    let alpha = call.float_or("activation_alpha", 1.0)?;
    let beta = call.float_or("activation_beta", 0.0)?;
    Ok(gate.swish(alpha)?.mul(&other.add(beta)?)?)
}
