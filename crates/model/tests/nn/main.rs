//! Layers against what they are made of, and against formulas written down once more.

mod attention;
#[path = "../support/device.rs"]
mod device;
mod layers;
mod recurrent;
mod round_trip;
mod weights;

use streampool_model::nn::Weights;
use streampool_tensor::{DType, Generator, Pool, Result, Tensor};

fn pool() -> Pool {
    device::pool().expect("a device")
}

fn random(pool: &Pool) -> Weights {
    Weights::random(&Generator::new(5), pool)
}

/// Normally distributed floats.
fn normal(pool: &Pool, seed: u64, shape: &[usize]) -> Tensor {
    let mut generator = Generator::new(seed);
    generator.normal(pool, shape, 0.0, 1.0, DType::F32).unwrap()
}

#[track_caller]
fn assert_near(got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len());
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        let allowed = tolerance * (1.0 + expected.abs());
        assert!(
            (got - expected).abs() <= allowed,
            "{got} at {place}, expected {expected}"
        );
    }
}

#[track_caller]
fn assert_same(got: &Tensor, expected: &Tensor) {
    assert_eq!(got.shape(), expected.shape());
    assert_near(
        &got.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(),
        &expected
            .to_dtype(DType::F32)
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        2e-5,
    );
}

/// What the error says.
#[track_caller]
fn refused<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("this has to fail"),
        Err(error) => error.to_string(),
    }
}
