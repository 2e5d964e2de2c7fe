//! What the planner makes of several nodes.

use streampool_tensor::{Activation, AttentionOptions, Tensor};

use super::Operator;
use super::conv::convolved_with;
use crate::error::Fault;
use crate::evaluate::{Call, Outputs};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Linear" => linear,
        "Conv" => |call| {
            let (x, weight) = (call.input(0)?, call.input(1)?);
            let activation = activation(call)?;
            Ok(vec![convolved_with(
                call,
                x,
                weight,
                call.optional(2)?,
                activation,
            )?])
        },
        "Attention" => attention,
        "Gelu" => |call| {
            let x = call.input(0)?;
            Ok(vec![match call.string_or("approximate", "none")? {
                "none" => x.gelu()?,
                "tanh" => x.gelu_tanh()?,
                other => return Err(call.unknown("approximate", other)),
            }])
        },
        "Silu" => |call| Ok(vec![call.input(0)?.silu()?]),
        _ => return None,
    })
}

/// The activation that a node ends with.
fn activation(call: &Call<'_>) -> Result<Activation, Fault> {
    Ok(match call.string_or("activation", "none")? {
        "none" => Activation::None,
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        "gelu_tanh" => Activation::GeluTanh,
        "silu" => Activation::Silu,
        "sigmoid" => Activation::Sigmoid,
        "tanh" => Activation::Tanh,
        other => return Err(call.unknown("activation", other)),
    })
}

fn linear(call: &Call<'_>) -> Outputs {
    let (x, weight, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let alpha = call.float_or("alpha", 1.0)?;
    Ok(vec![x.matmul_with(
        weight,
        bias,
        activation(call)?,
        alpha,
    )?])
}

fn attention(call: &Call<'_>) -> Outputs {
    let key: Tensor = match call.flag_or("key_transposed", false)? {
        true => call.input(1)?.transpose(-2, -1)?,
        false => call.input(1)?.clone(),
    };
    let options = AttentionOptions {
        mask: call.optional(3)?,
        scale: call.attr_float("scale")?,
        ..AttentionOptions::default()
    };
    Ok(vec![call.input(0)?.attention(
        &key,
        call.input(2)?,
        &options,
    )?])
}
