//! A recurrent layer: many small products, each of which waits for the one before.

use streampool::tensor::{RnnOptions, RnnWeights};

use super::case::{Case, Input, Right, Stage};
use super::products::dot;
use crate::Result;
use crate::noise::Noise;

const STEPS: usize = 64;
const INPUTS: usize = 128;
const HIDDEN: usize = 128;
const GATES: usize = 4;

/// The largest weight: sums of so many stay where the gates are neither open nor shut.
const WEIGHT: f32 = 0.125;

/// What the layer knows.
struct Weights {
    input: Input,
    recurrent: Input,
    bias: Input,
}

/// A layer of a speech model, with both biases, as PyTorch has them.
pub fn lstm(stage: &Stage) -> Result<(Case, Right)> {
    let mut noise = Noise::new(4);
    let sequences = stage.sequences;
    let x = stage.input(&mut noise, &[STEPS, sequences, INPUTS], 1.0)?;
    let weights = Weights {
        input: stage.input(&mut noise, &[1, GATES * HIDDEN, INPUTS], WEIGHT)?,
        recurrent: stage.input(&mut noise, &[1, GATES * HIDDEN, HIDDEN], WEIGHT)?,
        bias: stage.input(&mut noise, &[1, 2 * GATES * HIDDEN], WEIGHT)?,
    };
    let (input, recurrent) = (
        weights.input.tensor.clone(),
        weights.recurrent.tensor.clone(),
    );
    let (bias, steps) = (weights.bias.tensor.clone(), x.tensor.clone());
    let case = Case::new("lstm", move || {
        let weights = RnnWeights {
            input: &input,
            recurrent: &recurrent,
            bias: Some(&bias),
            peephole: None,
        };
        Ok(steps.lstm(&weights, &RnnOptions::default())?.states)
    });
    let right = move |place: usize| {
        let (row, unit) = (place / HIDDEN, place % HIDDEN);
        let (step, sequence) = (row / sequences, row % sequences);
        let inputs = x.values.chunks_exact(INPUTS).skip(sequence);
        let mut state = (vec![0f32; HIDDEN], vec![0f64; HIDDEN]);
        for input in inputs.step_by(sequences).take(step + 1) {
            state = weights.step(input, &state);
        }
        f64::from(state.0[unit])
    };
    let rows = STEPS * sequences;
    let of_weights = GATES * HIDDEN * (INPUTS + HIDDEN + 2);
    Ok((
        case.multiply_adds(rows * GATES * HIDDEN * (INPUTS + HIDDEN))
            .bytes((rows * (INPUTS + HIDDEN) + of_weights) * stage.dtype.size()),
        Box::new(right),
    ))
}

impl Weights {
    /// The hidden state and the cells after one more input.
    fn step(&self, input: &[f32], (hidden, cells): &(Vec<f32>, Vec<f64>)) -> (Vec<f32>, Vec<f64>) {
        let gate = |gate: usize, unit: usize| {
            let row = gate * HIDDEN + unit;
            let of_input = dot(input, &self.input.values[row * INPUTS..][..INPUTS]);
            let of_state = dot(hidden, &self.recurrent.values[row * HIDDEN..][..HIDDEN]);
            let bias = &self.bias.values;
            of_input + of_state + f64::from(bias[row]) + f64::from(bias[GATES * HIDDEN + row])
        };
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let next = (0..HIDDEN).map(|unit| {
            // As ONNX has them: input, output, forget, cell.
            let [input, output, forget, cell] = [0, 1, 2, 3].map(|number| gate(number, unit));
            let cell = sigmoid(forget) * cells[unit] + sigmoid(input) * cell.tanh();
            ((sigmoid(output) * cell.tanh()) as f32, cell)
        });
        next.unzip()
    }
}
