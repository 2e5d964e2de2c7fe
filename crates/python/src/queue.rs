//! Queues that make batches of the requests of many callers.

use std::collections::HashMap;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use streampool::batch::{Batch, Padding, Priority, Shutdown, WhenFull};
use streampool::{Array, BatchQueue, ForSession, Request, Ticket};

use crate::arrays::{Library, from_array, library, to_array};
use crate::devices::duration;
use crate::errors::{invalid, raise};
use crate::futures::{Answer, complete};
use crate::inbox::Inbox;
use crate::session::{Session, by_name};
use crate::signals::{block_on, is_main, patiently};

/// What answers a queue's batches.
enum Behind {
    Session(Py<Session>),
    Function,
}

/// Coalesces the requests of many callers into batches of a model or of a function.
#[pyclass(frozen, subclass, weakref, module = "streampool._streampool")]
pub struct Queue {
    queue: BatchQueue,
    /// Whether who finds it full waits without an end.
    blocks: bool,
    behind: Behind,
}

impl Drop for Queue {
    /// Waits for the batches at work. Their function may need the interpreter, which whoever drops this has.
    fn drop(&mut self) {
        Python::attach(|py| py.detach(|| self.queue.shutdown(Shutdown::Cancel)));
    }
}

/// Calls a function of Python with the arrays of a batch.
fn call(function: &Py<PyAny>, batch: Batch) -> Result<Batch, PyErr> {
    Python::try_attach(|py| {
        let broken = |error| raise(py, streampool::Error::from(error));
        let inputs = batch.into_arrays().map_err(broken)?;
        let inputs = inputs
            .into_iter()
            .map(|array| from_array(py, array, Library::NumPy));
        let inputs = PyTuple::new(py, inputs.collect::<PyResult<Vec<_>>>()?)?;
        let result = function.bind(py).call1(inputs)?;
        let outputs = arrays(&result)?;
        Batch::new(outputs).map_err(broken)
    })
    .unwrap_or_else(|| {
        Err(pyo3::exceptions::PyRuntimeError::new_err(
            "the interpreter has ended",
        ))
    })
}

/// One array, or several in a list or a tuple.
fn arrays(value: &Bound<'_, PyAny>) -> PyResult<Vec<Array>> {
    let several: Vec<Bound<'_, PyAny>> = match (value.cast::<PyTuple>(), value.cast::<PyList>()) {
        (Ok(tuple), _) => tuple.iter().collect(),
        (_, Ok(list)) => list.iter().collect(),
        _ => vec![value.clone()],
    };
    several.iter().map(|value| to_array(value, None)).collect()
}

fn priority(py: Python<'_>, name: &str) -> PyResult<Priority> {
    match name {
        "high" => Ok(Priority::High),
        "normal" => Ok(Priority::Normal),
        "low" => Ok(Priority::Low),
        _ => Err(invalid(
            py,
            format!("priority is {name:?}, expected \"high\", \"normal\" or \"low\""),
        )),
    }
}

/// How an axis is filled up: `{"axis": 1, "multiple": 8}` or `{"axis": 1, "sizes": [16, 64]}`, and what the function is told of it.
fn padding(how: &Bound<'_, PyDict>) -> PyResult<Padding> {
    let py = how.py();
    let unknown = |why: &str| {
        invalid(
            py,
            format!(
                "padding {why}; it is a dictionary with \"axis\", \"multiple\" or \"sizes\", and \"tell\" (\"mask\" or \"lengths\"), \"inputs\", \"outputs\" where wanted"
            ),
        )
    };
    for key in how.keys() {
        let key: String = key.extract()?;
        if !["axis", "multiple", "sizes", "tell", "inputs", "outputs"].contains(&&*key) {
            return Err(unknown(&format!("has {key:?}")));
        }
    }
    let axis = how
        .get_item("axis")?
        .ok_or_else(|| unknown("has no axis"))?;
    let axis = axis.extract()?;
    let mut made = match (how.get_item("multiple")?, how.get_item("sizes")?) {
        (Some(step), None) => Padding::to_multiples(axis, step.extract()?),
        (None, Some(sizes)) => Padding::to_edges(axis, sizes.extract::<Vec<usize>>()?),
        _ => return Err(unknown("needs either \"multiple\" or \"sizes\"")),
    };
    if let Some(tell) = how.get_item("tell")? {
        made = match &*tell.extract::<String>()? {
            "mask" => made.with_mask(),
            "lengths" => made.with_lengths(),
            other => return Err(unknown(&format!("tells {other:?}"))),
        };
    }
    if let Some(inputs) = how.get_item("inputs")? {
        made = made.inputs(&inputs.extract::<Vec<usize>>()?);
    }
    if let Some(outputs) = how.get_item("outputs")? {
        made = made.outputs(&outputs.extract::<Vec<usize>>()?);
    }
    Ok(made)
}

/// A request, and whose arrays it came as.
struct Asked {
    request: Request,
    library: Library,
}

impl Queue {
    fn asked(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        how: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Asked> {
        let (arrays, library) = match &self.behind {
            Behind::Function => {
                let first = match inputs.cast::<PyTuple>() {
                    Ok(tuple) if !tuple.is_empty() => tuple.get_item(0)?,
                    _ => inputs.clone(),
                };
                (arrays(inputs)?, library(&first)?)
            }
            Behind::Session(session) => {
                let session = session.get();
                let given = session.given(inputs)?;
                let mut arrays = given.arrays;
                // In the model's order, as the queue takes them.
                let infos = session.inner().inputs();
                let mut ordered = Vec::new();
                for info in infos {
                    let place = arrays.iter().position(|(name, _)| *name == info.name);
                    let Some(place) = place else {
                        return Err(invalid(py, format!("input {:?} is missing", info.name)));
                    };
                    ordered.push(arrays.swap_remove(place).1);
                }
                if let Some((name, _)) = arrays.first() {
                    return Err(invalid(py, format!("the queue takes no input {name:?}")));
                }
                (ordered, given.library)
            }
        };
        let mut request = Request::new(arrays);
        for (key, value) in how.into_iter().flatten() {
            if value.is_none() {
                continue;
            }
            request = match key.extract::<std::borrow::Cow<'_, str>>()?.as_ref() {
                "tenant" => request.tenant(value.extract::<String>()?),
                "priority" => request.priority(priority(py, &value.extract::<String>()?)?),
                "timeout" => request.within(duration(py, "timeout", value.extract()?)?),
                "behind_after" => {
                    let after = duration(py, "behind_after", value.extract()?)?;
                    // What never comes is not said.
                    match Instant::now().checked_add(after) {
                        Some(time) => request.behind_from(time),
                        None => request,
                    }
                }
                other => {
                    return Err(pyo3::exceptions::PyTypeError::new_err(format!(
                        "unexpected keyword argument {other:?}"
                    )));
                }
            };
        }
        Ok(Asked { request, library })
    }

    /// Puts a request in the queue. Ctrl-C ends the wait for room.
    fn submitted(
        &self,
        py: Python<'_>,
        request: Request,
    ) -> PyResult<streampool::batch::Result<Ticket>> {
        match self.blocks && is_main(py)? {
            true => block_on(py, self.queue.submit_when_room(request)),
            false => Ok(py.detach(|| self.queue.submit(request))),
        }
    }
}

/// The answer to a request: by name from a model, as it came from a function.
fn answer<'py>(
    py: Python<'py>,
    behind: &Behind,
    outputs: Vec<Array>,
    library: Library,
) -> PyResult<Bound<'py, PyAny>> {
    match behind {
        Behind::Session(session) => {
            let session = session.get().inner();
            let names = session.outputs().iter().map(|info| info.name.as_str());
            let each = names.zip(outputs.into_iter().map(std::iter::once));
            Ok(by_name(py, session, each, library)?.into_any())
        }
        Behind::Function => {
            let mut all = outputs
                .into_iter()
                .map(|array| from_array(py, array, library))
                .collect::<PyResult<Vec<_>>>()?;
            match all.len() {
                1 => Ok(all.remove(0)),
                _ => Ok(PyTuple::new(py, all)?.into_any()),
            }
        }
    }
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (model, *, max_batch_size=None, max_wait=None, max_in_flight=None, capacity=None, capacity_of=None,
        capacity_bytes=None, when_full="reject", block_timeout=None, tenants=None, max_overtakes=None, adaptive=None,
        latency_objective=None, padding=None))]
    #[allow(clippy::too_many_arguments)] // Python's callers name them.
    fn made(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        max_batch_size: Option<usize>,
        max_wait: Option<f64>,
        max_in_flight: Option<usize>,
        capacity: Option<usize>,
        capacity_of: Option<HashMap<String, usize>>,
        capacity_bytes: Option<usize>,
        when_full: &str,
        block_timeout: Option<f64>,
        tenants: Option<HashMap<String, f64>>,
        max_overtakes: Option<u32>,
        adaptive: Option<bool>,
        latency_objective: Option<f64>,
        padding: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Queue> {
        let mut settings = BatchQueue::builder();
        if let Some(rows) = max_batch_size {
            settings = settings.max_batch_size(rows);
        }
        if let Some(seconds) = max_wait {
            settings = settings.max_wait(duration(py, "max_wait", seconds)?);
        }
        if let Some(batches) = max_in_flight {
            settings = settings.max_in_flight(batches);
        }
        if let Some(requests) = capacity {
            settings = settings.capacity(requests);
        }
        for (name, requests) in capacity_of.into_iter().flatten() {
            settings = settings.capacity_of(priority(py, &name)?, requests);
        }
        if let Some(bytes) = capacity_bytes {
            settings = settings.capacity_bytes(bytes);
        }
        if let Some(batches) = max_overtakes {
            settings = settings.max_overtakes(batches);
        }
        if let Some(adaptive) = adaptive {
            settings = settings.adaptive(adaptive);
        }
        if let Some(seconds) = latency_objective {
            settings = settings.latency_objective(duration(py, "latency_objective", seconds)?);
        }
        if let Some(padding) = padding {
            settings = settings.padding(self::padding(padding)?);
        }
        for (name, weight) in tenants.into_iter().flatten() {
            settings = settings.tenant(name, weight);
        }
        settings = settings.when_full(match (when_full, block_timeout) {
            ("reject", None) => WhenFull::Reject,
            ("block", None) => WhenFull::Block,
            ("block", Some(seconds)) => WhenFull::Wait(duration(py, "block_timeout", seconds)?),
            _ => return Err(invalid(py, "when_full is \"reject\" or \"block\", and only \"block\" takes a block_timeout")),
        });
        let (queue, behind) = if let Ok(session) = model.cast::<Session>() {
            let queue = py.detach({
                let session = session.get();
                || BatchQueue::for_session(session.inner(), settings)
            });
            (queue, Behind::Session(session.clone().unbind()))
        } else if model.is_callable() {
            let function = model.clone().unbind();
            let built = settings.build(move |batch| call(&function, batch));
            (built.map_err(streampool::Error::from), Behind::Function)
        } else {
            return Err(invalid(
                py,
                "model is neither a Session nor a function of arrays",
            ));
        };
        Ok(Queue {
            blocks: when_full == "block" && block_timeout.is_none(),
            queue: queue.map_err(|error| raise(py, error))?,
            behind,
        })
    }

    /// Answers one request, and waits for that.
    #[pyo3(signature = (inputs, **how))]
    fn infer<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        how: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = self.asked(py, inputs, how)?;
        let outputs = match is_main(py)? {
            false => py.detach(|| self.queue.infer(asked.request)),
            true => match self.submitted(py, asked.request)? {
                Ok(ticket) => block_on(py, ticket)?,
                Err(error) => Err(error),
            },
        };
        let outputs = outputs.map_err(|error| raise(py, error))?;
        answer(py, &self.behind, outputs, asked.library)
    }

    /// Hands one request in; `future` is completed with its answer. One of an event loop's gets it through the loop's inbox, and
    /// waits for room without blocking the loop.
    #[pyo3(signature = (inputs, future, how, inbox=None))]
    fn start(
        slf: &Bound<'_, Queue>,
        inputs: &Bound<'_, PyAny>,
        future: Py<PyAny>,
        how: Option<&Bound<'_, PyDict>>,
        inbox: Option<Py<Inbox>>,
    ) -> PyResult<u64> {
        let (py, this) = (slf.py(), slf.get());
        let asked = this.asked(py, inputs, how)?;
        let own = slf.clone().unbind();
        let finish = move |py: Python<'_>, outputs: Vec<Array>| {
            Ok(answer(py, &own.get().behind, outputs, asked.library)?.unbind())
        };
        if this.blocks && inbox.is_some() {
            let queue = this.queue.clone();
            let run = async move { queue.submit_when_room(asked.request).await?.await };
            return complete(run, Answer::to(future, inbox), None, Box::new(finish));
        }
        let ticket = this.submitted(py, asked.request)?;
        let ticket = ticket.map_err(|error| raise(py, error))?;
        complete(ticket, Answer::to(future, inbox), None, Box::new(finish))
    }

    /// What the queue has done so far.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&py.detach(|| self.queue.statistics()));
        let text = text.map_err(|why| invalid(py, why.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Closes the queue: requests that wait are answered, or cancelled.
    #[pyo3(signature = (*, cancel=false))]
    fn close(&self, py: Python<'_>, cancel: bool) -> PyResult<()> {
        let how = if cancel {
            Shutdown::Cancel
        } else {
            Shutdown::Drain
        };
        let queue = self.queue.clone();
        patiently(py, move || queue.shutdown(how))
    }

    /// Opens a closed queue again.
    fn restart(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.queue.restart())
            .map_err(|error| raise(py, error))
    }

    /// Whether it takes requests.
    #[getter]
    fn is_open(&self) -> bool {
        self.queue.is_open()
    }
}
