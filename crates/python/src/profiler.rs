//! Profiles: what ran on a device, and for which nodes of a model.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use streampool::runtime::Profile;

use crate::devices::pool;
use crate::errors::{invalid, raise};
use crate::session::Session;

/// A profile in the making, of a pool or of a session.
enum Begun {
    Pool(streampool::runtime::Recording),
    Session(streampool::model::Recording),
}

/// A recording of what a device does.
#[pyclass(frozen, module = "streampool._streampool")]
pub struct Recording(Mutex<Option<Begun>>);

impl Recording {
    fn new(begun: Begun) -> Recording {
        Recording(Mutex::new(Some(begun)))
    }
}

/// Begins to record what a device does, at most `capacity` ops.
#[pyfunction]
pub fn record_device(py: Python<'_>, device: &str, capacity: usize) -> PyResult<Recording> {
    let pool = pool(py, device)?;
    let begun = py.detach(|| pool.profile(capacity));
    Ok(Recording::new(Begun::Pool(
        begun.map_err(|error| raise(py, error))?,
    )))
}

/// Begins to record what the device of a session does, and for which of its nodes.
#[pyfunction]
pub fn record_session(
    py: Python<'_>,
    session: &Bound<'_, Session>,
    capacity: usize,
) -> PyResult<Recording> {
    let session = session.get().inner();
    let begun = py.detach(|| session.profile(capacity));
    Ok(Recording::new(Begun::Session(
        begun.map_err(|error| raise(py, error))?,
    )))
}

fn write(profile: &Profile, path: &PathBuf) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    profile.write_chrome_trace(&mut file)?;
    file.flush()
}

#[pymethods]
impl Recording {
    /// Ends it after the work in flight, and writes a trace to `path` for Perfetto. Returns what took time: kinds of ops, nodes.
    #[pyo3(signature = (path=None))]
    fn finish<'py>(&self, py: Python<'py>, path: Option<PathBuf>) -> PyResult<Bound<'py, PyDict>> {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(begun) = begun else {
            return Err(invalid(py, "the recording has ended already"));
        };
        let finished = py.detach(|| {
            let (ops, nodes) = match begun {
                Begun::Pool(recording) => (recording.finish()?, Vec::new()),
                Begun::Session(recording) => {
                    let profiled = recording.finish()?;
                    (profiled.ops, profiled.nodes)
                }
            };
            Ok::<_, streampool::Error>((ops, nodes))
        });
        let (profile, nodes) = finished.map_err(|error| raise(py, error))?;
        if let Some(path) = path {
            py.detach(|| write(&profile, &path))?;
        }
        let (told, ops, of_nodes) = (PyDict::new(py), PyList::empty(py), PyList::empty(py));
        for (kind, summary) in profile.per_op() {
            let op = PyDict::new(py);
            op.set_item("op", format!("{kind:?}"))?;
            op.set_item("count", summary.count)?;
            op.set_item("seconds", summary.total.as_secs_f64())?;
            ops.append(op)?;
        }
        for node in nodes {
            let of_node = PyDict::new(py);
            of_node.set_item("name", node.name)?;
            of_node.set_item("operator", node.operator)?;
            of_node.set_item("count", node.count)?;
            of_node.set_item("seconds", node.total.as_secs_f64())?;
            of_nodes.append(of_node)?;
        }
        told.set_item("device", profile.device())?;
        told.set_item("seconds", profile.duration().as_secs_f64())?;
        told.set_item("ops", ops)?;
        told.set_item("nodes", of_nodes)?;
        told.set_item("dropped", profile.dropped())?;
        Ok(told)
    }
}
