//! Recurrent layers.

use streampool_tensor::{Direction, RnnOptions, RnnOutput, RnnWeights, Tensor};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs};

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

fn lstm(node: &Node<'_>) -> Outputs {
    activations(node, &["Sigmoid", "Tanh", "Tanh"])?;
    if node.flag_or("input_forget", false)? {
        return Err(Fault::unsupported("input_forget"));
    }
    layer(node, &Tensor::lstm)
}

fn gru(node: &Node<'_>) -> Outputs {
    activations(node, &["Sigmoid", "Tanh"])?;
    let reset_after = node.flag_or("linear_before_reset", false)?;
    layer(node, &|x, weights, options| {
        x.gru(reset_after, weights, options)
    })
}

fn rnn(node: &Node<'_>) -> Outputs {
    let relu = activations(node, &["Tanh"]).is_err();
    if relu {
        activations(node, &["Relu"])?;
    }
    layer(node, &|x, weights, options| x.rnn(relu, weights, options))
}

/// Checks that the activations are these, for each direction.
fn activations(node: &Node<'_>, expected: &[&str]) -> Result<(), Fault> {
    let given = node.attr_strings("activations")?;
    match given
        .iter()
        .zip(expected.iter().cycle())
        .find(|(given, expected)| given != expected)
    {
        Some((other, _)) => Err(node.unknown("activation", other)),
        None if node.has("clip") => Err(Fault::unsupported("clip")),
        None => Ok(()),
    }
}

fn layer(node: &Node<'_>, layer: Layer<'_>) -> Outputs {
    // Batches first, or steps first.
    let batch_first = node.int_or("layout", 0)? == 1;
    let turned = |tensor: &Tensor| match batch_first {
        true => tensor.transpose(0, 1),
        false => Ok(tensor.clone()),
    };
    let direction = match node.string_or("direction", "forward")? {
        "forward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        "bidirectional" => Direction::Both,
        other => return Err(node.unknown("direction", other)),
    };
    let x = turned(node.input(0)?)?;
    let state = |place| node.optional(place).map(turned).transpose();
    let (hidden, cell) = (state(5)?, state(6)?);
    let weights = RnnWeights {
        input: node.input(1)?,
        recurrent: node.input(2)?,
        bias: node.optional(3),
        peephole: node.optional(7),
    };
    let options = RnnOptions {
        direction,
        lengths: node.optional(4),
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
