//! Weights that callers give by name.

use std::collections::HashMap;

use numpy::{PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use streampool::device::{DType, DeviceKind};
use streampool::{Pool, Tensor};

use crate::arrays::{Library, dtype, library, row_major};
use crate::devices;
use crate::errors::{invalid, raise};
use crate::lent;
use crate::streams::current;
use crate::torch::{self, GpuTensor};

/// Smaller ones are copied: to keep an object of Python for each costs more.
const LARGE: usize = 1 << 12;

/// Weights for a session in `pool`. Floats stay where they are if they lie on its device, side by side and aligned. Others are
/// copied: whoever changes a number that is an index, against what was promised, is not to make a kernel read elsewhere.
pub fn weights_of(given: &Bound<'_, PyAny>, pool: &Pool) -> PyResult<HashMap<String, Tensor>> {
    let py = given.py();
    let gpu = torch::gpu(pool);
    let host = match pool.device().properties().kind {
        DeviceKind::Host => pool.clone(),
        _ => devices::pool(py, "host")?,
    };
    // A thread that has no stream yet may have to wait for one, and whoever has it may need Python's lock to end.
    for pool in [pool, &host] {
        current(py, pool)?;
    }
    let mut weights = HashMap::new();
    let mut on_gpu = Vec::new();
    for pair in given.cast::<PyMapping>()?.items()? {
        let (name, value): (String, Bound<'_, PyAny>) = pair.extract()?;
        let told = |error: PyErr| {
            let told = invalid(py, format!("weight {name:?}: {}", error.value(py)));
            told.set_cause(py, error.cause(py));
            told
        };
        // A parameter can be given other memory; a tensor that was made of it keeps what it had.
        let value = match library(&value)? {
            Library::Torch | Library::TorchOnGpu(_) => value.call_method0(intern!(py, "detach"))?,
            Library::NumPy | Library::Jax => value,
        };
        let there = gpu.map(|gpu| GpuTensor::of(&value, gpu)).transpose();
        match there.map_err(told)?.flatten() {
            Some(tensor) if tensor.dtype.is_float() => on_gpu.push((name, tensor)),
            _ => {
                let weight = on_host(&value, &host).map_err(told)?;
                weights.insert(name, weight);
            }
        }
    }
    if let Some(gpu) = gpu {
        weights.extend(torch::shared(py, on_gpu, gpu, pool)?);
    }
    Ok(weights)
}

fn on_host(value: &Bound<'_, PyAny>, pool: &Pool) -> PyResult<Tensor> {
    let py = value.py();
    // NumPy does not know this type of PyTorch's.
    let is_bf16 = library(value)? != Library::NumPy
        && value.getattr("dtype")?.to_string() == "torch.bfloat16";
    let array = match is_bf16 {
        true => {
            let bits = py.import("torch")?.getattr("int16")?;
            row_major(&value.call_method1("view", (bits,))?, None)?
        }
        false => row_major(value, None)?,
    };
    let dtype = match is_bf16 {
        true => Some(DType::BF16),
        false => dtype(&array),
    };
    let dtype = dtype.ok_or_else(|| {
        let why = format!(
            "an array of {} is not supported: give numbers or booleans",
            array.dtype()
        );
        invalid(py, why)
    })?;
    let bytes = array.call_method1(intern!(py, "reshape"), (-1,))?;
    let bytes = bytes.call_method1(intern!(py, "view"), ("uint8",))?;
    let bytes = bytes.cast_into::<PyArray1<u8>>()?;
    let failed = |error| raise(py, error);
    // What counts in a limit is to be memory of the pool's own.
    let stays = dtype.is_float() && bytes.len() >= LARGE && pool.settings().memory_limit.is_none();
    if stays
        && let Some(shared) =
            lent::tensor(bytes.to_dyn(), dtype, array.shape(), pool).map_err(failed)?
    {
        return Ok(shared);
    }
    let read = bytes
        .try_readonly()
        .map_err(|why| invalid(py, why.to_string()))?;
    let read = read
        .as_slice()
        .map_err(|why| invalid(py, why.to_string()))?;
    let shape = array.shape();
    let copied = py.detach(|| Tensor::from_bytes(pool, dtype, read, shape));
    copied.map_err(|error| failed(error.into()))
}
