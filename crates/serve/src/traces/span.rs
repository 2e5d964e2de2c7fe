//! The spans of a request that is over, in the JSON form of OpenTelemetry's protocol.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value as Json, json};
use streampool::batch::{BatchRun, Mark, Traced};

/// A traced request that is over.
#[derive(Debug)]
pub struct Finished {
    /// Its trace, and its own span.
    pub mark: Mark,
    /// The span of its client, if the client has one.
    pub parent: Option<u64>,
    /// Its model.
    pub model: String,
    /// The version of its model.
    pub version: u64,
    /// Who sent it.
    pub tenant: Option<Arc<str>>,
    /// When it came.
    pub begun: Instant,
    /// When its answer was there.
    pub ended: Instant,
    /// The reason why it failed, if it did.
    pub failure: Option<&'static str>,
    /// What it put into the queue: one, or one for each text.
    pub queued: Vec<Arc<Traced>>,
}

/// Makes spans.
#[derive(Debug)]
pub struct Writer {
    /// A moment by both clocks.
    now: (Instant, SystemTime),
    /// What tells the batches of this process from those of others.
    process: u64,
}

/// Kinds of spans.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;

impl Writer {
    /// It tells times as the clock of the system has them now.
    pub fn new() -> Writer {
        Writer {
            now: (Instant::now(), SystemTime::now()),
            process: fastrand::u64(1..),
        }
    }

    /// What goes to a collector: the spans of these requests, and of the batches that nobody has told of yet.
    pub fn message(&self, requests: &[Finished]) -> Json {
        let mut spans = Vec::new();
        for request in requests {
            self.request(request, &mut spans);
        }
        json!({"resourceSpans": [{
            "resource": {"attributes": [
                attribute("service.name", json!({"stringValue": "streampool"})),
                attribute("service.version", json!({"stringValue": env!("CARGO_PKG_VERSION")})),
                attribute("process.pid", json!({"intValue": std::process::id().to_string()})),
            ]},
            "scopeSpans": [{
                "scope": {"name": "streampool-serve", "version": env!("CARGO_PKG_VERSION")},
                "spans": spans,
            }],
        }]})
    }

    fn request(&self, request: &Finished, spans: &mut Vec<Json>) {
        let mut attributes = vec![
            text("streampool.model", &request.model),
            text("streampool.version", &request.version.to_string()),
        ];
        if let Some(tenant) = &request.tenant {
            attributes.push(text("streampool.tenant", tenant));
        }
        let name = format!("infer {}", request.model);
        let mut span = self.span(request.mark, &name, SERVER, (request.begun, request.ended));
        span["attributes"] = attributes.into();
        if let Some(parent) = request.parent {
            span["parentSpanId"] = hex64(parent).into();
        }
        if let Some(reason) = request.failure {
            span["status"] = json!({"code": 2, "message": reason});
        }
        spans.push(span);
        for queued in &request.queued {
            let Some(came) = queued.came() else { continue };
            let run = queued.run();
            let begun = run.map_or(request.ended, |run| run.begun.max(came));
            spans.push(self.child(request.mark, "queue", (came, begun)));
            if let Some(run) = run {
                let mut span = self.child(request.mark, "run", (begun, run.ended));
                span["links"] = json!([link(self.batch_mark(run))]);
                span["attributes"] = json!([number("streampool.batch.rows", run.rows)]);
                spans.push(span);
                if run.is_untold() {
                    spans.push(self.batch(run));
                }
            }
        }
    }

    /// A batch is a trace of its own.
    fn batch_mark(&self, run: &BatchRun) -> Mark {
        Mark {
            trace: u128::from(self.process) << 64 | u128::from(run.number),
            span: run.number,
        }
    }

    fn batch(&self, run: &BatchRun) -> Json {
        let mark = self.batch_mark(run);
        let mut span = self.span(mark, "batch", INTERNAL, (run.begun, run.ended));
        span["links"] = run.marks.iter().map(|&mark| link(mark)).collect();
        span["attributes"] = json!([
            number("streampool.batch.rows", run.rows),
            number("streampool.batch.lane", run.lane),
        ]);
        if !run.succeeded {
            span["status"] = json!({"code": 2});
        }
        span
    }

    fn child(&self, parent: Mark, name: &str, times: (Instant, Instant)) -> Json {
        let mark = Mark {
            trace: parent.trace,
            span: fastrand::u64(1..),
        };
        let mut span = self.span(mark, name, INTERNAL, times);
        span["parentSpanId"] = hex64(parent.span).into();
        span
    }

    fn span(&self, mark: Mark, name: &str, kind: u8, (begun, ended): (Instant, Instant)) -> Json {
        json!({
            "traceId": hex128(mark.trace),
            "spanId": hex64(mark.span),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": self.nanos(begun),
            "endTimeUnixNano": self.nanos(ended),
        })
    }

    /// Nanoseconds since 1970, as a text.
    fn nanos(&self, at: Instant) -> String {
        let (instant, time) = self.now;
        let time = match at.checked_duration_since(instant) {
            Some(later) => time.checked_add(later),
            None => time.checked_sub(instant.saturating_duration_since(at)),
        };
        let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        since.unwrap_or(Duration::ZERO).as_nanos().to_string()
    }
}

fn hex128(value: u128) -> String {
    format!("{value:032x}")
}

fn hex64(value: u64) -> String {
    format!("{value:016x}")
}

fn attribute(key: &str, value: Json) -> Json {
    json!({"key": key, "value": value})
}

fn text(key: &str, value: &str) -> Json {
    attribute(key, json!({"stringValue": value}))
}

fn number(key: &str, value: usize) -> Json {
    attribute(key, json!({"intValue": value.to_string()}))
}

fn link(mark: Mark) -> Json {
    json!({"traceId": hex128(mark.trace), "spanId": hex64(mark.span)})
}
