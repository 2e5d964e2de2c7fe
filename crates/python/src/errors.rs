//! Errors of Streampool as exceptions of Python.

use std::error::Error as _;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyString};
use streampool::ErrorKind;

/// The module of Python that declares the exceptions.
fn exceptions(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("streampool._errors")?.unbind())
    })?;
    Ok(module.bind(py))
}

/// The exception for an error. One that Python code raised inside a queue's function comes back as it was.
pub fn raise(py: Python<'_>, error: impl Into<streampool::Error>) -> PyErr {
    let error = error.into();
    if let Some(own) = raised_in_python(&error) {
        return own.clone_ref(py);
    }
    let name = match error.kind() {
        ErrorKind::InvalidInput => "InvalidInput",
        ErrorKind::InvalidSetting => "InvalidSetting",
        ErrorKind::InvalidFile => "InvalidModel",
        ErrorKind::Misuse => "Misuse",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::OutOfMemory => "OutOfMemory",
        ErrorKind::TooLarge => "TooLarge",
        ErrorKind::NoFreeStream => "NoFreeStream",
        ErrorKind::Overloaded => "Overloaded",
        ErrorKind::DeadlineExceeded | ErrorKind::TimedOut => "DeadlineExceeded",
        ErrorKind::Closed => "Closed",
        ErrorKind::DeviceFault => "DeviceFault",
        ErrorKind::DeviceLost => "DeviceLost",
        ErrorKind::NoDevice => "NoDevice",
        ErrorKind::FunctionFailed => "FunctionFailed",
        ErrorKind::Io => "ReadError",
        _ => "Error",
    };
    let made = exceptions(py).and_then(|module| {
        let exception = module
            .getattr(PyString::intern(py, name))?
            .call1((error.to_string(),))?;
        if let Some(later) = error.retry_after() {
            exception.setattr(intern!(py, "retry_after"), later.as_secs_f64())?;
        }
        Ok(PyErr::from_value(exception))
    });
    made.unwrap_or_else(|broken| broken)
}

/// An error of the caller's, before anything of Streampool was asked.
pub fn invalid(py: Python<'_>, why: impl Into<String>) -> PyErr {
    let why = why.into();
    let made = exceptions(py).and_then(|module| {
        module
            .getattr(intern!(py, "InvalidInput"))?
            .call1((why.clone(),))
    });
    made.map_or_else(|_| PyRuntimeError::new_err(why), PyErr::from_value)
}

fn raised_in_python(error: &streampool::Error) -> Option<&PyErr> {
    use streampool::batch::Error as Batch;
    match error.get_ref().downcast_ref::<Batch>()? {
        Batch::Failed(inner) | Batch::Unavailable(inner) => {
            let inner: &Arc<dyn std::error::Error + Send + Sync> = inner;
            let own = inner.downcast_ref::<PyErr>();
            own.or_else(|| inner.source()?.downcast_ref())
        }
        _ => None,
    }
}
