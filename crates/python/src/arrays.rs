//! Arrays of Python, in and out.

use half::{bf16, f16};
use numpy::{
    PyArray1, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};
use streampool::device::DType;
use streampool::{Array, Pool, Tensor};

use crate::errors::{invalid, raise};
use crate::lent;
use crate::streams::current;
use crate::strings;

/// Runs `$body` with `$T` as the type of Rust that `$dtype` names; `$other` for those that NumPy lacks.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr, $other:expr) => {
        with_type!(@ $dtype, $T, $body, $other, F32 f32, F64 f64, F16 f16, BF16 bf16, I8 i8, I16 i16, I32 i32, I64 i64,
            U8 u8, U16 u16, U32 u32, U64 u64, Bool bool)
    };
    (@ $dtype:expr, $T:ident, $body:expr, $other:expr, $($name:ident $type:ty),*) => {
        match $dtype {
            $(DType::$name => {
                type $T = $type;
                $body
            })*
            #[allow(unreachable_patterns)]
            _ => $other,
        }
    };
}

/// The library whose arrays a caller gave, and gets.
#[derive(Clone, Copy, PartialEq)]
pub enum Library {
    /// NumPy.
    NumPy,
    /// PyTorch.
    Torch,
    /// PyTorch, on the GPU of this number.
    TorchOnGpu(i32),
    /// JAX.
    Jax,
}

fn numpy_module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.unbind()))?;
    Ok(module.bind(py))
}

/// Whose array this is.
pub fn library(value: &Bound<'_, PyAny>) -> PyResult<Library> {
    if value.cast::<PyUntypedArray>().is_ok() {
        return Ok(Library::NumPy);
    }
    let Ok(module) = value.get_type().module() else {
        return Ok(Library::NumPy);
    };
    match module.to_string_lossy().split('.').next() {
        Some("torch") => {}
        Some("jaxlib" | "jax") => return Ok(Library::Jax),
        _ => return Ok(Library::NumPy),
    }
    let py = value.py();
    let device = value.getattr(intern!(py, "device"))?;
    let kind: String = device.getattr(intern!(py, "type"))?.extract()?;
    match &*kind {
        "cuda" => Ok(Library::TorchOnGpu(
            device.getattr(intern!(py, "index"))?.extract()?,
        )),
        _ => Ok(Library::Torch),
    }
}

/// The type of the elements of an array of NumPy.
pub fn dtype(array: &Bound<'_, PyUntypedArray>) -> Option<DType> {
    let descr = array.dtype();
    Some(match (descr.kind(), descr.itemsize()) {
        (b'f', 4) => DType::F32,
        (b'f', 8) => DType::F64,
        (b'f', 2) => DType::F16,
        (b'i', 1) => DType::I8,
        (b'i', 2) => DType::I16,
        (b'i', 4) => DType::I32,
        (b'i', 8) => DType::I64,
        (b'u', 1) => DType::U8,
        (b'u', 2) => DType::U16,
        (b'u', 4) => DType::U32,
        (b'u', 8) => DType::U64,
        (b'b', 1) => DType::Bool,
        (b'V', 2) => DType::BF16,
        _ => return None,
    })
}

/// What a caller gave as an array.
pub enum Values {
    /// A copy of it.
    Copied(Array),
    /// It where it is.
    Lent(Tensor),
}

/// A copy of what a caller gives as an array: an array of NumPy, or what NumPy makes an array of. Numbers without a type of
/// their own, such as a list, become what is expected.
pub fn to_array(value: &Bound<'_, PyAny>, expected: Option<DType>) -> PyResult<Array> {
    match to_values(value, expected, None)? {
        Values::Copied(array) => Ok(array),
        Values::Lent(tensor) => Array::of(&tensor).map_err(|error| raise(value.py(), error)),
    }
}

/// The same; if it is many floats that programs of `pool` can read where they are, they are not copied.
pub fn to_values(
    value: &Bound<'_, PyAny>,
    expected: Option<DType>,
    pool: Option<&Pool>,
) -> PyResult<Values> {
    let py = value.py();
    let given = row_major(value, expected)?;
    if let Some(strings) = strings::of(given.as_any())? {
        return Ok(Values::Copied(strings));
    }
    // Types of `ml_dtypes` that have one byte or less, as 8-bit floats, are held in a wider one.
    let is_small = matches!(
        (given.dtype().kind(), given.dtype().itemsize()),
        (b'V' | b'f', 1)
    );
    let given = match expected.filter(|_| is_small) {
        Some(wider) => given
            .call_method1(intern!(py, "astype"), (dtype_name(wider),))?
            .cast_into::<PyUntypedArray>()?,
        None => given,
    };
    let refused = || {
        invalid(
            py,
            format!(
                "an array of {} is not supported: give numbers, booleans or strings",
                given.dtype()
            ),
        )
    };
    let dtype = dtype(&given).ok_or_else(refused)?;
    let is_large = given.len() >= Array::LENT_FROM / dtype.size();
    let pool = pool.filter(|_| is_large && dtype.is_float());
    if let Some(pool) = pool {
        // A thread that has no stream yet may have to wait for one, and whoever has it may need Python's lock to end.
        current(py, pool)?;
    }
    let array = with_type!(dtype, T => {
        let typed = given.cast::<PyArrayDyn<T>>().map_err(|_| refused())?;
        let lent = pool.map(|pool| lent::tensor(typed, dtype, given.shape(), pool));
        if let Some(lent) = lent.transpose().map_err(|error| raise(py, error))?.flatten() {
            return Ok(Values::Lent(lent));
        }
        let read = typed.try_readonly().map_err(|why| invalid(py, why.to_string()))?;
        let values = read.as_slice().map_err(|why| invalid(py, why.to_string()))?;
        Array::new(values, given.shape())
    }, return Err(refused()));
    array.map(Values::Copied).map_err(|error| raise(py, error))
}

/// An array of NumPy, or what NumPy makes an array of, row-major and in the order of bytes of this machine: itself where it is so.
pub fn row_major<'py>(
    value: &Bound<'py, PyAny>,
    expected: Option<DType>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let given = match value.cast::<PyUntypedArray>() {
        Ok(array) => array.clone(),
        Err(_) => converted(value, expected)?,
    };
    let is_plain = given.is_c_contiguous() && given.dtype().is_native_byteorder() != Some(false);
    match is_plain {
        true => Ok(given),
        false => plain(&given),
    }
}

/// What NumPy makes of a list, a number, or an array of another library.
fn converted<'py>(
    value: &Bound<'py, PyAny>,
    expected: Option<DType>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = value.py();
    let is_array = value.hasattr(intern!(py, "__array__"))?
        || value.hasattr(intern!(py, "__array_interface__"))?;
    let only_dlpack = !is_array && value.hasattr(intern!(py, "__dlpack__"))?;
    let settings = PyDict::new(py);
    if let (false, false, Some(dtype)) = (is_array, only_dlpack, expected) {
        settings.set_item("dtype", dtype_name(dtype))?;
    }
    let function = match only_dlpack {
        true => intern!(py, "from_dlpack"),
        false => intern!(py, "asarray"),
    };
    // A tensor that PyTorch would differentiate is read as it is, and one on a GPU is copied to the host.
    let value = match library(value)? {
        Library::NumPy | Library::Jax => value.clone(),
        Library::Torch => value.call_method0(intern!(py, "detach"))?,
        Library::TorchOnGpu(_) => value
            .call_method0(intern!(py, "detach"))?
            .call_method0(intern!(py, "cpu"))?,
    };
    let made = numpy_module(py)?.call_method(function, (value,), Some(&settings));
    let made = made.map_err(|why| {
        let error = invalid(
            py,
            format!("this is no array of numbers on the host: {why}"),
        );
        error.set_cause(py, Some(why));
        error
    })?;
    Ok(made.cast_into::<PyUntypedArray>()?)
}

/// The same, row-major and in the order of bytes of this machine.
fn plain<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = array.py();
    let descr = array.dtype();
    let descr = descr.call_method1(intern!(py, "newbyteorder"), ("=",))?;
    let made = numpy_module(py)?.call_method1(intern!(py, "ascontiguousarray"), (array, descr))?;
    // NumPy gives an array without axes one.
    let made = made.call_method1(
        intern!(py, "reshape"),
        (array.getattr(intern!(py, "shape"))?,),
    )?;
    Ok(made.cast_into::<PyUntypedArray>()?)
}

/// A type as NumPy names it.
pub fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::Bool => "bool",
        #[allow(unreachable_patterns)]
        _ => "unknown",
    }
}

/// An array for the caller, in the library that the inputs came in; strings as objects of NumPy.
pub fn from_array<'py>(
    py: Python<'py>,
    array: Array,
    library: Library,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(objects) = strings::objects(py, &array)? {
        return Ok(objects);
    }
    let made = with_type!(array.dtype(), T => {
        // Where NumPy has no such type, the next wider one holds the same values.
        match std::any::TypeId::of::<T>() == std::any::TypeId::of::<bf16>() && py.import("ml_dtypes").is_err() {
            true => widened(py, &array)?,
            false => lent::numpy::<T>(py, array)?.map_err(|error| raise(py, error))?,
        }
    }, return Err(invalid(py, "NumPy has no such type")));
    match library {
        Library::NumPy => Ok(made),
        Library::Jax => py.import("jax.numpy")?.call_method1("asarray", (made,)),
        Library::Torch => py
            .import("torch")?
            .call_method1(intern!(py, "from_numpy"), (made,)),
        Library::TorchOnGpu(number) => py
            .import("torch")?
            .call_method1(intern!(py, "from_numpy"), (made,))?
            .call_method1("to", (format!("cuda:{number}"),)),
    }
}

fn widened<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let values = array.values::<bf16>().map_err(|error| raise(py, error))?;
    let wide: Vec<f32> = values.iter().map(|value| value.to_f32()).collect();
    Ok(PyArray1::from_vec(py, wide)
        .reshape(array.shape())?
        .into_any())
}
