//! Recurrent layers with functions, bounds and couplings of their own, beside ONNX's definition of them.

use streampool_tensor::{
    DType, Direction, RnnActivation, RnnOptions, RnnOutput, RnnWeights, Tensor,
};

use crate::{assert_near, common::pool, real, refusal, values};

const STEPS: usize = 4;
const BATCH: usize = 3;
const INPUT: usize = 3;
const HIDDEN: usize = 2;

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Plain,
    Gru { reset_after: bool },
    Lstm,
}

impl Cell {
    fn gates(self) -> usize {
        match self {
            Cell::Plain => 1,
            Cell::Gru { .. } => 3,
            Cell::Lstm => 4,
        }
    }
}

fn function(of: RnnActivation, x: f64) -> f64 {
    use RnnActivation::*;
    match of {
        Relu => x.max(0.0),
        Tanh => x.tanh(),
        Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Affine { alpha, beta } => alpha * x + beta,
        LeakyRelu { alpha } => x.max(0.0) + alpha * x.min(0.0),
        ThresholdedRelu { alpha } => {
            if x > alpha {
                x
            } else {
                0.0
            }
        }
        ScaledTanh { alpha, beta } => alpha * (beta * x).tanh(),
        HardSigmoid { alpha, beta } => (alpha * x + beta).clamp(0.0, 1.0),
        Elu { alpha } => {
            if x < 0.0 {
                alpha * (x.exp() - 1.0)
            } else {
                x
            }
        }
        Softsign => x / (1.0 + x.abs()),
        Softplus => x.exp().ln_1p(),
    }
}

/// A layer, and what it is given; all values are from -2 to 2.
struct Layer {
    cell: Cell,
    /// Those of both directions.
    activations: Vec<RnnActivation>,
    clip: Option<f64>,
    input_forget: bool,
    x: Tensor,
    input: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    peephole: Tensor,
    hidden: Tensor,
    memory: Tensor,
    lengths: Tensor,
}

const LENGTHS: [i32; BATCH] = [4, 2, 0];

impl Layer {
    fn new(cell: Cell, activations: &[RnnActivation], dtype: DType) -> Layer {
        let pool = pool();
        let rows = cell.gates() * HIDDEN;
        let of = |shape: &[usize], seed| real(&pool, shape, seed).to_dtype(dtype).unwrap();
        Layer {
            cell,
            activations: activations.to_vec(),
            clip: None,
            input_forget: false,
            x: of(&[STEPS, BATCH, INPUT], 1),
            input: of(&[2, rows, INPUT], 2),
            recurrent: of(&[2, rows, HIDDEN], 3),
            bias: of(&[2, 2 * rows], 4),
            peephole: of(&[2, 3 * HIDDEN], 5),
            hidden: of(&[2, BATCH, HIDDEN], 6),
            memory: of(&[2, BATCH, HIDDEN], 7),
            lengths: Tensor::from_slice(&pool, &LENGTHS, &[BATCH]).unwrap(),
        }
    }

    fn run(&self) -> streampool_tensor::Result<RnnOutput> {
        let of_lstm = self.cell == Cell::Lstm;
        let weights = RnnWeights {
            input: &self.input,
            recurrent: &self.recurrent,
            bias: Some(&self.bias),
            peephole: of_lstm.then_some(&self.peephole),
        };
        let options = RnnOptions {
            direction: Direction::Both,
            lengths: Some(&self.lengths),
            hidden: Some(&self.hidden),
            cell: of_lstm.then_some(&self.memory),
            activations: &self.activations,
            clip: self.clip,
            input_forget: self.input_forget,
        };
        match self.cell {
            Cell::Plain => self.x.rnn(false, &weights, &options),
            Cell::Gru { reset_after } => self.x.gru(reset_after, &weights, &options),
            Cell::Lstm => self.x.lstm(&weights, &options),
        }
    }

    /// One step of one sequence in one direction, by the definition.
    fn step(&self, direction: usize, x: &[f64], h: &[f64], c: &mut [f64]) -> Vec<f64> {
        let rows = self.cell.gates() * HIDDEN;
        let part = |tensor: &Tensor| values(&tensor.select(0, direction as isize).unwrap());
        let (w, r, b) = (part(&self.input), part(&self.recurrent), part(&self.bias));
        let p = part(&self.peephole);
        let each = self.activations.len() / 2;
        let f = |which: usize, x: f64| {
            let of_cell = self.cell == Cell::Lstm && which == 2;
            let clip = self.clip.filter(|_| !of_cell);
            let bounded = clip.map_or(x, |clip| x.clamp(-clip, clip));
            function(self.activations[direction * each + which], bounded)
        };
        let wx = |row: usize| (0..INPUT).map(|i| w[row * INPUT + i] * x[i]).sum::<f64>() + b[row];
        let rh = |row: usize, h: &[f64]| {
            (0..HIDDEN).map(|i| r[row * HIDDEN + i] * h[i]).sum::<f64>() + b[rows + row]
        };
        let mut state = vec![0.0; HIDDEN];
        match self.cell {
            Cell::Plain => (0..HIDDEN).for_each(|i| state[i] = f(0, wx(i) + rh(i, h))),
            Cell::Gru { reset_after } => {
                let gate = |row: usize| f(0, wx(row) + rh(row, h));
                let reset: Vec<f64> = (0..HIDDEN).map(|i| gate(HIDDEN + i)).collect();
                let before: Vec<f64> = (0..HIDDEN).map(|i| reset[i] * h[i]).collect();
                for i in 0..HIDDEN {
                    let row = 2 * HIDDEN + i;
                    let again = if reset_after {
                        reset[i] * rh(row, h)
                    } else {
                        rh(row, &before)
                    };
                    let (z, new) = (gate(i), f(1, wx(row) + again));
                    state[i] = (1.0 - z) * new + z * h[i];
                }
            }
            Cell::Lstm => {
                for i in 0..HIDDEN {
                    let sum = |gate: usize| wx(gate * HIDDEN + i) + rh(gate * HIDDEN + i, h);
                    let input = f(0, sum(0) + p[i] * c[i]);
                    let forget = match self.input_forget {
                        true => 1.0 - input,
                        false => f(0, sum(2) + p[2 * HIDDEN + i] * c[i]),
                    };
                    c[i] = forget * c[i] + input * f(1, sum(3));
                    state[i] = f(0, sum(1) + p[HIDDEN + i] * c[i]) * f(2, c[i]);
                }
            }
        }
        state
    }

    /// States, last state and last cell, by the definition.
    fn defined(&self) -> [Vec<f64>; 3] {
        let x = values(&self.x);
        let mut states = vec![0.0; STEPS * 2 * BATCH * HIDDEN];
        let (mut hidden, mut memory) = (values(&self.hidden), values(&self.memory));
        for direction in 0..2 {
            for (sequence, &length) in LENGTHS.iter().enumerate() {
                let at = (direction * BATCH + sequence) * HIDDEN;
                let mut steps: Vec<usize> = (0..length as usize).collect();
                if direction == 1 {
                    steps.reverse();
                }
                for step in steps {
                    let x = &x[(step * BATCH + sequence) * INPUT..][..INPUT];
                    let before = hidden[at..at + HIDDEN].to_vec();
                    let state = self.step(direction, x, &before, &mut memory[at..at + HIDDEN]);
                    hidden[at..at + HIDDEN].copy_from_slice(&state);
                    let to = ((step * 2 + direction) * BATCH + sequence) * HIDDEN;
                    states[to..to + HIDDEN].copy_from_slice(&state);
                }
            }
        }
        [states, hidden, memory]
    }

    fn check(&self, near: f64) {
        let [states, hidden, memory] = self.defined();
        let made = self.run().unwrap();
        assert_eq!(made.states.shape(), [STEPS, 2, BATCH, HIDDEN]);
        assert_near(&made.states, &states, near);
        assert_near(&made.hidden, &hidden, near);
        match self.cell {
            Cell::Lstm => assert_near(&made.cell.unwrap(), &memory, near),
            _ => assert!(made.cell.is_none()),
        }
    }
}

const SIGMOID: RnnActivation = RnnActivation::Sigmoid;
const TANH: RnnActivation = RnnActivation::Tanh;

#[test]
fn every_function_is_that_of_its_definition() {
    use RnnActivation::*;
    for activation in [
        Relu,
        Tanh,
        Sigmoid,
        Affine {
            alpha: 0.5,
            beta: 0.25,
        },
        LeakyRelu { alpha: 0.1 },
        ThresholdedRelu { alpha: 0.3 },
        ScaledTanh {
            alpha: 0.8,
            beta: 1.5,
        },
        HardSigmoid {
            alpha: 0.3,
            beta: 0.4,
        },
        Elu { alpha: 0.7 },
        Softsign,
        Softplus,
    ] {
        Layer::new(Cell::Plain, &[activation, Softsign], DType::F32).check(1e-4);
    }
}

#[test]
fn each_direction_has_functions_of_its_own() {
    use RnnActivation::{Elu, HardSigmoid, Softplus, Softsign};
    let hard = HardSigmoid {
        alpha: 0.2,
        beta: 0.5,
    };
    for dtype in [DType::F64, DType::F32, DType::F16] {
        let near = if dtype == DType::F16 { 1e-2 } else { 1e-4 };
        for reset_after in [false, true] {
            let gru = Cell::Gru { reset_after };
            Layer::new(gru, &[hard, Softsign, SIGMOID, Elu { alpha: 0.5 }], dtype).check(near);
        }
        let all = [hard, Softsign, TANH, SIGMOID, TANH, Softplus];
        Layer::new(Cell::Lstm, &all, dtype).check(near);
    }
}

#[test]
fn what_functions_are_given_is_bounded() {
    for (cell, activations) in [
        (Cell::Plain, &[TANH; 2][..]),
        (
            Cell::Gru { reset_after: false },
            &[SIGMOID, TANH, SIGMOID, TANH],
        ),
        (
            Cell::Gru { reset_after: true },
            &[SIGMOID, TANH, SIGMOID, TANH],
        ),
        (Cell::Lstm, &[SIGMOID, TANH, TANH, SIGMOID, TANH, TANH]),
    ] {
        let mut layer = Layer::new(cell, activations, DType::F32);
        layer.check(1e-5);
        let free = values(&layer.run().unwrap().states);
        layer.clip = Some(0.3);
        layer.check(1e-5);
        assert_ne!(values(&layer.run().unwrap().states), free);
        // So wide a bound bounds nothing.
        layer.clip = Some(1e6);
        assert_near(&layer.run().unwrap().states, &free, 1e-5);
    }
}

#[test]
fn the_forget_gate_is_the_rest_of_the_input_gate() {
    let usual = [SIGMOID, TANH, TANH, SIGMOID, TANH, TANH];
    let mut layer = Layer::new(Cell::Lstm, &usual, DType::F32);
    layer.input_forget = true;
    layer.check(1e-5);
    layer.clip = Some(0.4);
    layer.check(1e-5);
}

#[test]
fn what_does_not_fit_is_named() {
    let gru = Cell::Gru { reset_after: false };
    let wrong = |change: &dyn Fn(&mut Layer)| {
        let mut layer = Layer::new(gru, &[SIGMOID, TANH, SIGMOID, TANH], DType::F32);
        layer.clip = Some(1.0);
        change(&mut layer);
        refusal(layer.run())
    };
    for (got, expected) in [
        (
            wrong(&|layer| layer.activations.truncate(3)),
            "gru: activations is 3 functions, expected 2 for each of 2 directions, or none",
        ),
        (
            wrong(&|layer| layer.clip = Some(-1.0)),
            "gru: clip is -1, expected finite and not negative",
        ),
        (
            wrong(&|layer| layer.input_forget = true),
            "gru: input_forget is true, expected false, save for the LSTM",
        ),
        (
            wrong(&|layer| layer.bias = layer.x.clone()),
            "gru: bias has shape [4, 3, 3], expected [2, 12]",
        ),
        (
            wrong(&|layer| layer.hidden = layer.hidden.to_dtype(DType::F64).unwrap()),
            "gru: hidden is of type f64, expected f32",
        ),
        (
            wrong(&|layer| layer.lengths = layer.lengths.to_dtype(DType::I64).unwrap()),
            "gru: lengths is of type i64, expected i32",
        ),
    ] {
        assert!(got.starts_with(expected), "{got}\n{expected}");
    }
}
