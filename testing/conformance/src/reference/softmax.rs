//! Softmax and its logarithm.

use super::expected::{Expected, Total, broadcast};
use crate::num::Num;
use crate::operand::Operand;

/// Softmax of `src` along `axis`.
pub(super) fn softmax(src: &Operand, axis: usize, log: bool) -> Vec<Expected> {
    let shape = src.shape();
    let mut rows = shape.to_vec();
    rows[axis] = 1;
    let row_of = broadcast(&rows, shape);
    let values: Vec<f64> = src.values().iter().map(|value| value.float()).collect();
    let mut largest = vec![f64::NEG_INFINITY; rows.iter().product()];
    for (&value, &row) in values.iter().zip(&row_of) {
        largest[row] = largest[row].max(value);
    }
    let mut sums = vec![Total::default(); largest.len()];
    for (&value, &row) in values.iter().zip(&row_of) {
        sums[row].add((value - largest[row]).exp());
    }
    let sums: Vec<f64> = sums.into_iter().map(Total::value).collect();
    values
        .iter()
        .zip(&row_of)
        .map(|(&value, &row)| {
            let shifted = value - largest[row];
            if log {
                let result = shifted - sums[row].ln();
                Expected {
                    value: Num::Float(result),
                    scale: if result.is_finite() {
                        1.0 + value.abs() + largest[row].abs()
                    } else {
                        0.0
                    },
                }
            } else {
                let result = shifted.exp() / sums[row];
                Expected {
                    value: Num::Float(result),
                    // The exponent carries the rounding of a difference.
                    scale: if shifted.is_finite() {
                        result * (4.0 + shifted.abs())
                    } else {
                        0.0
                    },
                }
            }
        })
        .collect()
}
