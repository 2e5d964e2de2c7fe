//! Recurrent layers.

use super::optional;
use crate::check::{
    countable, float, invalid, product, rank, require, same_type, shape, steps as work, writable,
};
use crate::{Access, DType, OpKind, Result, View};

/// What one step of a recurrent layer computes. `x` is the step's input, `h` the state before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cell {
    /// `tanh(W x + R h + b)`.
    Tanh,
    /// `max(W x + R h + b, 0)`.
    Relu,
    /// Gates in the order update, reset, new: `h' = (1 - z) n + z h`.
    Gru {
        /// Whether the reset gate is applied after the product of the state (and its bias), instead of to the
        /// state before it.
        reset_after: bool,
    },
    /// Gates in the order input, output, forget, cell: `c' = f c + i g`, `h' = o tanh(c')`.
    Lstm,
}

impl Cell {
    /// How many gates it has.
    pub const fn gates(self) -> usize {
        match self {
            Cell::Tanh | Cell::Relu => 1,
            Cell::Gru { .. } => 3,
            Cell::Lstm => 4,
        }
    }
}

/// In which order steps are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first.
    Forward,
    /// From the last.
    Reverse,
    /// Both, each with weights of its own: first forward, then reverse.
    Both,
}

impl Direction {
    /// How many directions it is.
    pub const fn count(self) -> usize {
        match self {
            Direction::Forward | Direction::Reverse => 1,
            Direction::Both => 2,
        }
    }
}

/// A recurrent layer over a whole sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rnn<T = View> {
    /// What one step computes.
    pub cell: Cell,
    /// In which order steps are taken.
    pub direction: Direction,
    /// `[steps, batch, input]`.
    pub src: T,
    /// `[directions, gates * hidden, input]`.
    pub weight: T,
    /// `[directions, gates * hidden, hidden]`.
    pub recurrent: T,
    /// `[directions, 2 * gates * hidden]`: those of `weight`, then those of `recurrent`.
    pub bias: Option<T>,
    /// `[directions, 3 * hidden]`: what the input, output and forget gates see of the cell (LSTM only).
    pub peephole: Option<T>,
    /// `[batch]`: how many steps each sequence has, as `i32`; clamped to `0..=steps`. Results beyond are zero, and the
    /// last state is that after the last step there is; the reverse direction begins there.
    pub lengths: Option<T>,
    /// `[directions, batch, hidden]`: the state before the first step; zero if left out.
    pub hidden: Option<T>,
    /// `[directions, batch, hidden]`: the cell before the first step (LSTM only).
    pub cell_state: Option<T>,
    /// `[steps, directions, batch, hidden]`: the state after each step.
    pub dst: T,
    /// `[directions, batch, hidden]`: the state after the last step.
    pub last_hidden: Option<T>,
    /// `[directions, batch, hidden]`: the cell after the last step (LSTM only).
    pub last_cell: Option<T>,
}

impl<T> Rnn<T> {
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Rnn<U>, E> {
        use Access::{Read, Write};
        Ok(Rnn {
            cell: self.cell,
            direction: self.direction,
            src: f("src", Read, &self.src)?,
            weight: f("weight", Read, &self.weight)?,
            recurrent: f("recurrent", Read, &self.recurrent)?,
            bias: optional(&self.bias, "bias", Read, f)?,
            peephole: optional(&self.peephole, "peephole", Read, f)?,
            lengths: optional(&self.lengths, "lengths", Read, f)?,
            hidden: optional(&self.hidden, "hidden", Read, f)?,
            cell_state: optional(&self.cell_state, "cell_state", Read, f)?,
            dst: f("dst", Write, &self.dst)?,
            last_hidden: optional(&self.last_hidden, "last_hidden", Write, f)?,
            last_cell: optional(&self.last_cell, "last_cell", Write, f)?,
        })
    }
}

impl Rnn<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Rnn;
        float(kind, "src", &self.src)?;
        rank(kind, "src", &self.src, 3)?;
        rank(kind, "recurrent", &self.recurrent, 3)?;
        let [steps, batch, input] = [0, 1, 2].map(|axis| self.src.shape()[axis]);
        let hidden = self.recurrent.shape()[2];
        let directions = self.direction.count();
        let of_hidden = |count| product(kind, "recurrent", [count, hidden]);
        let gates = of_hidden(self.cell.gates())?;
        let (biases, peepholes) = (of_hidden(2 * self.cell.gates())?, of_hidden(3)?);
        let sums = [steps, batch, directions, gates];
        countable(kind, "recurrent", "sums", sums)?;
        let widths = input.saturating_add(hidden);
        work(kind, "weight", [steps, batch, directions, gates, widths])?;
        let state: &[usize] = &[directions, batch, hidden];
        let given: [(_, Option<&View>, &[usize]); 9] = [
            ("weight", Some(&self.weight), &[directions, gates, input]),
            (
                "recurrent",
                Some(&self.recurrent),
                &[directions, gates, hidden],
            ),
            ("bias", self.bias.as_ref(), &[directions, biases]),
            ("peephole", self.peephole.as_ref(), &[directions, peepholes]),
            ("hidden", self.hidden.as_ref(), state),
            ("cell_state", self.cell_state.as_ref(), state),
            ("dst", Some(&self.dst), &[steps, directions, batch, hidden]),
            ("last_hidden", self.last_hidden.as_ref(), state),
            ("last_cell", self.last_cell.as_ref(), state),
        ];
        for (argument, view, expected) in given {
            let Some(view) = view else { continue };
            same_type(kind, argument, view, &self.src)?;
            shape(kind, argument, view.shape(), expected)?;
            let of_lstm = matches!(argument, "peephole" | "cell_state" | "last_cell");
            if of_lstm && self.cell != Cell::Lstm {
                return Err(invalid(
                    kind,
                    argument,
                    format_args!("given to {:?}", self.cell),
                    "none, save for the LSTM",
                ));
            }
            if matches!(argument, "dst" | "last_hidden" | "last_cell") {
                writable(kind, argument, view)?;
            }
        }
        if let Some(lengths) = &self.lengths {
            require(
                kind,
                "lengths",
                lengths.dtype() == DType::I32,
                format_args!("of type {}", lengths.dtype()),
                DType::I32,
            )?;
            shape(kind, "lengths", lengths.shape(), &[batch])?;
        }
        Ok(())
    }
}
