//! Scaled dot-product attention.

use streampool_device::{Attention, DType};

use super::expected::{Expected, broadcast};
use crate::num::Num;
use crate::operand::Operand;

/// `softmax(cap(scale * query @ keyᵀ) + mask) @ value`; zeros where no key may be attended to.
pub(super) fn attention(op: &Attention<usize>, operands: &[Operand]) -> Vec<Expected> {
    let numbers = |operand: usize| -> Vec<f64> {
        let values = operands[operand].values();
        values.iter().map(|value| value.float()).collect()
    };
    let (query, key, value) = (numbers(op.query), numbers(op.key), numbers(op.value));
    let sizes = |operand: usize| {
        let shape = operands[operand].shape();
        [shape[0], shape[1], shape[2], shape[3]]
    };
    let [batch, heads, queries, width] = sizes(op.query);
    let [_, key_heads, keys, value_width] = sizes(op.value);
    let shape = [batch, heads, queries, keys];
    let mask = op.mask.map(|mask| {
        let from = &operands[mask];
        let place = broadcast(from.shape(), &shape);
        (from.dtype == DType::Bool, from.values(), place)
    });
    let mut results = Vec::new();
    for row in 0..batch * heads * queries {
        let (head, i) = (row / queries, row % queries);
        let shared = head / heads * key_heads + head % heads / (heads / key_heads);
        // The key, its score, and the magnitude of what the score was summed from.
        let mut scores: Vec<(usize, f64, f64)> = Vec::new();
        let mut may_attend = false;
        for j in 0..keys {
            if op
                .causal
                .is_some_and(|distance| j as i64 > distance.saturating_add(i as i64))
            {
                continue;
            }
            let products = (0..width)
                .map(|k| query[row * width + k] * key[(shared * keys + j) * width + k] * op.scale);
            let (mut score, mut size) = products.fold((0.0, 0.0), |(sum, size), product| {
                (sum + product, size + product.abs())
            });
            if op.softcap != 0.0 {
                score = op.softcap * (score / op.softcap).tanh();
            }
            may_attend |= mask.is_none();
            if let Some((keeps, values, place)) = &mask {
                let value = values[place[row * keys + j]].float();
                may_attend |= *keeps && value != 0.0 || !*keeps && value != f64::NEG_INFINITY;
                match (*keeps, value) {
                    (true, 0.0) => continue,
                    (true, _) => {}
                    (false, added) => {
                        score += added;
                        size += if added.is_finite() { added.abs() } else { 0.0 };
                    }
                }
            }
            scores.push((j, score, size));
        }
        let top = scores
            .iter()
            .map(|score| score.1)
            .fold(f64::NEG_INFINITY, f64::max);
        let none = !may_attend && scores.iter().all(|score| !score.1.is_nan());
        let weight = |score: f64| (score - top).exp();
        let sum: f64 = scores.iter().map(|score| weight(score.1)).sum();
        for column in 0..value_width {
            let (mut result, mut size) = (0.0, 0.0);
            for &(j, score, from) in scores.iter().filter(|_| !none) {
                let part = weight(score) / sum * value[(shared * keys + j) * value_width + column];
                result += part;
                // An infinite score of another sign weighs nothing.
                size += if part == 0.0 {
                    0.0
                } else {
                    part.abs() * (4.0 + from)
                };
            }
            results.push(Expected {
                value: Num::Float(result),
                scale: if result.is_finite() { size } else { 0.0 },
            });
        }
    }
    results
}
