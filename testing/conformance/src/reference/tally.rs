//! Counts per bin, and places of what is not zero.

use streampool_device::{Histogram, NonZero};

use super::expected::{Expected, Total};
use super::index::place;
use crate::num::Num;
use crate::operand::Operand;

/// How many elements lie in each bin, or the sum of their weights.
pub(super) fn histogram(op: &Histogram<usize>, operands: &[Operand]) -> Vec<Expected> {
    let bins = operands[op.dst].layout.elements();
    let weights = op.weights.map(|weights| operands[weights].values());
    let (mut counts, mut sums) = (vec![0i128; bins], vec![(Total::default(), 0.0); bins]);
    for (element, value) in operands[op.src].values().into_iter().enumerate() {
        let value = value.float();
        if value >= op.low && value <= op.high {
            let bin = ((value - op.low) / (op.high - op.low) * bins as f64) as usize;
            let bin = bin.min(bins - 1);
            let weight = weights
                .as_ref()
                .map_or(0.0, |weights| weights[element].float());
            counts[bin] += 1;
            sums[bin].0.add(weight);
            sums[bin].1 += weight.abs();
        }
    }
    match weights {
        None => counts
            .into_iter()
            .map(|count| Expected::exact(Num::Int(count)))
            .collect(),
        Some(_) => sums
            .into_iter()
            .map(|(sum, scale)| Expected {
                value: Num::Float(sum.value()),
                scale,
            })
            .collect(),
    }
}

/// The places in columns, minus one behind them; and how many there are.
pub(super) fn nonzero(op: &NonZero<usize>, operands: &[Operand]) -> [Vec<Expected>; 2] {
    let src = &operands[op.src];
    let (rank, elements) = (src.shape().len(), src.layout.elements());
    let mut indices = vec![Expected::exact(Num::whole(-1)); rank * elements];
    let mut count = 0;
    for (element, value) in src.values().into_iter().enumerate() {
        if value.is_true() {
            for (axis, at) in place(element, src.shape()).into_iter().enumerate() {
                indices[axis * elements + count] = Expected::exact(Num::Int(at as i128));
            }
            count += 1;
        }
    }
    [indices, vec![Expected::exact(Num::Int(count as i128))]]
}
