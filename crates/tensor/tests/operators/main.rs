//! What operators over whole tensors do: products, layers, windows, indices, order, random numbers, matrices, counts.

mod attention;
#[path = "../common/mod.rs"]
mod common;
mod concurrent;
mod faults;
mod index;
mod linalg;
mod norm;
mod order;
mod product;
mod random;
mod recurrent;
mod recurrent_steps;
mod sizes;
mod spatial;
mod sums;
mod tally;

use common::Rng;
use streampool_tensor::{DType, Pool, Result, Tensor};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Small whole numbers: what is computed of a few of them is exact in every type.
fn whole(pool: &Pool, shape: &[usize], seed: u64, dtype: DType) -> Tensor {
    let mut choices = Rng::new(seed);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| choices.between(-3, 3) as f32)
        .collect();
    let values = Tensor::from_slice(pool, &values, shape).unwrap();
    values.to_dtype(dtype).unwrap()
}

/// Numbers from -2 to 2.
fn real(pool: &Pool, shape: &[usize], seed: u64) -> Tensor {
    let mut choices = Rng::new(seed);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| choices.between(-2000, 2000) as f32 / 1000.0)
        .collect();
    Tensor::from_slice(pool, &values, shape).unwrap()
}

fn indices(pool: &Pool, values: &[i64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(pool, values, shape).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().to_vec().unwrap()
}

#[track_caller]
fn assert_near(got: &Tensor, expected: &[f64], tolerance: f64) {
    let got = values(got);
    assert_eq!(got.len(), expected.len());
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        let near = (got - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(
            near || got == expected || (got.is_nan() && expected.is_nan()),
            "element {place}: {got}, expected {expected}"
        );
    }
}

/// What an operator says of arguments that it refuses.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.map_err(|error| error.to_string()).unwrap_err()
}

/// That operators refuse what does not fit with messages that begin like this.
#[track_caller]
fn assert_refused<T: std::fmt::Debug, const N: usize>(cases: [(Result<T>, &str); N]) {
    for (result, expected) in cases {
        let got = refusal(result);
        assert!(got.starts_with(expected), "{got}\n{expected}");
    }
}
