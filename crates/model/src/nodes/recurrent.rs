//! Recurrent layers.

use streampool_tensor::{Direction, RnnActivation, RnnOptions, RnnOutput, RnnWeights, Tensor};

use super::call::{Call, Operator, Outputs};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "LSTM" => lstm,
        "GRU" => gru,
        "RNN" => rnn,
        _ => return None,
    })
}

type Layer<'f> =
    &'f dyn Fn(&Tensor, &RnnWeights<'_>, &RnnOptions<'_>) -> streampool_tensor::Result<RnnOutput>;

fn lstm(call: &Call<'_>) -> Outputs {
    layer(call, &Tensor::lstm)
}

fn gru(call: &Call<'_>) -> Outputs {
    let reset_after = call.flag_or("linear_before_reset", false)?;
    layer(call, &|x, weights, options| {
        x.gru(reset_after, weights, options)
    })
}

fn rnn(call: &Call<'_>) -> Outputs {
    let names = call.attr_strings("activations")?;
    let relu = !names.is_empty() && names.iter().all(|&name| name == "Relu");
    layer(call, &|x, weights, options| x.rnn(relu, weights, options))
}

/// The activations by name; each takes as many of the parameters that are listed as it has.
fn activations(call: &Call<'_>) -> Result<Vec<RnnActivation>, NodeError> {
    use RnnActivation::*;
    let listed = |name| Ok::<_, NodeError>(call.attr_floats(name)?.unwrap_or_default().iter());
    let (mut alphas, mut betas) = (listed("activation_alpha")?, listed("activation_beta")?);
    let mut alpha = |usual: f64| alphas.next().map_or(usual, |&alpha| alpha.into());
    let mut beta = |usual: f64| betas.next().map_or(usual, |&beta| beta.into());
    let mut all = Vec::new();
    for name in call.attr_strings("activations")? {
        all.push(match name {
            "Relu" => Relu,
            "Tanh" => Tanh,
            "Sigmoid" => Sigmoid,
            "Affine" => Affine {
                alpha: alpha(1.0),
                beta: beta(0.0),
            },
            "LeakyRelu" => LeakyRelu { alpha: alpha(0.01) },
            "ThresholdedRelu" => ThresholdedRelu { alpha: alpha(1.0) },
            "ScaledTanh" => ScaledTanh {
                alpha: alpha(1.0),
                beta: beta(1.0),
            },
            "HardSigmoid" => HardSigmoid {
                alpha: alpha(0.2),
                beta: beta(0.5),
            },
            "Elu" => Elu { alpha: alpha(1.0) },
            "Softsign" => Softsign,
            "Softplus" => Softplus,
            other => return Err(call.unknown("activation", other)),
        });
    }
    Ok(all)
}

/// An LSTM with these weights instead of those that are inputs 1 and 2.
pub fn lstm_of(call: &Call<'_>, input: &Tensor, recurrent: &Tensor) -> Outputs {
    layer_of(call, &Tensor::lstm, [input, recurrent])
}

fn layer(call: &Call<'_>, layer: Layer<'_>) -> Outputs {
    layer_of(call, layer, [call.input(1)?, call.input(2)?])
}

fn layer_of(call: &Call<'_>, layer: Layer<'_>, [input, recurrent]: [&Tensor; 2]) -> Outputs {
    // Batches first, or steps first.
    let batch_first = match call.int_or("layout", 0)? {
        0 => false,
        1 => true,
        other => return Err(call.unknown("layout", other)),
    };
    let turned = |tensor: &Tensor| match batch_first {
        true => tensor.transpose(0, 1),
        false => Ok(tensor.clone()),
    };
    let direction = match call.string_or("direction", "forward")? {
        "forward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        "bidirectional" => Direction::Both,
        other => return Err(call.unknown("direction", other)),
    };
    let x = turned(call.input(0)?)?;
    let state = |place| -> Result<Option<Tensor>, NodeError> {
        Ok(call.optional(place)?.map(turned).transpose()?)
    };
    let (hidden, cell) = (state(5)?, state(6)?);
    let weights = RnnWeights {
        input,
        recurrent,
        bias: call.optional(3)?,
        peephole: call.optional(7)?,
    };
    let hidden_size = weights.recurrent.dim(-1)?;
    if call.has("hidden_size") && call.size_or("hidden_size", 0)? != hidden_size {
        let expected = format!("{hidden_size}, as of the recurrent weights");
        let got = call.int_or("hidden_size", 0)?;
        return Err(NodeError::malformed("attribute hidden_size", got, expected));
    }
    let activations = activations(call)?;
    let options = RnnOptions {
        activations: &activations,
        clip: call.attr_float("clip")?,
        input_forget: call.flag_or("input_forget", false)?,
        direction,
        lengths: call.optional(4)?,
        hidden: hidden.as_ref(),
        cell: cell.as_ref(),
    };
    let made = layer(&x, &weights, &options)?;
    let states = match batch_first {
        // `[batch, steps, directions, hidden]`
        true => made.states.permute(&[2, 0, 1, 3])?,
        false => made.states,
    };
    let mut outputs = vec![states, turned(&made.hidden)?];
    outputs.extend(made.cell.as_ref().map(turned).transpose()?);
    Ok(outputs)
}
