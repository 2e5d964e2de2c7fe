//! Runs on a GPU between the work of PyTorch, and runs that are bound to their tensors.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use streampool::device::DType;
use streampool::{Array, Buffer, Pool, Stream};

use crate::errors::raise;
use crate::torch::{GpuTensor, Memory, Source, run_on_current_stream};

/// Types and shapes of several values.
type Kinds = Vec<(DType, Vec<usize>)>;

/// Which outputs a session gave for which inputs lately, so that memory for them is there before a run.
#[derive(Default)]
pub struct Shapes(Mutex<Vec<(Kinds, Kinds)>>);

/// So many are remembered.
const REMEMBERED: usize = 16;

impl Shapes {
    fn get(&self, run: &GpuRun<'_>) -> Option<Kinds> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(inputs, _)| run.is_of(inputs))?;
        Some(found.1.clone())
    }

    fn add(&self, inputs: Kinds, outputs: Kinds) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(other, _)| *other != inputs);
        if known.len() == REMEMBERED {
            known.pop();
        }
        known.insert(0, (inputs, outputs));
    }
}

/// A run of which an input lies on the GPU.
pub struct GpuRun<'a> {
    /// What lies there.
    pub tensors: Vec<(String, GpuTensor)>,
    /// What lies on the host.
    pub arrays: &'a [(String, Array)],
    /// The number of the GPU.
    pub gpu: i32,
    /// The stream that the thread or the task has chosen.
    pub stream: Option<Stream>,
}

impl GpuRun<'_> {
    fn is_of(&self, kinds: &Kinds) -> bool {
        let (tensors, arrays) = kinds.split_at(self.tensors.len().min(kinds.len()));
        tensors.len() == self.tensors.len()
            && arrays.len() == self.arrays.len()
            && (tensors.iter().zip(&self.tensors))
                .all(|((dtype, shape), (_, tensor))| tensor.is(*dtype, shape))
            && (arrays.iter().zip(self.arrays)).all(|((dtype, shape), (_, array))| {
                *dtype == array.dtype() && shape == array.shape()
            })
    }

    fn kinds(&self) -> Kinds {
        let tensors = (self.tensors.iter()).map(|(_, tensor)| (tensor.dtype, tensor.shape.clone()));
        let arrays = (self.arrays.iter()).map(|(_, array)| (array.dtype(), array.shape().to_vec()));
        tensors.chain(arrays).collect()
    }

    /// Runs it, and returns its outputs in order.
    fn outputs(
        &self,
        py: Python<'_>,
        session: &streampool::Session,
        shapes: &Shapes,
    ) -> PyResult<Vec<GpuTensor>> {
        let first = &self.tensors[0].1;
        let all = |py: Python<'_>, kinds: &[(DType, &[usize])]| -> PyResult<Vec<GpuTensor>> {
            (kinds.iter())
                .map(|(dtype, shape)| first.beside(py, *dtype, shape))
                .collect()
        };
        let mut made = Vec::new();
        if let Some(kinds) = shapes.get(self) {
            let kinds: Vec<_> = (kinds.iter())
                .map(|(dtype, shape)| (*dtype, &**shape))
                .collect();
            made = all(py, &kinds)?;
        }
        let (mut refused, mut is_new) = (None, false);
        let ran = py.detach(|| {
            let mut memory = |kinds: &[(DType, &[usize])]| {
                let fits =
                    (made.iter().zip(kinds)).all(|(made, (dtype, shape))| made.is(*dtype, shape));
                if made.len() != kinds.len() || !fits {
                    is_new = true;
                    made = Python::attach(|py| all(py, kinds))
                        .map_err(|why| refused = Some(why))
                        .ok()?;
                }
                lent(&made, session.pool())
            };
            self.on_stream(session, &mut memory)
        });
        if let Some(why) = refused {
            return Err(why);
        }
        ran.map_err(|error| raise(py, error))?;
        if is_new {
            let outputs = (made.iter()).map(|made| (made.dtype, made.shape.clone()));
            shapes.add(self.kinds(), outputs.collect());
        }
        Ok(made)
    }

    fn on_stream(
        &self,
        session: &streampool::Session,
        memory: &mut Memory<'_>,
    ) -> streampool::Result<()> {
        let tensors = (self.tensors.iter()).map(|(name, tensor)| (&**name, Source::Gpu(tensor)));
        let arrays = (self.arrays.iter()).map(|(name, array)| (&**name, Source::Host(array)));
        let inputs: Vec<_> = tensors.chain(arrays).collect();
        let first = &self.tensors[0].1;
        let mut run = || run_on_current_stream(session, &inputs, first, self.gpu, memory);
        match &self.stream {
            None => run(),
            Some(stream) => session.pool().with_stream(stream, &mut run)?,
        }
    }

    /// Runs it, and returns its outputs by name.
    pub fn run<'py>(
        &self,
        py: Python<'py>,
        session: &streampool::Session,
        shapes: &Shapes,
    ) -> PyResult<Bound<'py, PyDict>> {
        let outputs = self.outputs(py, session, shapes)?;
        by_name(py, session, &outputs)
    }

    /// Runs it once, and keeps its tensors for more.
    pub fn bind(
        self,
        py: Python<'_>,
        session: &streampool::Session,
        shapes: &Shapes,
    ) -> PyResult<BoundSession> {
        let outputs = self.outputs(py, session, shapes)?;
        Ok(BoundSession {
            named: by_name(py, session, &outputs)?.unbind(),
            session: session.clone(),
            tensors: self.tensors,
            outputs,
            gpu: self.gpu,
        })
    }
}

fn by_name<'py>(
    py: Python<'py>,
    session: &streampool::Session,
    outputs: &[GpuTensor],
) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for (info, output) in session.outputs().iter().zip(outputs) {
        named.set_item(&info.name, output.object())?;
    }
    Ok(named)
}

fn lent(tensors: &[GpuTensor], pool: &Pool) -> Option<Vec<Buffer>> {
    let lent = tensors.iter().map(|tensor| tensor.lend(pool).ok());
    lent.collect()
}

/// A session bound to tensors of PyTorch on its GPU.
#[pyclass(frozen, module = "streampool")]
pub struct BoundSession {
    session: streampool::Session,
    tensors: Vec<(String, GpuTensor)>,
    outputs: Vec<GpuTensor>,
    named: Py<PyDict>,
    gpu: i32,
}

#[pymethods]
impl BoundSession {
    /// Runs the model on what the inputs hold now, and returns the outputs, which are the same tensors each time.
    fn __call__(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let session = &self.session;
        let inputs: Vec<_> = (self.tensors.iter())
            .map(|(name, tensor)| (&**name, Source::Gpu(tensor)))
            .collect();
        let ran = py.detach(|| {
            let mut memory = |_: &[(DType, &[usize])]| lent(&self.outputs, session.pool());
            run_on_current_stream(session, &inputs, &self.tensors[0].1, self.gpu, &mut memory)
        });
        ran.map_err(|error| raise(py, error))?;
        Ok(self.named.clone_ref(py))
    }

    /// The outputs by name.
    #[getter]
    fn outputs(&self, py: Python<'_>) -> Py<PyDict> {
        self.named.clone_ref(py)
    }
}
