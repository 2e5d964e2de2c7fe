//! Recurrent layers that no device has an op for, step by step from other operators.

use streampool_device::{Cell, DType, Direction};

use super::checks;
use super::formula::wide;
use super::rnn_options::{RnnActivation, RnnOptions, RnnOutput, RnnWeights};
use crate::room::room;
use crate::{Error, Result, Tensor};

/// The activations that a cell has by its definition.
fn usual(cell: Cell) -> &'static [RnnActivation] {
    use RnnActivation::{Relu, Sigmoid, Tanh};
    match cell {
        Cell::Tanh => &[Tanh],
        Cell::Relu => &[Relu],
        Cell::Gru { .. } => &[Sigmoid, Tanh],
        Cell::Lstm => &[Sigmoid, Tanh, Tanh],
    }
}

/// Whether the layer is other than what its cell is by definition; checks what it is.
pub(super) fn is_special(op: &'static str, cell: Cell, options: &RnnOptions<'_>) -> Result<bool> {
    let usual = usual(cell);
    let (given, directions) = (options.activations, options.direction.count());
    if !given.is_empty() && given.len() != directions * usual.len() {
        let got = format!("{} functions", given.len());
        let expected = format!(
            "{} for each of {directions} directions, or none",
            usual.len()
        );
        return Err(Error::parameter(op, "activations", got, expected));
    }
    if let Some(clip) = options.clip {
        checks::not_negative(op, "clip", clip)?;
    }
    if options.input_forget && cell != Cell::Lstm {
        return Err(Error::parameter(
            op,
            "input_forget",
            true,
            "false, save for the LSTM",
        ));
    }
    let others = given.iter().zip(usual.iter().cycle());
    let is_other = others.clone().any(|(given, usual)| given != usual);
    Ok(is_other || options.clip.is_some() || options.input_forget)
}

/// The layer, whose options are [special](is_special), of tensors in one pool; `input` and the ranks of all else that
/// has to be there fit already.
pub(super) fn layer(
    op: &'static str,
    x: &Tensor,
    cell: Cell,
    weights: &RnnWeights<'_>,
    options: &RnnOptions<'_>,
) -> Result<RnnOutput> {
    let checked = Checked { op, x, cell };
    checked.all(weights, options)?;
    // Halves are rounded once, at the end.
    let dtype = x.dtype();
    let wider = |tensor: &Tensor| tensor.to_dtype(wide(dtype));
    let x = wider(x)?;
    let activations = match options.activations {
        [] => usual(cell).repeat(options.direction.count()),
        given => given.to_vec(),
    };
    let mut made = Vec::new();
    for (direction, activations) in activations.chunks(usual(cell).len()).enumerate() {
        let of = |tensor: &Tensor| wider(&tensor.select(0, direction as isize)?);
        let maybe = |tensor: Option<&Tensor>| tensor.map(of).transpose();
        let state = |given: Option<&Tensor>| match given {
            Some(state) => of(state),
            None => {
                let shape = [x.shape()[1], weights.recurrent.shape()[2]];
                Tensor::zeros(x.pool(), &shape, x.dtype())
            }
        };
        let way = Way {
            cell,
            activations,
            clip: options.clip,
            input_forget: options.input_forget,
            recurrent: of(weights.recurrent)?,
            bias: maybe(weights.bias)?,
            peephole: maybe(weights.peephole)?,
        };
        let is_reverse = match options.direction {
            Direction::Forward => false,
            Direction::Reverse => true,
            Direction::Both => direction == 1,
        };
        let products = x.linear(&of(weights.input)?, None)?;
        let start = (state(options.hidden)?, state(options.cell)?);
        made.push(way.walk(&products, start, options.lengths, is_reverse)?);
    }
    let joined = |of: fn(&Walked) -> &Tensor, axis| -> Result<Tensor> {
        let parts: Vec<&Tensor> = made.iter().map(of).collect();
        Tensor::stack(&parts, axis)?.to_dtype(dtype)
    };
    Ok(RnnOutput {
        states: joined(|walked| &walked.states, 1)?,
        hidden: joined(|walked| &walked.hidden, 0)?,
        cell: match cell {
            Cell::Lstm => Some(joined(|walked| &walked.cell, 0)?),
            _ => None,
        },
    })
}

/// What an op of a device checks by itself.
struct Checked<'a> {
    op: &'static str,
    x: &'a Tensor,
    cell: Cell,
}

impl Checked<'_> {
    fn all(&self, weights: &RnnWeights<'_>, options: &RnnOptions<'_>) -> Result<()> {
        let op = self.op;
        checks::floats(op, "self", self.x)?;
        let directions = options.direction.count();
        let (batch, hidden) = (self.x.shape()[1], weights.recurrent.shape()[2]);
        let gates = self.cell.gates() * hidden;
        let state: &[usize] = &[directions, batch, hidden];
        let given: [(_, Option<&Tensor>, &[usize]); 6] = [
            ("input", Some(weights.input), weights.input.shape()),
            (
                "recurrent",
                Some(weights.recurrent),
                &[directions, gates, hidden],
            ),
            ("bias", weights.bias, &[directions, 2 * gates]),
            ("peephole", weights.peephole, &[directions, 3 * hidden]),
            ("hidden", options.hidden, state),
            ("cell", options.cell, state),
        ];
        for (argument, given, shape) in given {
            let Some(tensor) = given else { continue };
            if matches!(argument, "peephole" | "cell") && self.cell != Cell::Lstm {
                let expected = "none, save for the LSTM";
                return Err(Error::parameter(op, argument, "given", expected));
            }
            checks::of_type(op, argument, tensor, self.x.dtype())?;
            checks::shaped(op, argument, tensor, shape, "as self and recurrent have it")?;
        }
        match options.lengths {
            Some(lengths) => {
                checks::of_type(op, "lengths", lengths, DType::I32)?;
                checks::shaped(op, "lengths", lengths, &[batch], "one for each sequence")
            }
            None => Ok(()),
        }
    }
}

/// One direction of a layer.
struct Way<'a> {
    cell: Cell,
    activations: &'a [RnnActivation],
    clip: Option<f64>,
    input_forget: bool,
    /// `[gates * hidden, hidden]`.
    recurrent: Tensor,
    /// `[2 * gates * hidden]`.
    bias: Option<Tensor>,
    /// `[3 * hidden]`.
    peephole: Option<Tensor>,
}

/// What one direction comes to.
struct Walked {
    /// `[steps, batch, hidden]`.
    states: Tensor,
    /// `[batch, hidden]`.
    hidden: Tensor,
    cell: Tensor,
}

impl Way<'_> {
    /// All steps, from the products of input and weights, `[steps, batch, gates * hidden]`.
    fn walk(
        &self,
        products: &Tensor,
        (mut hidden, mut cell): (Tensor, Tensor),
        lengths: Option<&Tensor>,
        is_reverse: bool,
    ) -> Result<Walked> {
        let steps = products.shape()[0];
        let mut states = room(steps)?;
        for count in 0..steps {
            let step = if is_reverse { steps - 1 - count } else { count };
            let product = products.select(0, step as isize)?;
            let (next, next_cell) = self.step(&product, &hidden, &cell)?;
            let Some(lengths) = lengths else {
                (hidden, cell) = (next, next_cell);
                states.push(hidden.clone());
                continue;
            };
            let is_within = lengths.gt(step as i64)?.unsqueeze(1)?;
            hidden = is_within.where_cond(&next, &hidden)?;
            cell = is_within.where_cond(&next_cell, &cell)?;
            states.push(is_within.where_cond(&next, 0.0)?);
        }
        if is_reverse {
            states.reverse();
        }
        let states = match steps {
            0 => Tensor::zeros(
                hidden.pool(),
                &[&[0], hidden.shape()].concat(),
                hidden.dtype(),
            )?,
            _ => Tensor::stack(&states.iter().collect::<Vec<_>>(), 0)?,
        };
        Ok(Walked {
            states,
            hidden,
            cell,
        })
    }

    /// The state and the cell after one more step.
    fn step(&self, product: &Tensor, hidden: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
        let state = match self.cell {
            Cell::Tanh | Cell::Relu => {
                let sum = self
                    .biased(product, 0, 1)?
                    .add(&self.again(hidden, 0, 1)?)?;
                self.activated(0, &sum)?
            }
            Cell::Gru { reset_after } => self.gru(product, hidden, reset_after)?,
            Cell::Lstm => return self.lstm(product, hidden, cell),
        };
        Ok((state, cell.clone()))
    }

    fn gru(&self, product: &Tensor, hidden: &Tensor, reset_after: bool) -> Result<Tensor> {
        let gates = self
            .biased(product, 0, 2)?
            .add(&self.again(hidden, 0, 2)?)?;
        let gates = self.activated(0, &gates)?;
        let (update, reset) = (self.part(&gates, 1, 0, 1)?, self.part(&gates, 1, 1, 1)?);
        let again = match reset_after {
            true => self.again(hidden, 2, 1)?.mul(&reset)?,
            false => self.again(&hidden.mul(&reset)?, 2, 1)?,
        };
        let new = self.activated(1, &self.biased(product, 2, 1)?.add(&again)?)?;
        // `(1 - z) n + z h`
        new.sub(&update.mul(&new)?)?.add(&update.mul(hidden)?)
    }

    fn lstm(&self, product: &Tensor, hidden: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
        let sums = self
            .biased(product, 0, 4)?
            .add(&self.again(hidden, 0, 4)?)?;
        let gate = |number: usize, cell: &Tensor| -> Result<Tensor> {
            let sum = self.part(&sums, 1, number, 1)?;
            let Some(peephole) = &self.peephole else {
                return self.activated(0, &sum);
            };
            let seen = self.part(peephole, 0, number, 1)?.mul(cell)?;
            self.activated(0, &sum.add(&seen)?)
        };
        let input = gate(0, cell)?;
        let forget = match self.input_forget {
            true => input.rsub(1.0)?,
            false => gate(2, cell)?,
        };
        let new = input.mul(&self.activated(1, &self.part(&sums, 1, 3, 1)?)?)?;
        let cell = forget.mul(cell)?.add(&new)?;
        // The cell is not clipped: ONNX clips "the input of activations", and ONNX Runtime takes that for those of the gates.
        let state = gate(1, &cell)?.mul(&self.activation(2, &cell)?)?;
        Ok((state, cell))
    }

    /// Some gates' part of the products of the input, with their bias.
    fn biased(&self, product: &Tensor, first: usize, gates: usize) -> Result<Tensor> {
        let part = self.part(product, 1, first, gates)?;
        match &self.bias {
            Some(bias) => part.add(&self.part(bias, 0, first, gates)?),
            None => Ok(part),
        }
    }

    /// Some gates' products of a state, with their bias.
    fn again(&self, state: &Tensor, first: usize, gates: usize) -> Result<Tensor> {
        let weight = self.part(&self.recurrent, 0, first, gates)?;
        let bias = self.bias.as_ref();
        let bias = bias.map(|bias| self.part(bias, 0, self.cell.gates() + first, gates));
        state.linear(&weight, bias.transpose()?.as_ref())
    }

    /// What belongs to some gates, along an axis on which they follow each other.
    fn part(&self, tensor: &Tensor, axis: isize, first: usize, gates: usize) -> Result<Tensor> {
        let hidden = self.recurrent.shape()[1];
        tensor.narrow(axis, first * hidden, gates * hidden)
    }

    /// An activation of a gate, which is clipped before.
    fn activated(&self, which: usize, x: &Tensor) -> Result<Tensor> {
        match self.clip {
            Some(clip) => self.activation(which, &x.clamp(-clip, clip)?),
            None => self.activation(which, x),
        }
    }

    fn activation(&self, which: usize, x: &Tensor) -> Result<Tensor> {
        use RnnActivation::*;
        match self.activations[which] {
            Relu => x.relu(),
            Tanh => x.tanh(),
            Sigmoid => x.sigmoid(),
            Affine { alpha, beta } => x.mul(alpha)?.add(beta),
            LeakyRelu { alpha } => x.leaky_relu(alpha),
            ThresholdedRelu { alpha } => x.thresholded_relu(alpha),
            ScaledTanh { alpha, beta } => x.mul(beta)?.tanh()?.mul(alpha),
            HardSigmoid { alpha, beta } => x.hard_sigmoid(alpha, beta),
            Elu { alpha } => x.elu(alpha),
            Softsign => x.softsign(),
            Softplus => x.softplus(),
        }
    }
}
