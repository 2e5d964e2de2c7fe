//! Recurrent layers, step by step.

use streampool_device::{Cell, Direction, Rnn};

use super::expected::Expected;
use crate::num::Num;
use crate::operand::Operand;

/// A number, and how far a device may be from it in units of its type's tolerance.
#[derive(Debug, Clone, Copy, Default)]
struct Near {
    value: f64,
    error: f64,
}

impl Near {
    fn exact(value: f64) -> Near {
        Near { value, error: 0.0 }
    }

    fn plus(self, other: Near) -> Near {
        let value = self.value + other.value;
        Near {
            value,
            error: self.error + other.error + value.abs(),
        }
    }

    fn times(self, other: Near) -> Near {
        let value = self.value * other.value;
        Near {
            value,
            error: self.error * other.value.abs() + other.error * self.value.abs() + value.abs(),
        }
    }

    fn sigmoid(self) -> Near {
        let value = 1.0 / (1.0 + (-self.value).exp());
        Near {
            value,
            error: self.error / 4.0 + value,
        }
    }

    fn tanh(self) -> Near {
        let value = self.value.tanh();
        Near {
            value,
            error: self.error + value.abs(),
        }
    }

    fn relu(self) -> Near {
        Near {
            value: if self.value.is_nan() {
                self.value
            } else {
                self.value.max(0.0)
            },
            error: self.error,
        }
    }

    fn expected(self) -> Expected {
        let sound = self.value.is_finite() && self.error.is_finite();
        Expected {
            value: Num::Float(self.value),
            scale: if sound { self.error } else { 0.0 },
        }
    }
}

/// `weights @ values`, for one row of weights.
fn dot(weights: &[f64], values: &[Near]) -> Near {
    let mut sum = Near::default();
    for (&weight, value) in weights.iter().zip(values) {
        sum.value += weight * value.value;
        sum.error += (weight * value.value).abs() + weight.abs() * value.error;
    }
    sum
}

/// The written operands.
pub(super) fn rnn(op: &Rnn<usize>, operands: &[Operand]) -> Vec<(usize, Vec<Expected>)> {
    let numbers = |operand: usize| -> Vec<f64> {
        let values = operands[operand].values();
        values.iter().map(|value| value.float()).collect()
    };
    let given = |operand: Option<usize>| operand.map(numbers);
    let shape = operands[op.src].shape();
    let [steps, batch, input] = [shape[0], shape[1], shape[2]];
    let size = operands[op.recurrent].shape()[2];
    let (directions, gates) = (op.direction.count(), op.cell.gates());
    let (src, weight, recurrent) = (numbers(op.src), numbers(op.weight), numbers(op.recurrent));
    let (bias, peephole) = (given(op.bias), given(op.peephole));
    let (first_hidden, first_cell) = (given(op.hidden), given(op.cell_state));
    let lengths = given(op.lengths);
    let mut dst = vec![Near::default(); steps * directions * batch * size];
    let (mut last_hidden, mut last_cell) = (Vec::new(), Vec::new());
    for direction in 0..directions {
        let backwards = direction == 1 || op.direction == Direction::Reverse;
        let bias_of = |row: usize| {
            let bias = bias
                .as_ref()
                .map(|bias| bias[direction * 2 * gates * size + row]);
            Near::exact(bias.unwrap_or(0.0))
        };
        let peep = |gate: usize, index: usize| {
            let at = (direction * 3 + gate) * size + index;
            Near::exact(peephole.as_ref().map_or(0.0, |peephole| peephole[at]))
        };
        for sequence in 0..batch {
            let at = (direction * batch + sequence) * size;
            let begin = |given: &Option<Vec<f64>>| -> Vec<Near> {
                let value = |index| given.as_ref().map_or(0.0, |given| given[at + index]);
                (0..size).map(|index| Near::exact(value(index))).collect()
            };
            let (mut hidden, mut cell) = (begin(&first_hidden), begin(&first_cell));
            let length = lengths.as_ref().map_or(steps, |lengths| {
                (lengths[sequence].max(0.0) as usize).min(steps)
            });
            for step in 0..length {
                let step = if backwards { length - 1 - step } else { step };
                let row = (step * batch + sequence) * input;
                let x: Vec<Near> = src[row..row + input]
                    .iter()
                    .map(|&x| Near::exact(x))
                    .collect();
                let row_of =
                    |gate: usize, index: usize| direction * gates * size + gate * size + index;
                let seen = |gate: usize, index: usize| {
                    let row = row_of(gate, index);
                    dot(&weight[row * input..][..input], &x).plus(bias_of(gate * size + index))
                };
                let recalled = |gate: usize, index: usize, state: &[Near]| {
                    let row = row_of(gate, index);
                    dot(&recurrent[row * size..][..size], state)
                        .plus(bias_of((gates + gate) * size + index))
                };
                let sum = |gate, index| seen(gate, index).plus(recalled(gate, index, &hidden));
                let next: Vec<(Near, Near)> = (0..size)
                    .map(|index| match op.cell {
                        Cell::Tanh => (sum(0, index).tanh(), Near::default()),
                        Cell::Relu => (sum(0, index).relu(), Near::default()),
                        Cell::Gru { reset_after } => {
                            let update = sum(0, index).sigmoid();
                            let reset = |index| sum(1, index).sigmoid();
                            let part = if reset_after {
                                reset(index).times(recalled(2, index, &hidden))
                            } else {
                                let state: Vec<Near> =
                                    (0..size).map(|k| reset(k).times(hidden[k])).collect();
                                recalled(2, index, &state)
                            };
                            let new = seen(2, index).plus(part).tanh();
                            let kept = Near {
                                value: 1.0 - update.value,
                                error: update.error,
                            };
                            (
                                kept.times(new).plus(update.times(hidden[index])),
                                Near::default(),
                            )
                        }
                        Cell::Lstm => {
                            let peeping = |gate, index, cell: Near| {
                                sum(gate, index).plus(peep(gate, index).times(cell))
                            };
                            let i = peeping(0, index, cell[index]).sigmoid();
                            let f = peeping(2, index, cell[index]).sigmoid();
                            let g = sum(3, index).tanh();
                            let next = f.times(cell[index]).plus(i.times(g));
                            let o = peeping(1, index, next).sigmoid();
                            (o.times(next.tanh()), next)
                        }
                    })
                    .collect();
                (hidden, cell) = next.into_iter().unzip();
                let row = ((step * directions + direction) * batch + sequence) * size;
                dst[row..row + size].copy_from_slice(&hidden);
            }
            last_hidden.extend(hidden);
            last_cell.extend(cell);
        }
    }
    let expected = |values: Vec<Near>| values.into_iter().map(Near::expected).collect();
    let mut results = vec![(op.dst, expected(dst))];
    results.extend(
        op.last_hidden
            .map(|operand| (operand, expected(last_hidden))),
    );
    results.extend(op.last_cell.map(|operand| (operand, expected(last_cell))));
    results
}
