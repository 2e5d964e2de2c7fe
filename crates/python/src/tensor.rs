//! Tensors with operators, as NumPy's arrays have them.

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PySlice};
use streampool::device::{DType, Scalar};
use streampool::{Array, Pool, Tensor as Inner};

use crate::arrays::{dtype_name, to_array};
use crate::errors::{invalid, raise};
use crate::streams::chosen;

/// Numbers on a device, with operators that run on the current stream and do not wait.
#[pyclass(frozen, module = "streampool")]
pub struct Tensor(pub Inner);

/// The other operand of an operator.
pub enum Other {
    Tensor(Inner),
    Number(Scalar),
}

pub fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    Ok(if let Ok(value) = value.cast::<PyBool>() {
        Some(value.is_true().into())
    } else if value.is_instance_of::<PyInt>() {
        Some(value.extract::<i64>()?.into())
    } else if value.is_instance_of::<PyFloat>() {
        Some(value.extract::<f64>()?.into())
    } else {
        None
    })
}

/// The type that holds the values of both, as NumPy has it.
pub fn promoted(py: Python<'_>, a: DType, b: DType) -> PyResult<DType> {
    if a == b {
        return Ok(a);
    }
    let wide = |dtype| {
        if dtype == DType::BF16 {
            DType::F32
        } else {
            dtype
        }
    };
    let names = (dtype_name(wide(a)), dtype_name(wide(b)));
    let found = py.import("numpy")?.call_method1("promote_types", names)?;
    dtype_of(py, &found.getattr("name")?.extract::<String>()?)
}

/// The type of this name of NumPy's.
pub fn dtype_of(py: Python<'_>, name: &str) -> PyResult<DType> {
    let short = match name {
        "f16" | "half" => "float16",
        "bf16" => "bfloat16",
        "f32" | "float" => "float32",
        "f64" | "double" => "float64",
        other => other,
    };
    let found = DType::ALL
        .into_iter()
        .find(|dtype| dtype_name(*dtype) == short);
    found.ok_or_else(|| {
        invalid(
            py,
            format!("{name:?} is no type of numbers that is supported"),
        )
    })
}

pub fn named_dtype(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = value.py();
    if let Ok(name) = value.extract::<std::borrow::Cow<'_, str>>() {
        return dtype_of(py, &name);
    }
    let dtype = py.import("numpy")?.call_method1("dtype", (value,))?;
    dtype_of(py, &dtype.getattr("name")?.extract::<String>()?)
}

impl Tensor {
    /// Runs `work`, which encodes, on the stream that the thread or the task has chosen.
    pub fn made(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Inner) -> streampool::tensor::Result<Inner> + Send,
    ) -> PyResult<Tensor> {
        on_chosen(py, self.0.pool(), || work(&self.0)).map(Tensor)
    }

    /// Both operands in one type. `truly` says that whole numbers become floats.
    pub fn with(
        &self,
        other: &Bound<'_, PyAny>,
        truly: bool,
        work: impl FnOnce(&Inner, streampool::tensor::Other<'_>) -> streampool::tensor::Result<Inner>
        + Send,
    ) -> PyResult<Tensor> {
        let py = other.py();
        let (mut dtype, other) = match number(other)? {
            Some(value) => {
                let own = self.0.dtype();
                let dtype = match (value, own) {
                    (Scalar::Float(_), own) if !own.is_float() => DType::F64,
                    (Scalar::Int(_), DType::Bool) => DType::I64,
                    (_, own) => own,
                };
                (dtype, Other::Number(value))
            }
            None => {
                let other = self.tensor_like(other)?;
                (
                    promoted(py, self.0.dtype(), other.dtype())?,
                    Other::Tensor(other),
                )
            }
        };
        if truly && !dtype.is_float() {
            dtype = DType::F64;
        }
        on_chosen(py, self.0.pool(), || {
            let own = self.0.to_dtype(dtype)?;
            match &other {
                Other::Number(number) => work(&own, (*number).into()),
                Other::Tensor(other) => {
                    let other = other.to_dtype(dtype)?;
                    work(&own, (&other).into())
                }
            }
        })
        .map(Tensor)
    }

    /// A tensor, or what can be made one beside this.
    pub fn tensor_like(&self, value: &Bound<'_, PyAny>) -> PyResult<Inner> {
        let py = value.py();
        if let Ok(tensor) = value.cast::<Tensor>() {
            return Ok(tensor.get().0.clone());
        }
        let array = to_array(value, None)?;
        on_chosen(py, self.0.pool(), || array.tensor(self.0.pool()))
    }

    pub fn axes(&self, axis: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<isize>> {
        match axis {
            None => Ok((0..self.0.rank() as isize).collect()),
            Some(axis) => match axis.extract::<isize>() {
                Ok(axis) => Ok(vec![axis]),
                Err(_) => axis.extract(),
            },
        }
    }

    pub fn array(&self, py: Python<'_>) -> PyResult<Array> {
        let array = py.detach(|| Array::of(&self.0));
        array.map_err(|error| raise(py, streampool::Error::from(error)))
    }

    /// One index of several: the result, and whether the axis is still there.
    pub fn indexed(inner: Inner, axis: isize, index: &Bound<'_, PyAny>) -> PyResult<(Inner, bool)> {
        let py = index.py();
        let size = inner.shape()[axis as usize] as isize;
        let failed = |error| raise(py, streampool::Error::from(error));
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(size)?;
            let (start, stop, step) = (range.start, range.stop, range.step);
            let cut = match (range.slicelength, step > 0) {
                (0, _) => inner.narrow(axis, 0, 0),
                (_, true) => inner.slice(axis, start..stop, step),
                (_, false) => inner
                    .narrow(axis, (stop + 1) as usize, (start - stop) as usize)
                    .and_then(|part| part.slice(axis, .., step)),
            };
            return Ok((cut.map_err(failed)?, true));
        }
        if !index.is_instance_of::<PyBool>()
            && let Ok(place) = index.extract::<isize>()
        {
            if !(-size..size).contains(&place) {
                let why = format!("index {place} is out of bounds for axis {axis} of size {size}");
                return Err(PyIndexError::new_err(why));
            }
            return Ok((inner.select(axis, place).map_err(failed)?, false));
        }
        let indices = match index.cast::<Tensor>() {
            Ok(tensor) => tensor.get().0.clone(),
            Err(_) => {
                let array = to_array(index, Some(DType::I64))?;
                array.tensor(inner.pool()).map_err(failed)?
            }
        };
        if indices.rank() != 1 || indices.dtype() == DType::Bool {
            let why = "a tensor is indexed by numbers, slices, None, ... and lists of whole numbers; masked_select takes a mask";
            return Err(PyTypeError::new_err(why));
        }
        Ok((inner.index_select(axis, &indices).map_err(failed)?, true))
    }
}

pub fn on_chosen<R: Send, E: Into<streampool::Error> + Send>(
    py: Python<'_>,
    pool: &Pool,
    work: impl FnOnce() -> Result<R, E> + Send,
) -> PyResult<R> {
    let done = match chosen(py, pool)? {
        None => py.detach(|| work().map_err(Into::into)),
        Some(stream) => py.detach(|| match pool.with_stream(&stream, work) {
            Ok(done) => done.map_err(Into::into),
            Err(error) => Err(streampool::Error::from(error)),
        }),
    };
    done.map_err(|error| raise(py, error))
}
