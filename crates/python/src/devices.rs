//! Pools of streams by the name of their device, and what they hold.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use streampool::{Pool, Settings, WhenExhausted};

use crate::errors::{invalid, raise};
use crate::signals::patiently;

/// The pools of this process, and how those that come are made.
struct Pools {
    made: Option<HashMap<String, Pool>>,
    streams: Option<usize>,
    when_exhausted: Option<WhenExhausted>,
    memory_limit: Option<usize>,
    /// What part of its memory a device's pool takes at most, by the device's name.
    fractions: Option<HashMap<String, f64>>,
}

static POOLS: Mutex<Pools> = Mutex::new(Pools {
    made: None,
    streams: None,
    when_exhausted: None,
    memory_limit: None,
    fractions: None,
});

/// The pool of a device: the same one for the same name, each time.
pub fn pool(py: Python<'_>, device: &str) -> PyResult<Pool> {
    let name = full_name(py, device)?;
    // A device takes a while to open, and logs may want the interpreter meanwhile.
    let opened = py.detach(|| {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.made.get_or_insert_default().get(&name) {
            return Ok(pool.clone());
        }
        let mut settings = Settings::builder();
        if let Some(streams) = pools.streams {
            settings = settings.streams(streams);
        }
        if let Some(policy) = pools.when_exhausted {
            settings = settings.exhaustion(policy);
        }
        if pools.memory_limit.is_some() {
            settings = settings.memory_limit(pools.memory_limit);
        }
        let device = open(&name)?;
        if let Some(fraction) = pools.fractions.as_ref().and_then(|all| all.get(&name)) {
            let capacity = device.properties().memory_capacity;
            settings = settings.memory_limit(Some((capacity as f64 * fraction) as usize));
        }
        let pool = Pool::with_settings(device, settings.build()?)?;
        pools
            .made
            .get_or_insert_default()
            .insert(name.clone(), pool.clone());
        Ok::<Pool, streampool::Error>(pool)
    });
    opened.map_err(|error| raise(py, error))
}

fn open(name: &str) -> streampool::Result<std::sync::Arc<dyn streampool::device::Device>> {
    let (kind, _number) = name.split_once(':').unwrap_or((name, "0"));
    #[cfg(feature = "cuda")]
    if kind == "cuda" {
        let options = streampool::cuda::CudaOptions::from_env()?;
        let options = match _number.parse() {
            Ok(number) => options.ordinal(number),
            Err(_) => options,
        };
        return Ok(streampool::cuda::CudaDevice::new(options)?);
    }
    #[cfg(feature = "metal")]
    if kind == "metal" {
        return Ok(streampool::metal::MetalDevice::new(
            streampool::metal::MetalOptions::from_env()?,
        )?);
    }
    let _ = kind;
    Ok(streampool::host::HostDevice::new(
        streampool::host::HostOptions::from_env()?,
    )?)
}

/// What a device is called here, whatever a caller calls it.
fn full_name(py: Python<'_>, device: &str) -> PyResult<String> {
    let expected = "expected \"host\", \"cuda\", \"cuda:N\", \"metal\" or \"auto\"";
    let (kind, number) = device.split_once(':').unwrap_or((device, ""));
    let is_number = number.is_empty() || number.parse::<usize>().is_ok();
    let known = match (kind, is_number) {
        ("host" | "cpu", true) if number.is_empty() || number == "0" => "host".to_owned(),
        ("cuda", true) if number.is_empty() => "cuda:0".to_owned(),
        ("cuda", true) => device.to_owned(),
        ("metal" | "mps", true) if number.is_empty() || number == "0" => "metal".to_owned(),
        ("auto", true) if number.is_empty() => best(py),
        _ => return Err(invalid(py, format!("device is {device:?}, {expected}"))),
    };
    let is_built = match known.split(':').next() {
        Some("cuda") => cfg!(feature = "cuda"),
        Some("metal") => cfg!(feature = "metal"),
        _ => true,
    };
    match is_built {
        true => Ok(known),
        false => Err(invalid(
            py,
            format!("this build of the package has no {kind}"),
        )),
    }
}

/// A GPU if one can be used, and the host if none can.
fn best(py: Python<'_>) -> String {
    let all = py.detach(streampool::devices);
    let usable =
        |status: &&streampool::DeviceStatus| status.device.is_ok() && status.name != "host";
    all.iter()
        .find(usable)
        .map_or("host".to_owned(), |status| match status.name.as_str() {
            "cuda" => "cuda:0".to_owned(),
            other => other.to_owned(),
        })
}

/// Sets how pools are made from now on.
#[pyfunction]
#[pyo3(signature = (*, streams=None, when_exhausted=None, timeout=None, memory_limit=None))]
pub fn configure(
    py: Python<'_>,
    streams: Option<usize>,
    when_exhausted: Option<&str>,
    timeout: Option<f64>,
    memory_limit: Option<usize>,
) -> PyResult<()> {
    let policy = match (when_exhausted, timeout) {
        (None, None) => None,
        (Some("share"), None) => Some(WhenExhausted::Share),
        (Some("fail"), None) => Some(WhenExhausted::Fail),
        (Some("wait"), None) => Some(WhenExhausted::Wait(None)),
        (Some("wait") | None, Some(seconds)) => {
            Some(WhenExhausted::Wait(Some(duration(py, "timeout", seconds)?)))
        }
        (Some(other), _) => {
            let why = format!(
                "when_exhausted is {other:?}, expected \"share\", \"fail\" or \"wait\", which alone takes a timeout"
            );
            return Err(invalid(py, why));
        }
    };
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if pools.made.as_ref().is_some_and(|made| !made.is_empty()) {
        return Err(invalid(
            py,
            "a device is in use already: call configure before anything else",
        ));
    }
    pools.streams = streams.or(pools.streams);
    pools.when_exhausted = policy.or(pools.when_exhausted);
    pools.memory_limit = memory_limit.or(pools.memory_limit);
    Ok(())
}

/// Has a device's pool take at most this part of the device's memory. It has to be said before the device is used.
#[pyfunction]
#[pyo3(signature = (fraction, device="auto"))]
pub fn set_per_process_memory_fraction(
    py: Python<'_>,
    fraction: f64,
    device: &str,
) -> PyResult<()> {
    if !(fraction > 0.0 && fraction <= 1.0) {
        let why = format!("fraction is {fraction}, expected more than 0, and 1 at most");
        return Err(invalid(py, why));
    }
    let name = full_name(py, device)?;
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if pools
        .made
        .as_ref()
        .is_some_and(|made| made.contains_key(&name))
    {
        let why = format!("{name} is in use already: set the fraction before anything else");
        return Err(invalid(py, why));
    }
    pools
        .fractions
        .get_or_insert_default()
        .insert(name, fraction);
    Ok(())
}

/// A time that a caller gives in seconds.
pub fn duration(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        invalid(
            py,
            format!("{name} is {seconds}, expected a number of seconds, 0 or more"),
        )
    })
}

/// How many usable devices of a kind there are.
#[pyfunction]
#[pyo3(signature = (kind="cuda"))]
pub fn device_count(py: Python<'_>, kind: &str) -> usize {
    let all = py.detach(streampool::devices);
    let is_of =
        |status: &&streampool::DeviceStatus| status.kind.name() == kind && status.device.is_ok();
    all.iter().filter(is_of).count()
}

/// Every kind of device: its name, whether it can be used, and why not.
#[pyfunction]
pub fn devices(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for status in py.detach(streampool::devices) {
        let entry = PyDict::new(py);
        entry.set_item("name", &status.name)?;
        entry.set_item("usable", status.device.is_ok())?;
        entry.set_item("why", status.device.err().map(|why| why.to_string()))?;
        list.append(entry)?;
    }
    Ok(list)
}

/// Waits for all work on a device.
#[pyfunction]
#[pyo3(signature = (device="auto"))]
pub fn synchronize(py: Python<'_>, device: &str) -> PyResult<()> {
    let pool = pool(py, device)?;
    patiently(py, move || pool.synchronize())?.map_err(|error| raise(py, error))
}

/// Gives memory that nobody uses back to the device, and says how many bytes.
#[pyfunction]
#[pyo3(signature = (device="auto"))]
pub fn empty_cache(py: Python<'_>, device: &str) -> PyResult<usize> {
    let pool = pool(py, device)?;
    py.detach(|| pool.trim()).map_err(|error| raise(py, error))
}

/// Gives the calling thread's stream back to the pool, after its work.
#[pyfunction]
#[pyo3(signature = (device="auto"))]
pub fn release_current_stream(py: Python<'_>, device: &str) -> PyResult<bool> {
    let pool = pool(py, device)?;
    Ok(py.detach(|| pool.release_current_stream()))
}

/// What a pool holds: memory, streams and caches.
#[pyfunction]
#[pyo3(signature = (device="auto"))]
pub fn memory_stats<'py>(py: Python<'py>, device: &str) -> PyResult<Bound<'py, PyDict>> {
    let pool = pool(py, device)?;
    let snapshot = py
        .detach(|| pool.snapshot())
        .map_err(|error| raise(py, error))?;
    let (stats, memory) = (PyDict::new(py), &snapshot.memory);
    stats.set_item("device", &snapshot.device)?;
    stats.set_item("streams", snapshot.streams)?;
    stats.set_item("free_streams", snapshot.free_streams)?;
    stats.set_item("waiting_threads", snapshot.waiting_threads)?;
    stats.set_item("allocated_bytes", memory.in_use)?;
    stats.set_item("pending_bytes", memory.pending)?;
    stats.set_item("reserved_bytes", memory.reserved)?;
    stats.set_item("peak_reserved_bytes", memory.peak_reserved)?;
    stats.set_item("overhead_bytes", memory.overhead)?;
    stats.set_item("limit_bytes", memory.limit)?;
    stats.set_item("device_allocations", memory.device_allocations)?;
    Ok(stats)
}

/// Everything that a pool knows of itself: memory and work of each stream, events, caches, and what the device needs care for.
#[pyfunction]
#[pyo3(signature = (device="auto"))]
pub fn memory_snapshot<'py>(py: Python<'py>, device: &str) -> PyResult<Bound<'py, PyAny>> {
    let pool = pool(py, device)?;
    let snapshot = py
        .detach(|| pool.snapshot())
        .map_err(|error| raise(py, error))?;
    let text = serde_json::to_string(&snapshot).map_err(|why| invalid(py, why.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
