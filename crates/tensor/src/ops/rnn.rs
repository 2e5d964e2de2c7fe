//! Recurrent layers.

use streampool_device::{Cell, Op, Rnn};

use super::rnn_options::{RnnOptions, RnnOutput, RnnWeights};
use super::rnn_steps;
use crate::{Error, Result, Tensor};

impl Tensor {
    /// A layer of LSTM cells over `[steps, batch, input]`.
    pub fn lstm(&self, weights: &RnnWeights<'_>, options: &RnnOptions<'_>) -> Result<RnnOutput> {
        self.recurrent("lstm", Cell::Lstm, weights, options)
    }

    /// A layer of GRU cells over `[steps, batch, input]`. With `reset_after` the reset gate is applied after the product
    /// of the state, as in PyTorch.
    pub fn gru(
        &self,
        reset_after: bool,
        weights: &RnnWeights<'_>,
        options: &RnnOptions<'_>,
    ) -> Result<RnnOutput> {
        self.recurrent("gru", Cell::Gru { reset_after }, weights, options)
    }

    /// A layer of plain cells, `tanh` or `relu`, over `[steps, batch, input]`.
    pub fn rnn(
        &self,
        relu: bool,
        weights: &RnnWeights<'_>,
        options: &RnnOptions<'_>,
    ) -> Result<RnnOutput> {
        let cell = if relu { Cell::Relu } else { Cell::Tanh };
        self.recurrent("rnn", cell, weights, options)
    }

    fn recurrent(
        &self,
        op: &'static str,
        cell: Cell,
        weights: &RnnWeights<'_>,
        options: &RnnOptions<'_>,
    ) -> Result<RnnOutput> {
        let on = self
            .encoder(op)?
            .with("input", [weights.input])?
            .with("recurrent", [weights.recurrent])?
            .with("bias", weights.bias)?
            .with("peephole", weights.peephole)?
            .with("lengths", options.lengths)?
            .with("hidden", options.hidden)?
            .with("cell", options.cell)?;
        let &[steps, batch, width] = self.shape() else {
            return Err(Error::shape(
                op,
                "self",
                self.shape(),
                "[steps, batch, input]",
            ));
        };
        let &[directions, _, hidden] = weights.recurrent.shape() else {
            let expected = "[directions, gates * hidden, hidden]";
            return Err(Error::shape(
                op,
                "recurrent",
                weights.recurrent.shape(),
                expected,
            ));
        };
        let expected = [options.direction.count(), cell.gates() * hidden, width];
        if weights.input.shape() != expected {
            let expected = format!("{expected:?}");
            return Err(Error::shape(op, "input", weights.input.shape(), expected));
        }
        if rnn_steps::is_special(op, cell, options)? {
            return rnn_steps::layer(op, self, cell, weights, options);
        }
        let state = [directions, batch, hidden];
        let mut states = on.blank(self.dtype(), &[steps, directions, batch, hidden])?;
        let mut last_hidden = on.blank(self.dtype(), &state)?;
        let mut last_cell = match cell {
            Cell::Lstm => Some(on.blank(self.dtype(), &state)?),
            _ => None,
        };
        on.encode(Op::Rnn(Box::new(Rnn {
            cell,
            direction: options.direction,
            src: self.operand()?,
            weight: weights.input.operand()?,
            recurrent: weights.recurrent.operand()?,
            bias: weights.bias.map(Tensor::operand).transpose()?,
            peephole: weights.peephole.map(Tensor::operand).transpose()?,
            lengths: options.lengths.map(Tensor::operand).transpose()?,
            hidden: options.hidden.map(Tensor::operand).transpose()?,
            cell_state: options.cell.map(Tensor::operand).transpose()?,
            dst: states.operand()?,
            last_hidden: Some(last_hidden.operand()?),
            last_cell: last_cell.as_mut().map(|cell| cell.operand()).transpose()?,
        })))?;
        Ok(RnnOutput {
            states: states.finish(),
            hidden: last_hidden.finish(),
            cell: last_cell.map(|cell| cell.finish()),
        })
    }
}
