//! Recurrent layers. PyTorch's gates lie in another order: input, forget, cell, output (LSTM); reset, update, new (GRU).

use streampool_tensor::{Direction, RnnOptions, RnnWeights, Tensor};

use crate::Reference;

const NEAR: f64 = 2e-5;

/// Weights or biases, along axis 1 as often as they are there, with their gates in the order `gates`.
fn reordered(weights: &Tensor, gates: &[isize], times: usize) -> Tensor {
    let count = gates.len() * times;
    let parts = weights.chunk(1, count).unwrap();
    let parts: Vec<&Tensor> = (0..times)
        .flat_map(|time| {
            gates
                .iter()
                .map(move |&gate| time * gates.len() + gate as usize)
        })
        .map(|place| &parts[place])
        .collect();
    Tensor::cat(&parts, 1).unwrap()
}

#[test]
fn layers() {
    let mut reference = Reference::open("recurrent");
    for (case, gates, direction) in [
        ("lstm", &[0, 3, 1, 2][..], Direction::Forward),
        ("lstm_both", &[0, 3, 1, 2], Direction::Both),
        ("gru", &[1, 0, 2], Direction::Forward),
        ("gru_both", &[1, 0, 2], Direction::Both),
        ("lengths", &[1, 0, 2], Direction::Both),
        ("tanh", &[0], Direction::Forward),
        ("relu", &[0], Direction::Both),
    ] {
        let x = reference.get(case, "x");
        let input = reordered(&reference.get(case, "input"), gates, 1);
        let recurrent = reordered(&reference.get(case, "recurrent"), gates, 1);
        let bias = reordered(&reference.get(case, "bias"), gates, 2);
        let weights = RnnWeights {
            input: &input,
            recurrent: &recurrent,
            bias: Some(&bias),
            peephole: None,
        };
        let optional = ["lengths", "first_hidden", "first_cell"];
        let [lengths, hidden, cell] = optional.map(|name| reference.find(case, name));
        let options = RnnOptions {
            direction,
            lengths: lengths.as_ref(),
            hidden: hidden.as_ref(),
            cell: cell.as_ref(),
            ..RnnOptions::default()
        };
        let result = match gates.len() {
            4 => x.lstm(&weights, &options),
            3 => x.gru(true, &weights, &options),
            _ => x.rnn(case == "relu", &weights, &options),
        };
        let result = result.unwrap();
        let [steps, directions, batch, size] = *result.states.shape() else {
            panic!("{case}: {:?}", result.states.shape());
        };
        // PyTorch has the directions side by side.
        let states = result.states.transpose(1, 2).unwrap();
        let states = states.reshape(&[steps, batch, directions * size]).unwrap();
        reference.assert_close(case, "states", &states, NEAR);
        reference.assert_close(case, "last_hidden", &result.hidden, NEAR);
        match result.cell {
            Some(cell) => reference.assert_close(case, "last_cell", &cell, NEAR),
            None => assert!(!case.starts_with("lstm")),
        }
    }
}
