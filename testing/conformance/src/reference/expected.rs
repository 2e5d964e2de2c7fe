//! What an element has to be, and what the ops' references share.

use streampool_device::{DType, Scalar};

use crate::num::Num;

/// What one element has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The true value, not yet rounded to the element's type.
    pub(crate) value: Num,
    /// The magnitude of what it was computed from: rounding errors are a part of it. Zero asks for the
    /// exact value.
    pub(crate) scale: f64,
}

impl Expected {
    pub(crate) fn exact(value: Num) -> Expected {
        Expected { value, scale: 0.0 }
    }
}

/// A sum as exact as if it were rounded once. Of many numbers of one size, each of which rounds the same way, a plain sum is further
/// from it than what is compared with it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    plain: f64,
    sum: f64,
    lost: f64,
}

impl Total {
    pub(crate) fn add(&mut self, value: f64) {
        self.plain += value;
        let next = self.sum + value;
        self.lost += match self.sum.abs() >= value.abs() {
            true => (self.sum - next) + value,
            false => (value - next) + self.sum,
        };
        self.sum = next;
    }

    pub(crate) fn value(self) -> f64 {
        // What was lost of an infinity is no number.
        match (self.sum + self.lost).is_finite() {
            true => self.sum + self.lost,
            false => self.plain,
        }
    }
}

/// The sum of all.
pub(crate) fn total(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut total = Total::default();
    values.into_iter().for_each(|value| total.add(value));
    total.value()
}

/// A constant in the type it is used with.
pub(crate) fn constant(value: Scalar, dtype: DType) -> Num {
    if dtype == DType::Bool {
        Num::Int(i128::from(value.to_bool()))
    } else if dtype.is_float() {
        Num::Float(value.to_f64()).cast(dtype)
    } else {
        match value {
            Scalar::Float(value) => Num::Float(value).cast(dtype),
            other => Num::whole(other.to_i64()).cast(dtype),
        }
    }
}

/// For each index of `to`, the row-major number of the element of `from` that broadcasts to it.
pub(crate) fn broadcast(from: &[usize], to: &[usize]) -> Vec<usize> {
    let lead = to.len() - from.len();
    (0..to.iter().product())
        .map(|index: usize| {
            let (mut rest, mut number, mut step) = (index, 0, 1);
            for axis in (0..to.len()).rev() {
                let at = rest % to[axis];
                rest /= to[axis];
                if axis >= lead {
                    let size = from[axis - lead];
                    number += if size == 1 { 0 } else { at * step };
                    step *= size;
                }
            }
            number
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_of_a_long_sum() {
        let count = 1 << 16;
        let third = || std::iter::repeat_n(1.0 / 3.0, count);
        // Exact: only the exponent differs.
        assert_eq!(total(third()), 1.0 / 3.0 * count as f64);
        assert_ne!(third().sum::<f64>(), 1.0 / 3.0 * count as f64);
        assert_eq!(total([1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!(total([1.0, f64::INFINITY]), f64::INFINITY);
        assert!(total([f64::NEG_INFINITY, f64::INFINITY]).is_nan());
    }

    #[test]
    fn broadcasting_repeats_ones_and_missing_dimensions() {
        assert_eq!(broadcast(&[2, 1], &[2, 3]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(broadcast(&[3], &[2, 3]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(broadcast(&[], &[2]), [0, 0]);
        assert!(broadcast(&[1], &[0]).is_empty());
    }
}
