//! One point of a sweep: what is asked for, and what came of it.

use serde::Serialize;

use super::load::Driven;
use super::shapes::Shapes;
use crate::latencies::Percentiles;
use crate::text::counted;

/// How requests get to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Each thread runs the model on its own request.
    Threads,
    /// Threads hand their requests to a queue, which runs them in batches.
    Queue,
}

impl Via {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Via::Threads => "threads",
            Via::Queue => "queue",
        }
    }
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Which set of shapes it belongs to.
    pub set: usize,
    /// The shapes of each request.
    pub shapes: Shapes,
    /// How requests get to the model.
    pub via: Via,
    /// Threads that ask.
    pub threads: usize,
    /// Requests that arrive each second; without, each thread asks again as soon as it can.
    pub rate: Option<f64>,
}

impl Spec {
    /// It in a few words.
    pub fn told(&self) -> String {
        let rate = self.rate.map(|rate| format!(", {rate} requests/s"));
        format!(
            "{}{}",
            told(self.via, self.threads, self.shapes.rows),
            rate.unwrap_or_default()
        )
    }
}

fn told(via: Via, threads: usize, rows: usize) -> String {
    let place = match via {
        Via::Threads => "",
        Via::Queue => " at the queue",
    };
    let (threads, rows) = (
        counted(threads as u64, "thread"),
        counted(rows as u64, "row"),
    );
    format!("{threads}{place} and {rows} per request")
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    #[serde(skip)]
    pub set: usize,
    pub via: Via,
    pub threads: usize,
    /// Rows of each request.
    pub rows: usize,
    /// As `--shape` takes it.
    pub shape: String,
    /// Requests that arrived each second.
    pub offered_per_second: Option<f64>,
    /// From the begin to the last answer.
    pub seconds: f64,
    /// Those that were answered.
    pub requests: usize,
    pub requests_per_second: f64,
    pub rows_per_second: f64,
    /// From when a request arrived, not from when somebody got to it.
    pub latency_seconds: Percentiles,
    pub failed: u64,
    /// Why the first of them did.
    pub failure: Option<String>,
    /// Those that nobody got to in twice the time. What they had waited by then counts as their latency.
    pub given_up: usize,
    /// Rows that the queue ran at once, on average.
    pub rows_per_batch: Option<f64>,
}

impl Point {
    /// What came of `spec`, whose shapes are called `shape`.
    pub fn new<B>(
        spec: &Spec,
        shape: String,
        driven: Driven<B>,
        rows_per_batch: Option<f64>,
    ) -> Point {
        let calls = driven.calls;
        let requests = calls.times.len();
        let requests_per_second = requests as f64 / driven.seconds;
        Point {
            set: spec.set,
            via: spec.via,
            threads: spec.threads,
            rows: spec.shapes.rows,
            shape,
            offered_per_second: spec.rate,
            seconds: driven.seconds,
            requests,
            requests_per_second,
            rows_per_second: requests_per_second * spec.shapes.rows as f64,
            latency_seconds: calls.latencies().percentiles(),
            failed: calls.failed,
            failure: calls.failure,
            given_up: calls.given_up.len(),
            rows_per_batch,
        }
    }

    /// Who asked for how much, in a few words.
    pub fn setting(&self) -> String {
        told(self.via, self.threads, self.rows)
    }

    /// Whether other points differ from this one in how requests get to the model only.
    pub fn is_like(&self, other: &Point) -> bool {
        let asked = |point: &Point| {
            (
                point.set,
                point.threads,
                point.rows,
                point.offered_per_second,
            )
        };
        asked(self) == asked(other)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A point of a hundred requests a second, of which half took no longer than 10 ms.
    pub fn point(via: Via, threads: usize, rows: usize, rate: Option<f64>) -> Point {
        Point {
            set: 0,
            via,
            threads,
            rows,
            shape: format!("x={rows},3"),
            offered_per_second: rate,
            seconds: 1.0,
            requests: 100,
            requests_per_second: 100.0,
            rows_per_second: 100.0 * rows as f64,
            latency_seconds: Percentiles {
                p50: Some(0.01),
                ..Percentiles::default()
            },
            failed: 0,
            failure: None,
            given_up: 0,
            rows_per_batch: None,
        }
    }
}
