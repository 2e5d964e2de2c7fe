//! `/metrics`: what became of requests, as text that Prometheus reads. Names that Triton has mean the same here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use streampool::DeviceUse;
use streampool::batch::Histogram;
use streampool::runtime::MemorySnapshot;

use crate::error::{Reason, Refusal};
use crate::figures::Seen;
use crate::server::Server;
use crate::statistics::total;
use crate::tenants::OTHERS;

/// A metric.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What it counts.
    pub help: &'static str,
    value: Value,
}

enum Value {
    /// One number of each model.
    Number(fn(&Seen) -> u64),
    /// One of each reason.
    Failures,
    /// One of each reason why there was no room.
    Refusals,
    /// A share or a time of each model.
    Part(fn(&Seen) -> f64),
    /// One of each tenant and outcome.
    TenantRequests,
    /// One of each tenant: how long its requests took, in seconds.
    TenantTime,
    /// One of each tenant: how many of its requests waited, or how long in seconds.
    TenantWaits(fn((u64, f64)) -> f64),
    /// Bytes of each device's memory.
    Memory(fn(&MemorySnapshot) -> usize),
    /// One number of each device.
    Device(fn(&DeviceUse) -> u64),
    /// One of each reason why a batch went.
    Batches,
    /// A histogram, with bounds, and what to divide values by.
    Histogram(fn(&Seen) -> &Histogram, &'static [f64], f64),
    /// Whether the server is ready.
    Ready,
    /// How many models are loaded.
    Models,
    /// Traces of requests, by what became of them.
    Traces,
}

const SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];
const ROWS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

const fn number(
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    of: fn(&Seen) -> u64,
) -> Metric {
    Metric {
        name,
        kind,
        help,
        value: Value::Number(of),
    }
}

const fn other(name: &'static str, kind: &'static str, help: &'static str, value: Value) -> Metric {
    Metric {
        name,
        kind,
        help,
        value,
    }
}

/// All metrics.
pub const METRICS: &[Metric] = &[
    number(
        "nv_inference_request_success",
        "counter",
        "Requests that were answered with outputs",
        |seen| seen.success.0,
    ),
    other(
        "nv_inference_request_failure",
        "counter",
        "Requests that failed, by reason",
        Value::Failures,
    ),
    number(
        "nv_inference_count",
        "counter",
        "Rows that were run",
        |seen| total(&seen.queues.batch_rows),
    ),
    number(
        "nv_inference_exec_count",
        "counter",
        "Batches that were run",
        |seen| seen.queues.batch_rows.count(),
    ),
    number(
        "nv_inference_request_duration_us",
        "counter",
        "Microseconds of requests that were answered, from header to answer",
        |seen| seen.success.1 / 1000,
    ),
    number(
        "nv_inference_queue_duration_us",
        "counter",
        "Microseconds that requests waited in the queue",
        |seen| total(&seen.queues.queue_time) / 1000,
    ),
    number(
        "nv_inference_compute_input_duration_us",
        "counter",
        "Microseconds that reading inputs took",
        |seen| seen.input.1 / 1000,
    ),
    number(
        "nv_inference_compute_infer_duration_us",
        "counter",
        "Microseconds of batches",
        |seen| total(&seen.queues.compute_time) / 1000,
    ),
    number(
        "nv_inference_compute_output_duration_us",
        "counter",
        "Microseconds that writing outputs took",
        |seen| seen.output.1 / 1000,
    ),
    number(
        "nv_inference_pending_request_count",
        "gauge",
        "Requests in progress",
        |seen| seen.pending,
    ),
    number(
        "streampool_queue_requests",
        "gauge",
        "Requests that wait in the queue",
        |seen| seen.queues.queued,
    ),
    number(
        "streampool_batches_running",
        "gauge",
        "Batches that run",
        |seen| seen.queues.running,
    ),
    other(
        "streampool_queue_seconds",
        "histogram",
        "How long requests waited in the queue",
        Value::Histogram(|seen| &seen.queues.queue_time, SECONDS, 1e9),
    ),
    other(
        "streampool_compute_seconds",
        "histogram",
        "How long batches took",
        Value::Histogram(|seen| &seen.queues.compute_time, SECONDS, 1e9),
    ),
    other(
        "streampool_batch_rows",
        "histogram",
        "Rows of batches",
        Value::Histogram(|seen| &seen.queues.batch_rows, ROWS, 1.0),
    ),
    other(
        "streampool_batches",
        "counter",
        "Batches, by the reason why they went when they did",
        Value::Batches,
    ),
    other(
        "streampool_rejects",
        "counter",
        "Requests for which there was no room, by reason",
        Value::Refusals,
    ),
    other(
        "streampool_oldest_wait_seconds",
        "gauge",
        "How long the oldest request in the queue has waited",
        Value::Part(|seen| seen.queues.oldest_wait as f64 / 1e9),
    ),
    other(
        "streampool_padding_waste",
        "gauge",
        "Of the elements of requests that are padded, the part that is padding, since the model was loaded",
        Value::Part(|seen| seen.queues.padding_waste),
    ),
    other(
        "streampool_tenant_requests",
        "counter",
        "Requests of each tenant, by outcome",
        Value::TenantRequests,
    ),
    other(
        "streampool_tenant_request_seconds",
        "counter",
        "Seconds that the requests of each tenant took",
        Value::TenantTime,
    ),
    other(
        "streampool_tenant_waits",
        "counter",
        "Requests of each tenant that went through a queue",
        Value::TenantWaits(|(count, _)| count as f64),
    ),
    other(
        "streampool_tenant_wait_seconds",
        "counter",
        "Seconds that the requests of each tenant waited in queues",
        Value::TenantWaits(|(_, nanos)| nanos / 1e9),
    ),
    other(
        "streampool_memory_used_bytes",
        "gauge",
        "Bytes of the device in use",
        Value::Memory(|memory| memory.in_use),
    ),
    other(
        "streampool_memory_reserved_bytes",
        "gauge",
        "Bytes taken from the device",
        Value::Memory(|memory| memory.reserved),
    ),
    other(
        "streampool_memory_limit_bytes",
        "gauge",
        "Bytes that may be taken from the device",
        Value::Memory(|memory| memory.limit),
    ),
    other(
        "streampool_device_up",
        "gauge",
        "Whether the device works, 1, or is lost and left out, 0",
        Value::Device(|device| u64::from(device.lost.is_none())),
    ),
    other(
        "streampool_device_requests",
        "gauge",
        "Requests of all models that wait for the device or run on it",
        Value::Device(|device| device.under_way as u64),
    ),
    other(
        "streampool_device_requests_total",
        "counter",
        "Requests of all models that were given to the device",
        Value::Device(|device| device.begun),
    ),
    other(
        "streampool_ready",
        "gauge",
        "Whether the server is ready: 1 or 0",
        Value::Ready,
    ),
    other(
        "streampool_models",
        "gauge",
        "Versions of models that are loaded",
        Value::Models,
    ),
    other(
        "streampool_traces",
        "counter",
        "Traces of requests, by outcome",
        Value::Traces,
    ),
];

/// The page.
pub fn text(server: &Server) -> String {
    let figures = server.repository().all_figures();
    let models: Vec<(String, Seen)> = figures
        .iter()
        .map(|(name, version, figures)| {
            let name = escaped(name);
            let labels = format!("model=\"{name}\",version=\"{version}\"");
            (labels, figures.seen())
        })
        .collect();
    let mut page = String::new();
    for metric in METRICS {
        // Writing to a string does not fail.
        let _ = write_metric(&mut page, metric, &models, server);
    }
    page
}

fn write_metric(
    page: &mut String,
    metric: &Metric,
    models: &[(String, Seen)],
    server: &Server,
) -> std::fmt::Result {
    let name = metric.name;
    writeln!(page, "# HELP {name} {}", metric.help)?;
    writeln!(page, "# TYPE {name} {}", metric.kind)?;
    match metric.value {
        Value::Ready => return writeln!(page, "{name} {}", u8::from(server.is_ready())),
        Value::Models => return writeln!(page, "{name} {}", server.repository().loaded().len()),
        Value::Traces => {
            let counts = server.tracer().map(|tracer| tracer.counts().seen());
            for (outcome, count) in counts.into_iter().flatten() {
                writeln!(page, "{name}{{outcome=\"{outcome}\"}} {count}")?;
            }
            return Ok(());
        }
        Value::TenantRequests | Value::TenantTime => {
            for (tenant, figures) in server.tenants().seen() {
                let tenant = escaped(&tenant);
                if matches!(metric.value, Value::TenantTime) {
                    let seconds = figures.time.as_secs_f64();
                    writeln!(page, "{name}{{tenant=\"{tenant}\"}} {seconds}")?;
                    continue;
                }
                let outcomes = Reason::ALL.map(|of| (of.label(), figures.failures[of as usize]));
                for (outcome, count) in [("SUCCESS", figures.success)].into_iter().chain(outcomes) {
                    writeln!(
                        page,
                        "{name}{{tenant=\"{tenant}\",outcome=\"{outcome}\"}} {count}"
                    )?;
                }
            }
            return Ok(());
        }
        Value::TenantWaits(of) => {
            for (tenant, waits) in tenant_waits(models, server) {
                let tenant = escaped(&tenant);
                writeln!(page, "{name}{{tenant=\"{tenant}\"}} {}", of(waits))?;
            }
            return Ok(());
        }
        Value::Memory(_) | Value::Device(_) => {
            let devices = server.repository().devices();
            for (device, pool) in devices.status().iter().zip(devices.pools()) {
                let number = match metric.value {
                    Value::Device(of) => Some(of(device)),
                    Value::Memory(of) => pool.snapshot().ok().map(|pool| of(&pool.memory) as u64),
                    _ => None,
                };
                if let Some(number) = number {
                    let device = escaped(&device.name);
                    writeln!(page, "{name}{{device=\"{device}\"}} {number}")?;
                }
            }
            return Ok(());
        }
        _ => {}
    }
    for (labels, seen) in models {
        match &metric.value {
            Value::Number(of) => writeln!(page, "{name}{{{labels}}} {}", of(seen))?,
            Value::Failures => {
                for reason in Reason::ALL {
                    let (label, count) = (reason.label(), seen.failures[reason as usize]);
                    writeln!(page, "{name}{{{labels},reason=\"{label}\"}} {count}")?;
                }
            }
            Value::Part(of) => writeln!(page, "{name}{{{labels}}} {}", of(seen))?,
            Value::Refusals => {
                for refusal in Refusal::ALL {
                    let (label, count) = (refusal.label(), seen.refusals[refusal as usize]);
                    writeln!(page, "{name}{{{labels},reason=\"{label}\"}} {count}")?;
                }
            }
            Value::Batches => {
                for (reason, count) in &seen.queues.reasons {
                    writeln!(page, "{name}{{{labels},reason=\"{reason}\"}} {count}")?;
                }
            }
            Value::Histogram(of, bounds, unit) => {
                let histogram = of(seen);
                for bound in *bounds {
                    let below = histogram
                        .counts()
                        .filter(|(last, _)| *last as f64 / unit <= *bound);
                    let below: u64 = below.map(|(_, count)| count).sum();
                    writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}")?;
                }
                let count = histogram.count();
                writeln!(page, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
                let sum = histogram.mean() * count as f64 / unit;
                writeln!(page, "{name}_sum{{{labels}}} {sum}")?;
                writeln!(page, "{name}_count{{{labels}}} {count}")?;
            }
            // They are not of one model.
            _ => {}
        }
    }
    Ok(())
}

/// How many requests of each tenant waited, and nanoseconds, over all models: of those that have a label, and of the others together.
fn tenant_waits(models: &[(String, Seen)], server: &Server) -> BTreeMap<Arc<str>, (u64, f64)> {
    let labels: BTreeSet<Arc<str>> = server
        .tenants()
        .seen()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let mut waits: BTreeMap<Arc<str>, (u64, f64)> = BTreeMap::new();
    for (tenant, (count, nanos)) in models
        .iter()
        .flat_map(|(_, seen)| &seen.queues.tenant_waits)
    {
        let own = labels.get(&tenant[..]).cloned();
        let all = waits
            .entry(own.unwrap_or_else(|| OTHERS.into()))
            .or_default();
        (all.0, all.1) = (all.0 + count, all.1 + nanos);
    }
    waits
}

/// A value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
