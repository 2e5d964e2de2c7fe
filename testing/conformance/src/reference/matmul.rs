//! Matrix product with its epilogue.

use streampool_device::MatMul;

use super::expected::{Expected, Total, broadcast};
use super::map::activation;
use crate::num::{Num, wrapped};
use crate::operand::Operand;

/// `activation(alpha * a @ b + bias)`.
pub(super) fn matmul(op: &MatMul<usize>, operands: &[Operand]) -> Vec<Expected> {
    let (a, b, out) = (&operands[op.a], &operands[op.b], &operands[op.out]);
    let lead = |shape: &[usize]| shape[..shape.len() - 2].to_vec();
    let (rank, depth) = (out.shape().len(), a.shape()[a.shape().len() - 1]);
    let (rows, columns) = (out.shape()[rank - 2], out.shape()[rank - 1]);
    let batch = lead(out.shape());
    let (a_batch, b_batch) = (
        broadcast(&lead(a.shape()), &batch),
        broadcast(&lead(b.shape()), &batch),
    );
    let (a_values, b_values) = (a.values(), b.values());
    let bias = op.bias.map(|bias| {
        let values = operands[bias].values();
        let numbers = broadcast(operands[bias].shape(), out.shape());
        numbers
            .into_iter()
            .map(|number| values[number])
            .collect::<Vec<Num>>()
    });
    (0..out.layout.elements())
        .map(|index| {
            let (column, row) = (index % columns, index / columns % rows);
            let batch = index / columns / rows;
            let pairs = (0..depth).map(|k| {
                let left = a_values[(a_batch[batch] * rows + row) * depth + k];
                let right = b_values[(b_batch[batch] * depth + k) * columns + column];
                (left, right)
            });
            let bias = bias.as_ref().map(|bias| bias[index]);
            if out.dtype.is_float() {
                float_element(op, pairs, bias)
            } else {
                let sum = pairs.fold(0i128, |sum, (left, right)| {
                    sum.wrapping_add(left.int().wrapping_mul(right.int()))
                });
                let value = sum.wrapping_add(bias.map_or(0, Num::int));
                Expected::exact(Num::Int(wrapped(out.dtype, value)))
            }
        })
        .collect()
}

fn float_element(
    op: &MatMul<usize>,
    pairs: impl Iterator<Item = (Num, Num)>,
    bias: Option<Num>,
) -> Expected {
    let (mut sum, mut magnitude) = (Total::default(), 0.0);
    for (left, right) in pairs {
        let product = left.float() * right.float();
        sum.add(product);
        magnitude += product.abs();
    }
    let bias = bias.map_or(0.0, Num::float);
    let value = activation(op.activation, op.alpha * sum.value() + bias);
    // No activation is steeper than about 1.13.
    let scale = 1.2 * (op.alpha.abs() * magnitude + bias.abs());
    Expected {
        value: Num::Float(value),
        scale: if scale.is_finite() { scale } else { 0.0 },
    }
}
