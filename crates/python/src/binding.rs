//! Bindings: a model whose outputs stay on the device and are the next run's inputs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use streampool::model::ValueKind;
use streampool::{Array, Input};

use crate::arrays::{Library, from_array, to_array};
use crate::session::{Session, named, of_output, run_options};

/// A session with inputs that stay from run to run.
#[pyclass(frozen, module = "streampool")]
pub struct Binding {
    session: Py<Session>,
    binding: Mutex<streampool::Binding>,
}

impl Binding {
    fn lock(&self) -> MutexGuard<'_, streampool::Binding> {
        // A run that panicked leaves a binding that says what it lost.
        self.binding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` while other threads of Python go on: another may be in a run.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut streampool::Binding) -> streampool::Result<R> + Send,
    ) -> PyResult<R> {
        let session = self.session.get();
        session.on_chosen(py, || work(&mut self.lock()))
    }
}

#[pymethods]
impl Binding {
    /// One in which nothing is set and nothing carried.
    #[new]
    fn of(session: &Bound<'_, Session>) -> Binding {
        Binding {
            binding: Mutex::new(session.get().inner().bind()),
            session: session.clone().unbind(),
        }
    }

    /// Makes this output of each run this input of the next.
    fn carry(&self, py: Python<'_>, output: &str, input: &str) -> PyResult<()> {
        self.with(py, |binding| Ok(binding.carry(output, input)?))
    }

    /// Carries each output `present…` to the input `past…`; returns how many there are.
    fn carry_caches(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |binding| Ok(binding.carry_caches()?))
    }

    /// Makes an input this in each run that does not say otherwise; a carried one until the next run.
    fn set(&self, py: Python<'_>, input: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let dtype = self.session.get().dtype_of(input);
        let array = to_array(value, dtype).map_err(|error| named(py, input, error))?;
        self.with(py, |binding| Ok(binding.set(input, &array)?))
    }

    /// Sets each carried input to zeros, with these sizes for axes that have names.
    #[pyo3(signature = (**sizes))]
    fn set_zeros(&self, py: Python<'_>, sizes: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let mut all: Vec<(String, usize)> = Vec::new();
        for (name, size) in sizes.into_iter().flatten() {
            all.push((name.extract()?, size.extract()?));
        }
        self.with(py, |binding| {
            let sizes: Vec<(&str, usize)> = (all.iter())
                .map(|(name, size)| (name.as_str(), *size))
                .collect();
            Ok(binding.set_zeros(&sizes)?)
        })
    }

    /// What an input is in the next run that does not say otherwise, as an array.
    fn get<'py>(&self, py: Python<'py>, input: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let array = self.with(py, |binding| {
            let tensor = binding.get(input);
            let array = tensor.map(|tensor| Ok(Array::of(tensor)?));
            array.transpose()
        })?;
        let array = array.map(|array| from_array(py, array, Library::NumPy));
        array.transpose()
    }

    /// Forgets all that was set or carried so far; what is carried where stays.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |binding| {
            binding.clear();
            Ok(())
        })
    }

    /// Runs the model with these inputs and those that it has; returns the outputs that are not carried.
    #[pyo3(signature = (inputs, *, timeout=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get();
        let given = session.given(inputs)?;
        let options = run_options(py, timeout, false, None)?;
        let arrays = given.arrays;
        let outputs = self.with(py, move |binding| {
            let inputs = arrays
                .iter()
                .map(|(name, array)| (name, Input::from(array)));
            Ok(binding.run_with(inputs, &options)?)
        })?;
        let made = PyDict::new(py);
        let names: Vec<String> = outputs.iter().map(|(name, _)| name.to_owned()).collect();
        for (name, arrays) in names.iter().zip(outputs.into_sequences()) {
            let mut infos = session.inner().outputs().iter();
            let info = infos.find(|info| info.name == *name);
            let is_one = info.is_none_or(|info| info.kind == ValueKind::Tensor);
            made.set_item(name, of_output(py, arrays, is_one, given.library)?)?;
        }
        Ok(made)
    }
}
