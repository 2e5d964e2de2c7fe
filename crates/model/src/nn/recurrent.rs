//! Recurrent layers, one upon the other.

use streampool_tensor::{Direction, Error, Result, RnnOptions, RnnOutput, RnnWeights, Tensor};

use super::module::{Module, Parts};
use super::weights::{Initial, Weights};

/// How recurrent layers are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrentOptions {
    /// How many there are, each over what the one before it made.
    pub layers: usize,
    /// Whether each also goes from the last step to the first; the features of both lie side by side.
    pub bidirectional: bool,
    /// Whether biases are added.
    pub bias: bool,
    /// Whether the batch comes before the steps, in what goes in and what comes out. States are the same either way.
    pub batch_first: bool,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        RecurrentOptions {
            layers: 1,
            bidirectional: false,
            bias: true,
            batch_first: false,
        }
    }
}

/// What one recurrent layer knows, as the operator takes it: gates in the order of [`RnnWeights`], and the directions,
/// one or two, along the first axis.
#[derive(Clone)]
pub struct RecurrentLayer {
    /// `[directions, gates * hidden, input]`.
    pub input: Tensor,
    /// `[directions, gates * hidden, hidden]`.
    pub recurrent: Tensor,
    /// `[directions, 2 * gates * hidden]`: those of `input`, then those of `recurrent`.
    pub bias: Option<Tensor>,
}

/// Where the layers of an [`Lstm`] are.
#[derive(Clone)]
pub struct LstmState {
    /// What they gave last: `[layers * directions, batch, hidden]`.
    pub hidden: Tensor,
    /// What their cells hold: `[layers * directions, batch, hidden]`.
    pub cell: Tensor,
}

/// Layers of LSTM cells.
///
/// ```
/// # use streampool_host::{HostDevice, HostOptions};
/// # use streampool_model::nn::{Lstm, RecurrentOptions, Weights};
/// # use streampool_tensor::{DType, Generator, Pool, Tensor};
/// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
/// # let weights = Weights::random(&Generator::new(7), &pool);
/// let options = RecurrentOptions { layers: 2, bidirectional: true, ..Default::default() };
/// let lstm = Lstm::new(&weights.at("lstm"), 8, 16, &options)?;
/// let x = Tensor::ones(&pool, &[5, 1, 8], DType::F32)?;
/// let (y, state) = lstm.run(&x, None)?;
/// assert_eq!(y.shape(), [5, 1, 32]);
/// assert_eq!(state.cell.shape(), [4, 1, 16]);
/// let (_, _later) = lstm.run(&x, Some(&state))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Lstm {
    stack: Stack,
}

/// Layers of GRU cells, whose reset gate is applied after the product of the state.
#[derive(Clone)]
pub struct Gru {
    stack: Stack,
}

/// What parameters of each direction are called by.
const SUFFIXES: [&str; 2] = ["", "_reverse"];

#[derive(Clone, Copy)]
enum Cell {
    Lstm,
    Gru,
}

#[derive(Clone)]
struct Stack {
    kind: Cell,
    layers: Vec<RecurrentLayer>,
    direction: Direction,
    hidden: usize,
    batch_first: bool,
}

impl Lstm {
    /// Takes `weight_ih_l0`, `[4 * hidden, features]`, `weight_hh_l0`, `[4 * hidden, hidden]`, `bias_ih_l0` and
    /// `bias_hh_l0`, both `[4 * hidden]`, with gates in PyTorch's order; then those of `l0_reverse`, `l1` and so on.
    pub fn new(
        weights: &Weights,
        features: usize,
        hidden: usize,
        options: &RecurrentOptions,
    ) -> Result<Lstm> {
        let stack = Stack::new(Cell::Lstm, weights, features, hidden, options)?;
        Ok(Lstm { stack })
    }

    /// Of layers as the operator takes them, the lowest first.
    pub fn from_layers(layers: Vec<RecurrentLayer>, batch_first: bool) -> Result<Lstm> {
        let stack = Stack::from_layers(Cell::Lstm, layers, batch_first)?;
        Ok(Lstm { stack })
    }

    /// What the last layer gives for `[steps, batch, features]`, which is `[steps, batch, directions * hidden]`, and where
    /// all layers are then. They begin at `state`, or at zero.
    pub fn run(&self, x: &Tensor, state: Option<&LstmState>) -> Result<(Tensor, LstmState)> {
        let from = state.map(|state| (&state.hidden, Some(&state.cell)));
        let (y, ends) = self.stack.run(x, from)?;
        let cells = ends.iter().filter_map(|end| end.cell.as_ref()).collect();
        let state = LstmState {
            hidden: joined(ends.iter().map(|end| &end.hidden).collect())?,
            cell: joined(cells)?,
        };
        Ok((y, state))
    }
}

impl Gru {
    /// Takes `weight_ih_l0`, `[3 * hidden, features]`, `weight_hh_l0`, `[3 * hidden, hidden]`, `bias_ih_l0` and
    /// `bias_hh_l0`, both `[3 * hidden]`, with gates in PyTorch's order; then those of `l0_reverse`, `l1` and so on.
    pub fn new(
        weights: &Weights,
        features: usize,
        hidden: usize,
        options: &RecurrentOptions,
    ) -> Result<Gru> {
        let stack = Stack::new(Cell::Gru, weights, features, hidden, options)?;
        Ok(Gru { stack })
    }

    /// Of layers as the operator takes them, the lowest first.
    pub fn from_layers(layers: Vec<RecurrentLayer>, batch_first: bool) -> Result<Gru> {
        let stack = Stack::from_layers(Cell::Gru, layers, batch_first)?;
        Ok(Gru { stack })
    }

    /// What the last layer gives for `[steps, batch, features]`, which is `[steps, batch, directions * hidden]`, and what
    /// all layers gave last: `[layers * directions, batch, hidden]`. They begin at `state`, which is like that, or at
    /// zero.
    pub fn run(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let from = state.map(|hidden| (hidden, None));
        let (y, ends) = self.stack.run(x, from)?;
        Ok((y, joined(ends.iter().map(|end| &end.hidden).collect())?))
    }
}

impl Module for Lstm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.run(x, None)?.0)
    }

    /// By the names that they are [made](Self::new) by, also those that were made of layers.
    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        self.stack.parameters()
    }
}

impl Module for Gru {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.run(x, None)?.0)
    }

    /// By the names that they are [made](Self::new) by, also those that were made of layers.
    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        self.stack.parameters()
    }
}

impl Cell {
    fn name(self) -> &'static str {
        match self {
            Cell::Lstm => "Lstm",
            Cell::Gru => "Gru",
        }
    }

    /// Which of PyTorch's gates each of ours is.
    fn gates(self) -> &'static [usize] {
        match self {
            // There: input, forget, cell, output.
            Cell::Lstm => &[0, 3, 1, 2],
            // There: reset, update, new.
            Cell::Gru => &[1, 0, 2],
        }
    }
}

impl Stack {
    fn new(
        kind: Cell,
        weights: &Weights,
        features: usize,
        hidden: usize,
        options: &RecurrentOptions,
    ) -> Result<Stack> {
        let gates = kind.gates();
        let directions = if options.bidirectional { 2 } else { 1 };
        let suffixes = &SUFFIXES[..directions];
        let bound = 1.0 / (hidden.max(1) as f64).sqrt();
        let rows = hidden.saturating_mul(gates.len());
        let take = |name: String, shape: &[usize]| {
            let tensor = weights.tensor_from(&name, shape, Initial::Uniform { bound })?;
            in_order(&tensor, gates)
        };
        let layers = (0..options.layers).map(|layer| {
            let read = match layer {
                0 => features,
                _ => hidden.saturating_mul(directions),
            };
            let all = |name: &str, shape: &[usize]| -> Result<Tensor> {
                let each = suffixes
                    .iter()
                    .map(|suffix| take(format!("{name}_l{layer}{suffix}"), shape));
                let each = each.collect::<Result<Vec<_>>>()?;
                Tensor::stack(&each.iter().collect::<Vec<_>>(), 0)
            };
            let bias = |name| options.bias.then(|| all(name, &[rows])).transpose();
            let bias = match (bias("bias_ih")?, bias("bias_hh")?) {
                (Some(input), Some(recurrent)) => Some(Tensor::cat(&[&input, &recurrent], 1)?),
                _ => None,
            };
            Ok(RecurrentLayer {
                input: all("weight_ih", &[rows, read])?,
                recurrent: all("weight_hh", &[rows, hidden])?,
                bias,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        Stack::from_layers(kind, layers, options.batch_first)
    }

    fn from_layers(kind: Cell, layers: Vec<RecurrentLayer>, batch_first: bool) -> Result<Stack> {
        let op = kind.name();
        let Some(lowest) = layers.first() else {
            return Err(Error::parameter(op, "layers", "none", "at least one"));
        };
        let (direction, hidden) = match *lowest.recurrent.shape() {
            [1, _, hidden] => (Direction::Forward, hidden),
            [2, _, hidden] => (Direction::Both, hidden),
            ref other => {
                let expected = "[directions, gates * hidden, hidden], with one or two directions";
                return Err(Error::shape(op, "recurrent", other, expected));
            }
        };
        let like = lowest.recurrent.shape();
        for layer in &layers {
            if layer.recurrent.shape() != like {
                let expected = format!("{like:?}, as in the lowest layer");
                let got = layer.recurrent.shape();
                return Err(Error::shape(op, "recurrent", got, expected));
            }
        }
        Ok(Stack {
            kind,
            layers,
            direction,
            hidden,
            batch_first,
        })
    }

    /// What the last layer gives, and where each layer ends, the lowest first.
    fn run(
        &self,
        x: &Tensor,
        from: Option<(&Tensor, Option<&Tensor>)>,
    ) -> Result<(Tensor, Vec<RnnOutput>)> {
        let op = self.kind.name();
        let mut x = match (x.rank(), self.batch_first) {
            (3, false) => x.clone(),
            (3, true) => x.transpose(0, 1)?,
            _ => {
                let expected = match self.batch_first {
                    false => "[steps, batch, features]",
                    true => "[batch, steps, features]",
                };
                return Err(Error::shape(op, "x", x.shape(), expected));
            }
        };
        let (steps, batch) = (x.shape()[0], x.shape()[1]);
        let directions = self.direction.count();
        let expected = [self.layers.len() * directions, batch, self.hidden];
        let given = from.map(|(hidden, cell)| [("hidden", Some(hidden)), ("cell", cell)]);
        for (argument, state) in given.into_iter().flatten() {
            if let Some(state) = state
                && state.shape() != expected
            {
                let expected = format!("{expected:?}, [layers * directions, batch, hidden]");
                return Err(Error::shape(op, argument, state.shape(), expected));
            }
        }
        let mut ends = Vec::new();
        for (place, known) in self.layers.iter().enumerate() {
            let own = |state: &Tensor| state.narrow(0, place * directions, directions);
            let hidden = from.map(|(hidden, _)| own(hidden)).transpose()?;
            let cell = from.and_then(|(_, cell)| cell).map(own).transpose()?;
            let weights = RnnWeights {
                input: &known.input,
                recurrent: &known.recurrent,
                bias: known.bias.as_ref(),
                peephole: None,
            };
            let options = RnnOptions {
                direction: self.direction,
                hidden: hidden.as_ref(),
                cell: cell.as_ref(),
                ..RnnOptions::default()
            };
            let output = match self.kind {
                Cell::Lstm => x.lstm(&weights, &options)?,
                Cell::Gru => x.gru(true, &weights, &options)?,
            };
            let features = directions * self.hidden;
            let side_by_side = output.states.transpose(1, 2)?;
            x = side_by_side.reshape(&[steps, batch, features])?;
            ends.push(output);
        }
        match self.batch_first {
            false => Ok((x, ends)),
            true => Ok((x.transpose(0, 1)?, ends)),
        }
    }

    /// As they came, with gates in PyTorch's order.
    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        let gates = self.kind.gates();
        let mut there = vec![0; gates.len()];
        for (ours, &theirs) in gates.iter().enumerate() {
            there[theirs] = ours;
        }
        let rows = self.hidden * gates.len();
        let mut parts = Parts::new();
        for (place, layer) in self.layers.iter().enumerate() {
            for (direction, suffix) in SUFFIXES.iter().enumerate().take(self.direction.count()) {
                let own = |tensor: &Tensor| tensor.select(0, direction as isize);
                let mut tensors = vec![
                    ("weight_ih", own(&layer.input)?),
                    ("weight_hh", own(&layer.recurrent)?),
                ];
                if let Some(bias) = &layer.bias {
                    let bias = own(bias)?;
                    tensors.push(("bias_ih", bias.narrow(0, 0, rows)?));
                    tensors.push(("bias_hh", bias.narrow(0, rows, rows)?));
                }
                for (name, tensor) in tensors {
                    let name = format!("{name}_l{place}{suffix}");
                    parts = parts.with(&name, &in_order(&tensor, &there)?)?;
                }
            }
        }
        Ok(parts.into_parameters())
    }
}

/// The gates along the first axis in another order.
fn in_order(tensor: &Tensor, gates: &[usize]) -> Result<Tensor> {
    let hidden = tensor.dim(0)? / gates.len();
    let parts = gates
        .iter()
        .map(|gate| tensor.narrow(0, gate * hidden, hidden));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0)
}

/// The states of layers, one after the other.
fn joined(states: Vec<&Tensor>) -> Result<Tensor> {
    match states[..] {
        [only] => Ok(only.clone()),
        _ => Tensor::cat(&states, 0),
    }
}
