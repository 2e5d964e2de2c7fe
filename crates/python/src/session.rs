//! Models.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyTuple};
use streampool::device::DType;
use streampool::{Array, Input, Outputs, Pool, RunOptions, SessionOptions, Tensor};

use crate::arrays::{Library, Values, dtype_name, from_array, library, to_values};
use crate::bound::{BoundSession, GpuRun, Shapes};
use crate::devices::{duration, pool};
use crate::errors::{invalid, raise};
use crate::futures::{Answer, complete, tell};
use crate::inbox::Inbox;
use crate::signals::{is_main, patiently};
use crate::streams::{chosen, current, next_stream};
use crate::strings;
use crate::torch::{self, GpuTensor};
use crate::weights::weights_of;

/// An input or an output of a model, as the model declares it.
#[pyclass(frozen, get_all, module = "streampool")]
pub struct ValueInfo {
    /// Its name.
    name: String,
    /// The type of its elements as NumPy names it, where the model declares it.
    dtype: Option<&'static str>,
    /// Its sizes, where the model declares them: a number, a name, or None for any.
    shape: Option<Py<PyTuple>>,
}

#[pymethods]
impl ValueInfo {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = match &self.shape {
            Some(shape) => shape.bind(py).repr()?.to_string(),
            None => "any".to_owned(),
        };
        Ok(format!(
            "<{} {} {shape}>",
            self.name,
            self.dtype.unwrap_or("any")
        ))
    }
}

fn infos<'a>(
    py: Python<'_>,
    values: impl IntoIterator<Item = &'a streampool::model::ValueInfo>,
) -> PyResult<Vec<ValueInfo>> {
    use streampool::model::Dim;
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => size
            .into_pyobject(py)
            .map(|size| size.into_any())
            .map_err(PyErr::from),
        Dim::Named(name) => name
            .into_pyobject(py)
            .map(|name| name.into_any())
            .map_err(PyErr::from),
        Dim::Free => Ok(py.None().into_bound(py)),
    };
    let made = values.into_iter().map(|value| {
        let shape = match &value.shape {
            Some(dims) => Some(
                PyTuple::new(py, dims.iter().map(size).collect::<PyResult<Vec<_>>>()?)?.unbind(),
            ),
            None => None,
        };
        Ok(ValueInfo {
            name: value.name.clone(),
            dtype: value.dtype.map(dtype_name),
            shape,
        })
    });
    made.collect()
}

/// What a caller gave, as arrays by name.
pub struct Given {
    /// The arrays. Names are those of the model where they came in order.
    pub arrays: Vec<(String, Array)>,
    /// Arrays that the run reads where they are.
    lent: Vec<(String, Tensor)>,
    /// Tensors on the session's own GPU.
    on_gpu: Vec<(String, GpuTensor)>,
    /// Whose arrays these were.
    pub library: Library,
}

impl Given {
    /// Refuses options that a run on these does not take.
    fn check(&self, py: Python<'_>, options: &RunOptions) -> PyResult<()> {
        match options.seed {
            Some(_) if !self.on_gpu.is_empty() => {
                let why = "a run on tensors of the GPU takes no seed: give it to the session";
                Err(invalid(py, why))
            }
            _ => Ok(()),
        }
    }
}

/// A model, loaded once and run from any number of threads.
#[pyclass(frozen, subclass, module = "streampool._streampool")]
pub struct Session {
    session: streampool::Session,
    /// The number of its GPU, if that is one of CUDA.
    gpu: Option<i32>,
    shapes: Shapes,
    /// Runs with inputs of fewer bytes were over at once.
    quick_below: AtomicUsize,
}

/// A run that takes less ends before anybody notices that Ctrl-C did not end it.
const QUICK: Duration = Duration::from_millis(20);

impl Session {
    /// The session of Rust's.
    pub fn inner(&self) -> &streampool::Session {
        &self.session
    }

    /// The type that an input is declared to have.
    pub fn dtype_of(&self, name: &str) -> Option<DType> {
        let all = self
            .session
            .inputs()
            .iter()
            .chain(self.session.optional_inputs());
        all.into_iter().find(|info| info.name == name)?.dtype
    }

    /// Inputs on the host as callers give them: by name, in order, or one array.
    pub fn given(&self, inputs: &Bound<'_, PyAny>) -> PyResult<Given> {
        self.given_where(inputs, None, None)
    }

    /// Inputs as callers give them. Tensors of PyTorch on the GPU of this number stay there, and large arrays where the device of
    /// `pool` reads them.
    fn given_where(
        &self,
        inputs: &Bound<'_, PyAny>,
        gpu: Option<i32>,
        pool: Option<&Pool>,
    ) -> PyResult<Given> {
        let mut given = Given {
            arrays: Vec::new(),
            lent: Vec::new(),
            on_gpu: Vec::new(),
            library: Library::NumPy,
        };
        let mut add = |name: &str, value: &Bound<'_, PyAny>| -> PyResult<()> {
            if let Some(gpu) = gpu {
                let tensor = GpuTensor::of(value, gpu);
                if let Some(tensor) = tensor.map_err(|error| named(value.py(), name, error))? {
                    given.on_gpu.push((name.to_owned(), tensor));
                    return Ok(());
                }
            }
            match library(value)? {
                Library::NumPy => {}
                other => given.library = other,
            }
            let strings = strings::given(&self.session, name, value);
            let values = match strings.transpose() {
                Some(strings) => strings.map(Values::Copied),
                None => to_values(value, self.dtype_of(name), pool),
            };
            match values.map_err(|error| named(value.py(), name, error))? {
                Values::Copied(array) => given.arrays.push((name.to_owned(), array)),
                Values::Lent(tensor) => given.lent.push((name.to_owned(), tensor)),
            }
            Ok(())
        };
        if let Ok(inputs) = inputs.cast::<PyDict>() {
            for (name, value) in inputs {
                add(&name.extract::<std::borrow::Cow<'_, str>>()?, &value)?;
            }
        } else if let Ok(inputs) = inputs.cast::<PyMapping>() {
            for pair in inputs.items()? {
                let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
                add(&name.extract::<std::borrow::Cow<'_, str>>()?, &value)?;
            }
        } else {
            let values: Vec<Bound<'_, PyAny>> =
                match (inputs.cast::<PyList>(), inputs.cast::<PyTuple>()) {
                    (Ok(list), _) => list.iter().collect(),
                    (_, Ok(tuple)) => tuple.iter().collect(),
                    _ => vec![inputs.clone()],
                };
            let infos = self.session.inputs();
            if values.len() > infos.len() {
                let why = format!(
                    "{} inputs were given, the model takes {}",
                    values.len(),
                    infos.len()
                );
                return Err(invalid(inputs.py(), why));
            }
            for (info, value) in infos.iter().zip(&values) {
                add(&info.name, value)?;
            }
        }
        Ok(given)
    }

    /// A run on the GPU, if an input lies there.
    fn on_gpu<'a>(
        &self,
        py: Python<'_>,
        tensors: Vec<(String, GpuTensor)>,
        arrays: &'a [(String, Array)],
    ) -> PyResult<Option<GpuRun<'a>>> {
        let (Some(gpu), false) = (self.gpu, tensors.is_empty()) else {
            return Ok(None);
        };
        Ok(Some(GpuRun {
            tensors,
            arrays,
            gpu,
            stream: chosen(py, self.session.pool())?,
        }))
    }

    /// Runs the model. On the main thread Ctrl-C ends a run that may take long.
    fn run_arrays(
        &self,
        py: Python<'_>,
        arrays: Vec<(String, Array)>,
        lent: Vec<(String, Tensor)>,
        options: RunOptions,
    ) -> PyResult<Outputs> {
        let is_main = is_main(py)?;
        let copied = arrays.iter().map(|(_, array)| array.bytes().len());
        let left = lent.iter().map(|(_, tensor)| tensor.buffer().bytes());
        let bytes: usize = copied.chain(left).sum();
        let begun = Instant::now();
        let run = move |session: &streampool::Session| {
            let inputs = arrays
                .iter()
                .map(|(name, array)| (name, Input::from(array)));
            let lent = lent
                .iter()
                .map(|(name, tensor)| (name, Input::from(tensor)));
            Ok(session.run_with(inputs.chain(lent), &options)?)
        };
        if !is_main || bytes < self.quick_below.load(Ordering::Relaxed) {
            let outputs = self.on_chosen(py, || run(&self.session));
            if is_main && begun.elapsed() > QUICK {
                self.quick_below.store(0, Ordering::Relaxed);
            }
            return outputs;
        }
        let outputs = self.on_chosen_patiently(py, run)?;
        if begun.elapsed() <= QUICK {
            self.quick_below.fetch_max(bytes + 1, Ordering::Relaxed);
        }
        Ok(outputs)
    }

    /// As [`on_chosen`](Self::on_chosen). On the main thread Ctrl-C ends the wait.
    fn on_chosen_patiently<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&streampool::Session) -> streampool::Result<R> + Send + 'static,
    ) -> PyResult<R> {
        if !is_main(py)? {
            return self.on_chosen(py, || work(&self.session));
        }
        let session = self.session.clone();
        let stream = current(py, session.pool())?;
        let result = patiently(py, move || {
            session.pool().with_stream(&stream, || work(&session))?
        })?;
        result.map_err(|error| raise(py, error))
    }

    /// Outputs by name; a sequence as a list.
    fn outputs<'py>(
        &self,
        py: Python<'py>,
        outputs: Outputs,
        library: Library,
    ) -> PyResult<Bound<'py, PyDict>> {
        let names = self.session.outputs().iter().map(|info| &*info.name);
        let outputs = names.zip(outputs.into_sequences());
        by_name(py, &self.session, outputs, library)
    }

    /// Runs `work` on the stream that the thread or the task has chosen.
    pub fn on_chosen<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> streampool::Result<R> + Send,
    ) -> PyResult<R> {
        let result = match chosen(py, self.session.pool())? {
            None => py.detach(work),
            Some(stream) => py.detach(|| self.session.pool().with_stream(&stream, work)?),
        };
        result.map_err(|error| raise(py, error))
    }
}

/// An error of one input says which.
pub fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    let told = invalid(py, format!("input {name:?}: {}", error.value(py)));
    told.set_cause(py, error.cause(py));
    told
}

/// Outputs by name; a sequence as a list.
pub fn by_name<'py, 'a>(
    py: Python<'py>,
    session: &streampool::Session,
    outputs: impl Iterator<Item = (&'a str, impl ExactSizeIterator<Item = Array>)>,
    library: Library,
) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    for ((name, arrays), info) in outputs.zip(session.outputs()) {
        let is_one = info.kind == streampool::model::ValueKind::Tensor;
        made.set_item(name, of_output(py, arrays, is_one, library)?)?;
    }
    Ok(made)
}

/// The arrays of one output: a list, but for the one array of one that `is_one`.
pub fn of_output<'py>(
    py: Python<'py>,
    mut arrays: impl ExactSizeIterator<Item = Array>,
    is_one: bool,
    library: Library,
) -> PyResult<Bound<'py, PyAny>> {
    if is_one
        && arrays.len() == 1
        && let Some(array) = arrays.next()
    {
        return from_array(py, array, library);
    }
    let all = arrays.map(|array| from_array(py, array, library));
    Ok(PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn precision(py: Python<'_>, name: &str) -> PyResult<DType> {
    match name {
        "f16" | "float16" => Ok(DType::F16),
        "bf16" | "bfloat16" => Ok(DType::BF16),
        _ => Err(invalid(
            py,
            format!("precision is {name:?}, expected \"f16\" or \"bf16\""),
        )),
    }
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (model, device="auto", *, precision=None, max_in_flight=None, program_memory=None, data_folder=None,
        simplify=true, seed=None, weights=None))]
    #[allow(clippy::too_many_arguments)] // Python's callers name them.
    fn load(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        device: &str,
        precision: Option<&str>,
        max_in_flight: Option<usize>,
        program_memory: Option<usize>,
        data_folder: Option<PathBuf>,
        simplify: bool,
        seed: Option<u64>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Session> {
        let pool = pool(py, device)?;
        let default = SessionOptions::default();
        let options = SessionOptions {
            precision: precision
                .map(|name| self::precision(py, name))
                .transpose()?,
            max_in_flight: max_in_flight.unwrap_or(default.max_in_flight),
            program_memory: program_memory.unwrap_or(default.program_memory),
            data_folder,
            weights: match weights {
                Some(given) => weights_of(given, &pool)?,
                None => default.weights,
            },
            simplify,
            seed,
        };
        // A model of the package onnx.
        let model = match model.hasattr("SerializeToString")? {
            true => model.call_method0("SerializeToString")?,
            false => model.clone(),
        };
        let session = if model.is_instance_of::<PyBytes>() {
            let bytes: PyBackedBytes = model.extract()?;
            let bytes = bytes.to_vec();
            patiently(py, move || {
                streampool::Session::from_bytes(&pool, bytes, &options)
            })?
        } else {
            let path: PathBuf = model.extract().map_err(|_| {
                let kind = model.get_type();
                invalid(py, format!("model is a {kind}, expected a path, the bytes of an ONNX file, or an onnx.ModelProto"))
            })?;
            patiently(py, move || {
                streampool::Session::load_with(&pool, path, &options)
            })?
        };
        let session = session.map_err(|error| raise(py, error))?;
        Ok(Session {
            gpu: torch::gpu(session.pool()),
            session,
            shapes: Shapes::default(),
            quick_below: AtomicUsize::new(0),
        })
    }

    /// The inputs that a run needs.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<ValueInfo>> {
        infos(py, self.session.inputs())
    }

    /// The inputs that a run may leave out.
    #[getter]
    fn optional_inputs(&self, py: Python<'_>) -> PyResult<Vec<ValueInfo>> {
        infos(py, self.session.optional_inputs())
    }

    /// The outputs.
    #[getter]
    #[pyo3(name = "outputs")]
    fn output_infos(&self, py: Python<'_>) -> PyResult<Vec<ValueInfo>> {
        infos(py, self.session.outputs())
    }

    /// What the file says about itself.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (key, value) in self.session.metadata() {
            metadata.set_item(key, value)?;
        }
        Ok(metadata)
    }

    /// The device that it runs on.
    #[getter]
    fn device(&self) -> &'static str {
        self.session.pool().device().properties().kind.name()
    }

    #[pyo3(signature = (inputs, *, timeout=None, urgent=false, seed=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        timeout: Option<f64>,
        urgent: bool,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = run_options(py, timeout, urgent, seed)?;
        let given = self.given_where(inputs, self.gpu, Some(self.session.pool()))?;
        given.check(py, &options)?;
        if let Some(run) = self.on_gpu(py, given.on_gpu, &given.arrays)? {
            return run.run(py, &self.session, &self.shapes);
        }
        let library = given.library;
        let outputs = self.run_arrays(py, given.arrays, given.lent, options)?;
        self.outputs(py, outputs, library)
    }

    /// Starts a run; `answer` is completed when it is over. It goes to the stream of the thread, and waits there for room. With
    /// `spread` it goes to one of several, since many tasks share a thread, and fails at once if there is no room.
    #[pyo3(signature = (inputs, answer, spread, inbox=None, *, timeout=None, urgent=false, seed=None))]
    #[allow(clippy::too_many_arguments)] // The package's own code names them.
    fn start(
        slf: &Bound<'_, Session>,
        inputs: &Bound<'_, PyAny>,
        answer: Py<PyAny>,
        spread: bool,
        inbox: Option<Py<Inbox>>,
        timeout: Option<f64>,
        urgent: bool,
        seed: Option<u64>,
    ) -> PyResult<u64> {
        let py = slf.py();
        let this = slf.get();
        let options = run_options(py, timeout, urgent, seed)?;
        let given = this.given_where(inputs, this.gpu, None)?;
        given.check(py, &options)?;
        if let Some(run) = this.on_gpu(py, given.on_gpu, &given.arrays)? {
            // PyTorch's stream waits for the outputs, and so does whoever uses them.
            let outputs = run.run(py, &this.session, &this.shapes);
            let outputs = outputs.map(|outputs| outputs.into_any().unbind());
            match inbox {
                Some(_) => answer
                    .call_method1(py, intern!(py, "set_result"), (outputs?,))
                    .map(drop)?,
                None => tell(answer.bind(py), outputs)?,
            }
            return Ok(0);
        }
        let session = this.session.clone();
        let pool = session.pool().clone();
        let pending = this.on_chosen(py, || {
            let inputs = given
                .arrays
                .iter()
                .map(|(name, array)| (name, Input::from(array)));
            match spread {
                false => Ok(session.submit_with(inputs, &options)?),
                true => {
                    let stream = next_stream(&pool)?;
                    Ok(pool.with_stream(&stream, || session.try_submit_with(inputs, &options))??)
                }
            }
        })?;
        let (own, library) = (slf.clone().unbind(), given.library);
        let finish = move |py: Python<'_>, outputs: Outputs| {
            Ok(own.get().outputs(py, outputs, library)?.into_any().unbind())
        };
        let answer = Answer::to(answer, inbox);
        complete(pending, answer, options.deadline, Box::new(finish))
    }

    /// Binds the model to tensors on its GPU: each call of the result reads these inputs and writes the same outputs.
    fn bind(slf: &Bound<'_, Session>, inputs: &Bound<'_, PyAny>) -> PyResult<BoundSession> {
        let (py, this) = (slf.py(), slf.get());
        let given = this.given_where(inputs, this.gpu, None)?;
        if let Some((name, _)) = given.arrays.first() {
            return Err(invalid(
                py,
                format!(
                    "input {name:?} is not a tensor of PyTorch on the session's GPU, which is what can be bound"
                ),
            ));
        }
        let Some(run) = this.on_gpu(py, given.on_gpu, &given.arrays)? else {
            return Err(invalid(py, "there is no input to bind"));
        };
        run.bind(py, &this.session, &this.shapes)
    }

    /// Makes ready what runs with inputs of these shapes need, on the calling thread's stream.
    fn warm_up(&self, py: Python<'_>, shapes: Vec<Vec<usize>>) -> PyResult<()> {
        self.on_chosen_patiently(py, move |session| {
            let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
            Ok(session.warm_up(&shapes)?)
        })
    }

    /// How often it ran, and what it holds.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let statistics = serde_json::to_string(&self.session.statistics());
        let text = statistics.map_err(|why| invalid(py, why.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn __repr__(&self) -> String {
        let names = |infos: &[streampool::model::ValueInfo]| {
            infos
                .iter()
                .map(|info| info.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        format!(
            "<streampool.Session on {}: ({}) -> ({})>",
            self.device(),
            names(self.session.inputs()),
            names(self.session.outputs())
        )
    }
}

/// What a run may take, and when.
pub fn run_options(
    py: Python<'_>,
    timeout: Option<f64>,
    urgent: bool,
    seed: Option<u64>,
) -> PyResult<RunOptions> {
    let options = match timeout {
        Some(seconds) => RunOptions::within(duration(py, "timeout", seconds)?),
        None => RunOptions::default(),
    };
    Ok(RunOptions {
        urgent,
        seed,
        ..options
    })
}
