//! Streams and events as `torch.cuda` and `torch.mps` have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use streampool::{Lease, Pool};

use crate::devices::{duration, pool};
use crate::errors::raise;
use crate::signals::patiently;

/// A stream of a device. Work on one stream runs in order; streams run side by side.
#[pyclass(frozen, module = "streampool")]
pub struct Stream {
    pool: Pool,
    stream: streampool::Stream,
    /// Keeps others from getting it.
    lease: Option<Arc<Lease>>,
}

impl Stream {
    fn new(pool: Pool, stream: streampool::Stream) -> Stream {
        Stream {
            pool,
            stream,
            lease: None,
        }
    }
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (device="auto"))]
    fn leased(py: Python<'_>, device: &str) -> PyResult<Stream> {
        let pool = pool(py, device)?;
        let lease = py
            .detach(|| pool.lease())
            .map_err(|error| raise(py, error))?;
        Ok(Stream {
            pool,
            stream: (*lease).clone(),
            lease: Some(Arc::new(lease)),
        })
    }

    /// Its number in the pool: 0 is the default stream.
    #[getter]
    fn index(&self) -> u8 {
        self.stream.index()
    }

    /// The device it belongs to.
    #[getter]
    fn device(&self) -> &'static str {
        self.pool.device().properties().kind.name()
    }

    /// Whether all work on it is over. Never blocks.
    fn query(&self) -> bool {
        self.stream.is_idle()
    }

    /// Waits for all work on it.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.stream.clone();
        patiently(py, move || stream.synchronize())?.map_err(|error| raise(py, error))
    }

    /// Work that comes later waits for an event.
    fn wait_event(&self, py: Python<'_>, event: &Event) -> PyResult<()> {
        py.detach(|| self.stream.wait(&event.event))
            .map_err(|error| raise(py, error))
    }

    /// Work that comes later waits for all work on another stream.
    fn wait_stream(&self, py: Python<'_>, other: &Stream) -> PyResult<()> {
        py.detach(|| self.stream.wait_for_stream(&other.stream))
            .map_err(|error| raise(py, error))
    }

    /// Records an event, by default a new one, and returns it.
    #[pyo3(signature = (event=None))]
    fn record_event<'py>(
        &self,
        py: Python<'py>,
        event: Option<Bound<'py, Event>>,
    ) -> PyResult<Bound<'py, Event>> {
        let event = match event {
            Some(event) => event,
            None => Bound::new(py, Event::of(py, &self.pool, false)?)?,
        };
        let recorded = py.detach({
            let event = event.get();
            || self.stream.record(&event.event)
        });
        recorded.map_err(|error| raise(py, error))?;
        Ok(event)
    }

    /// Makes the stream usable again after a fault.
    fn recover(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.stream.recover())
            .map_err(|error| raise(py, error))
    }

    fn __eq__(&self, other: &Stream) -> bool {
        self.pool.is_same(&other.pool) && self.stream.index() == other.stream.index()
    }

    fn __hash__(&self) -> u64 {
        self.stream.pool_id().wrapping_mul(64) + u64::from(self.stream.index())
    }

    fn __repr__(&self) -> String {
        let leased = if self.lease.is_some() { ", leased" } else { "" };
        format!(
            "<streampool.Stream {} of {}{leased}>",
            self.stream.index(),
            self.pool.device().properties().kind.name()
        )
    }
}

/// A point of a stream that others can wait for.
#[pyclass(frozen, module = "streampool")]
pub struct Event {
    pool: Pool,
    event: Arc<streampool::Event>,
}

impl Event {
    fn of(py: Python<'_>, pool: &Pool, timing: bool) -> PyResult<Event> {
        let event = match timing {
            true => pool.timed_event(),
            false => pool.event(),
        };
        Ok(Event {
            pool: pool.clone(),
            event: Arc::new(event.map_err(|error| raise(py, error))?),
        })
    }
}

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (enable_timing=false, *, device="auto"))]
    fn made(py: Python<'_>, enable_timing: bool, device: &str) -> PyResult<Event> {
        Event::of(py, &pool(py, device)?, enable_timing)
    }

    /// Records it on a stream, by default the current one.
    #[pyo3(signature = (stream=None))]
    fn record(&self, py: Python<'_>, stream: Option<&Stream>) -> PyResult<()> {
        let recorded = match stream {
            Some(stream) => py.detach(|| stream.stream.record(&self.event)),
            None => {
                let stream = current(py, &self.pool)?;
                py.detach(|| stream.record(&self.event))
            }
        };
        recorded.map(|_| ()).map_err(|error| raise(py, error))
    }

    /// Work that comes later on a stream, by default the current one, waits for it.
    #[pyo3(signature = (stream=None))]
    fn wait(&self, py: Python<'_>, stream: Option<&Stream>) -> PyResult<()> {
        let waited = match stream {
            Some(stream) => py.detach(|| stream.stream.wait(&self.event)),
            None => {
                let stream = current(py, &self.pool)?;
                py.detach(|| stream.wait(&self.event))
            }
        };
        waited.map_err(|error| raise(py, error))
    }

    /// Whether everything before its latest recording is over. Never blocks.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        let status = self.event.query().map_err(|error| raise(py, error))?;
        Ok(status != streampool::device::EventStatus::Pending)
    }

    /// Waits for everything before its latest recording.
    #[pyo3(signature = (timeout=None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let time = timeout
            .map(|seconds| duration(py, "timeout", seconds))
            .transpose()?;
        let event = self.event.clone();
        let waited = patiently(py, move || match time {
            Some(time) => event.wait_timeout(time),
            None => event.wait(),
        })?;
        waited.map_err(|error| raise(py, error))
    }

    /// Milliseconds from this event to a later one. Both need `enable_timing`.
    fn elapsed_time(&self, py: Python<'_>, end: &Event) -> PyResult<f64> {
        let elapsed = py.detach(|| end.event.elapsed_since(&self.event));
        let elapsed = elapsed.map_err(|error| raise(py, error))?;
        Ok(elapsed.as_secs_f64() * 1e3)
    }
}

/// Whether anybody has ever chosen a stream: if not, nobody needs to look.
static CHOSEN: AtomicBool = AtomicBool::new(false);

/// The stream that the thread or the task has chosen with `streampool.stream`, if it is one of this pool.
pub fn chosen(py: Python<'_>, pool: &Pool) -> PyResult<Option<streampool::Stream>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !CHOSEN.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let variable = VARIABLE.get_or_try_init(py, || {
        Ok::<_, PyErr>(
            py.import("streampool._streams")?
                .getattr("_chosen")?
                .unbind(),
        )
    })?;
    for stream in variable
        .bind(py)
        .call_method0(intern!(py, "get"))?
        .try_iter()?
    {
        let stream = stream?.cast_into::<Stream>()?;
        if stream.get().pool.is_same(pool) {
            return Ok(Some(stream.get().stream.clone()));
        }
    }
    Ok(None)
}

/// The stream that work goes to now.
pub fn current(py: Python<'_>, pool: &Pool) -> PyResult<streampool::Stream> {
    if let Some(stream) = chosen(py, pool)? {
        return Ok(stream);
    }
    let stream = py.detach(|| pool.current().cloned());
    stream.map_err(|error| raise(py, error))
}

/// The stream that work of the calling thread goes to.
#[pyfunction]
#[pyo3(signature = (device="auto"))]
pub fn current_stream(py: Python<'_>, device: &str) -> PyResult<Stream> {
    let pool = pool(py, device)?;
    let stream = current(py, &pool)?;
    Ok(Stream::new(pool, stream))
}

/// Stream 0, which belongs to the main thread.
#[pyfunction]
#[pyo3(signature = (device="auto"))]
pub fn default_stream(py: Python<'_>, device: &str) -> PyResult<Stream> {
    let pool = pool(py, device)?;
    let stream = pool
        .default_stream()
        .cloned()
        .map_err(|error| raise(py, error))?;
    Ok(Stream::new(pool, stream))
}

/// Says from now on that streams are chosen. `streampool.stream` calls it.
#[pyfunction]
pub fn stream_was_chosen() {
    CHOSEN.store(true, Ordering::Relaxed);
}

/// The next of the pool's streams that tasks are spread over.
pub fn next_stream(pool: &Pool) -> streampool::Result<streampool::Stream> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    /// As many as a GPU can make use of.
    const STREAMS: usize = 8;
    let workers = pool.settings().streams.saturating_sub(1).clamp(1, STREAMS);
    // Stream 0 is the main thread's; the last ones are the last that other threads are given.
    let place = NEXT.fetch_add(1, Ordering::Relaxed) % workers;
    let index = pool.settings().streams.saturating_sub(1 + place);
    Ok(pool.stream(index)?.clone())
}
