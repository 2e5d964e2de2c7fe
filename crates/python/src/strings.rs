//! Strings, which models know by their places in a list.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use streampool::Array;
use streampool::model::ValueInfo;

use crate::errors::{invalid, raise};

/// The places of these strings, if the input is one of strings and they are no places yet.
pub fn places(
    session: &streampool::Session,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<Array>> {
    let inputs = session.inputs().iter();
    let mut of_strings = inputs.filter(|info| info.name == name && info.strings.is_some());
    if of_strings.next().is_none() {
        return Ok(None);
    }
    let py = value.py();
    let array = py.import("numpy")?.call_method1("asarray", (value,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    if !matches!(&kind[..], "O" | "U" | "T") {
        return Ok(None);
    }
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let all = array.call_method0("ravel")?.call_method0("tolist")?;
    let strings: Vec<String> = all
        .extract()
        .map_err(|why: PyErr| invalid(py, format!("strings are expected: {why}")))?;
    let places = session.strings(name, &strings, &shape);
    places.map(Some).map_err(|error| raise(py, error))
}

/// The strings at these places, as an array of objects, if the output is one of strings; what the model does not name is empty.
pub fn named<'py>(
    py: Python<'py>,
    info: &ValueInfo,
    places: &Array,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(list) = &info.strings else {
        return Ok(None);
    };
    let Ok(values) = places.values::<i64>() else {
        return Ok(None);
    };
    let string = |&place: &i64| list.get(usize::try_from(place).ok()?);
    let strings: Vec<&str> = values
        .iter()
        .map(|place| string(place).map_or("", String::as_str))
        .collect();
    let settings = PyDict::new(py);
    settings.set_item("dtype", "object")?;
    let array = py
        .import("numpy")?
        .call_method("array", (strings,), Some(&settings))?;
    let shape: Vec<usize> = places.shape().to_vec();
    Ok(Some(array.call_method1("reshape", (shape,))?))
}
