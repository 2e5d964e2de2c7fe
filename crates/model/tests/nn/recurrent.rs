//! Recurrent layers against PyTorch's formulas, element by element.

use std::collections::BTreeMap;

use streampool_model::nn::{Gru, Lstm, Module, RecurrentLayer, RecurrentOptions, Weights};
use streampool_tensor::Tensor;

use crate::{assert_near, assert_same, normal, pool, random, refused};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Stored floats by name, and one cell of PyTorch's recurrent layers over them.
struct Cells<'a> {
    stored: &'a BTreeMap<String, Vec<f32>>,
    hidden: usize,
    lstm: bool,
}

impl Cells<'_> {
    /// `W x + b` of the weights `name` of one layer.
    fn product(&self, name: &str, layer: &str, x: &[f64]) -> Vec<f64> {
        let weight = &self.stored[&format!("weight_{name}_{layer}")];
        let bias = self.stored.get(&format!("bias_{name}_{layer}"));
        let rows = weight.chunks(x.len()).enumerate();
        rows.map(|(row, weights)| {
            let sum: f64 = weights.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum();
            sum + bias.map_or(0.0, |bias| f64::from(bias[row]))
        })
        .collect()
    }

    /// The states after each step, and the last cell.
    fn states(&self, layer: &str, xs: &[Vec<f64>]) -> (Vec<Vec<f64>>, Vec<f64>) {
        let n = self.hidden;
        let (mut h, mut c) = (vec![0.0; n], vec![0.0; n]);
        let mut states = Vec::new();
        for x in xs {
            let (a, b) = (self.product("ih", layer, x), self.product("hh", layer, &h));
            for i in 0..n {
                let gate = |g: usize| a[g * n + i] + b[g * n + i];
                if self.lstm {
                    c[i] = sigmoid(gate(1)) * c[i] + sigmoid(gate(0)) * gate(2).tanh();
                    h[i] = sigmoid(gate(3)) * c[i].tanh();
                } else {
                    let (r, z) = (sigmoid(gate(0)), sigmoid(gate(1)));
                    let new = (a[2 * n + i] + r * b[2 * n + i]).tanh();
                    h[i] = (1.0 - z) * new + z * h[i];
                }
            }
            states.push(h.clone());
        }
        (states, c)
    }

    /// What the last of `layers` gives, in both directions if so said.
    fn run(&self, mut xs: Vec<Vec<f64>>, layers: usize, both: bool) -> Vec<f32> {
        for layer in 0..layers {
            let forward = self.states(&format!("l{layer}"), &xs).0;
            xs.reverse();
            let mut reverse = match both {
                true => self.states(&format!("l{layer}_reverse"), &xs).0,
                false => vec![Vec::new(); xs.len()],
            };
            reverse.reverse();
            let pairs = forward.into_iter().zip(reverse);
            xs = pairs.map(|(a, b)| [a, b].concat()).collect();
        }
        xs.concat().into_iter().map(|x| x as f32).collect()
    }
}

#[test]
fn recurrent_layers_are_pytorchs() {
    let pool = pool();
    let (features, hidden, steps) = (3, 4, 5);
    for (lstm, both, layers, bias) in [
        (true, false, 1, true),
        (true, true, 2, true),
        (true, false, 2, false),
        (false, false, 1, true),
        (false, true, 2, true),
        (false, true, 1, false),
    ] {
        let rows = hidden * if lstm { 4 } else { 3 };
        let mut tensors = Vec::new();
        for layer in 0..layers {
            for suffix in &["", "_reverse"][..1 + usize::from(both)] {
                let read = match layer {
                    0 => features,
                    _ => hidden * (1 + usize::from(both)),
                };
                let at = format!("l{layer}{suffix}");
                let mut add = |name: &str, shape: &[usize]| {
                    let tensor = normal(&pool, 20 + tensors.len() as u64, shape);
                    tensors.push((format!("{name}_{at}"), tensor));
                };
                add("weight_ih", &[rows, read]);
                add("weight_hh", &[rows, hidden]);
                if bias {
                    add("bias_ih", &[rows]);
                    add("bias_hh", &[rows]);
                }
            }
        }
        let values = |(name, tensor): &(String, Tensor)| (name.clone(), tensor.to_vec().unwrap());
        let stored = tensors.iter().map(values).collect();
        let weights = Weights::from_tensors(tensors, &pool);
        let options = RecurrentOptions {
            layers,
            bidirectional: both,
            bias,
            batch_first: false,
        };
        let x = normal(&pool, 12, &[steps, 2, features]);
        let y = match lstm {
            true => Lstm::new(&weights, features, hidden, &options)
                .unwrap()
                .forward(&x),
            false => Gru::new(&weights, features, hidden, &options)
                .unwrap()
                .forward(&x),
        };
        let y = y.unwrap();
        assert_eq!(weights.unused(), [""; 0]);
        assert_eq!(y.shape(), [steps, 2, hidden * (1 + usize::from(both))]);
        let cells = Cells {
            stored: &stored,
            hidden,
            lstm,
        };
        for batch in 0..2 {
            let own = x.select(1, batch).unwrap().to_vec::<f32>().unwrap();
            let own = own.chunks(features);
            let own = own.map(|x| x.iter().map(|&x| f64::from(x)).collect());
            let expected = cells.run(own.collect(), layers, both);
            let got = y.select(1, batch).unwrap().to_vec::<f32>().unwrap();
            assert_near(&got, &expected, 1e-5);
        }
    }
}

#[test]
fn recurrent_states_carry_on() {
    let pool = pool();
    let weights = random(&pool);
    let options = RecurrentOptions {
        layers: 2,
        batch_first: true,
        ..RecurrentOptions::default()
    };
    let x = normal(&pool, 13, &[3, 6, 4]);
    let (early, late) = (x.narrow(1, 0, 2).unwrap(), x.narrow(1, 2, 4).unwrap());
    let lstm = Lstm::new(&weights.at("lstm"), 4, 5, &options).unwrap();
    let (whole, end) = lstm.run(&x, None).unwrap();
    assert_eq!(whole.shape(), [3, 6, 5]);
    let (_, state) = lstm.run(&early, None).unwrap();
    let (rest, last) = lstm.run(&late, Some(&state)).unwrap();
    assert_same(&rest, &whole.narrow(1, 2, 4).unwrap());
    assert_same(&last.cell, &end.cell);
    assert_same(&last.hidden, &end.hidden);

    let gru = Gru::new(&weights.at("gru"), 4, 5, &options).unwrap();
    let (whole, end) = gru.run(&x, None).unwrap();
    let (_, state) = gru.run(&early, None).unwrap();
    let (rest, last) = gru.run(&late, Some(&state)).unwrap();
    assert_same(&rest, &whole.narrow(1, 2, 4).unwrap());
    assert_same(&last, &end);
    assert_eq!(end.shape(), [2, 3, 5]);

    let error = refused(gru.run(&x, Some(&state.narrow(0, 0, 1).unwrap())));
    assert!(error.contains("Gru: hidden has shape [1, 3, 5]"), "{error}");
    let error = refused(lstm.forward(&x.select(0, 0).unwrap()));
    assert!(error.contains("[batch, steps, features]"), "{error}");

    // Layers as the operator takes them are saved as PyTorch has them, too.
    let layer = |place: u64, read| RecurrentLayer {
        input: normal(&pool, place, &[1, 15, read]),
        recurrent: normal(&pool, place + 1, &[1, 15, 5]),
        bias: Some(normal(&pool, place + 2, &[1, 30])),
    };
    let gru = Gru::from_layers(vec![layer(20, 4), layer(30, 5)], true).unwrap();
    let stored = Weights::from_tensors(gru.parameters().unwrap(), &pool);
    let again = Gru::new(&stored, 4, 5, &options).unwrap();
    assert_eq!(stored.unused(), [""; 0]);
    assert_same(&again.forward(&x).unwrap(), &gru.forward(&x).unwrap());
}
