//! Traces of requests, as OpenTelemetry has them: what is traced, the spans of a request, and how they leave the server.
//!
//! A request is a span, with a span for its wait in the queue and one for its run. The batch that it ran in is a trace of its own, because
//! it belongs to many requests: each run has a link to it, and it has links to all of them.

mod context;
mod export;
mod settings;
mod span;
mod tracer;

pub use context::Context;
pub use export::{Counts, Destination, Exporter};
pub(crate) use settings::{Change, told};
pub use tracer::{Span, Tracer};
