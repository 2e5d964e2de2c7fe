//! Random numbers that anybody can have again.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use streampool::tensor::Generator;

use crate::devices::pool;
use crate::errors::invalid;
use crate::tensor::{Tensor, named_dtype, on_chosen};

/// What random numbers come next, in this process.
static NEXT: Mutex<Generator> = Mutex::new(Generator::new(0));

fn next() -> std::sync::MutexGuard<'static, Generator> {
    NEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the random numbers of this process anew.
#[pyfunction]
pub fn manual_seed(seed: u64) {
    *next() = Generator::new(seed);
}

/// Where the random numbers of this process stand.
#[pyfunction]
pub fn get_rng_state(py: Python<'_>) -> Bound<'_, PyBytes> {
    let (seed, offset) = {
        let now = next();
        (now.seed(), now.offset())
    };
    PyBytes::new(py, &[seed.to_le_bytes(), offset.to_le_bytes()].concat())
}

/// Goes back, or on, to a state that `get_rng_state` gave.
#[pyfunction]
pub fn set_rng_state(py: Python<'_>, state: &[u8]) -> PyResult<()> {
    let (Ok(seed), Ok(offset)) = (
        state[..state.len().min(8)].try_into(),
        state[state.len().min(8)..].try_into(),
    ) else {
        return Err(invalid(
            py,
            format!(
                "state has {} bytes, expected the 16 of get_rng_state",
                state.len()
            ),
        ));
    };
    *next() = Generator::at(u64::from_le_bytes(seed), u64::from_le_bytes(offset));
    Ok(())
}

/// Random numbers: `"uniform"` from 0 to 1, or `"normal"`.
#[pyfunction]
pub fn draw(
    py: Python<'_>,
    how: &str,
    shape: Vec<usize>,
    device: &str,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<Tensor> {
    let dtype = named_dtype(dtype)?;
    let pool = pool(py, device)?;
    on_chosen(py, &pool, || {
        let mut numbers = next();
        match how {
            "normal" => numbers.normal(&pool, &shape, 0.0, 1.0, dtype),
            _ => numbers.uniform(&pool, &shape, 0.0, 1.0, dtype),
        }
    })
    .map(Tensor)
}
