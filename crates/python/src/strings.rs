//! Strings: arrays of text or of objects in NumPy.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use streampool::Array;

use crate::errors::raise;

/// The array of these strings, if the input is one of strings and they are no places in the model's list.
pub fn given(
    session: &streampool::Session,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<Array>> {
    let inputs = session.inputs().iter();
    let mut of_strings = inputs.filter(|info| info.name == name && info.strings.is_some());
    if of_strings.next().is_none() {
        return Ok(None);
    }
    of(&value
        .py()
        .import("numpy")?
        .call_method1(intern!(value.py(), "asarray"), (value,))?)
}

/// The array of the strings of one of NumPy; `None` if it holds anything else.
pub fn of(array: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let py = array.py();
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let kind: String = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if !matches!(&kind[..], "O" | "U" | "T") {
        return Ok(None);
    }
    let all = array
        .call_method0(intern!(py, "ravel"))?
        .call_method0(intern!(py, "tolist"))?;
    let Ok(strings) = all.extract::<Vec<String>>() else {
        return Ok(None);
    };
    let shape: Vec<usize> = array.getattr(intern!(py, "shape"))?.extract()?;
    let strings = Array::from_strings(&strings, &shape);
    strings.map(Some).map_err(|error| raise(array.py(), error))
}

/// An array of strings as one of objects; `None` if it is one of numbers.
pub fn objects<'py>(py: Python<'py>, array: &Array) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(strings) = array.as_strings() else {
        return Ok(None);
    };
    let settings = PyDict::new(py);
    settings.set_item("dtype", "object")?;
    let objects =
        py.import("numpy")?
            .call_method(intern!(py, "array"), (strings,), Some(&settings))?;
    let shape: Vec<usize> = array.shape().to_vec();
    Ok(Some(
        objects.call_method1(intern!(py, "reshape"), (shape,))?,
    ))
}
