//! Decides which requests are traced, and follows those.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use streampool::batch::{Mark, Traced};

use super::context::Context;
use super::export::{self, Counts, Destination, Exporter, Queue};
use super::settings::{Change, Settings};
use super::span::Finished;
use crate::error::Result;

/// How much of one request is followed into the queue: a request may have thousands of texts.
const MOST_QUEUED: usize = 64;

/// Traces requests.
#[derive(Debug)]
pub struct Tracer {
    settings: Mutex<Settings>,
    queue: Queue,
}

/// A request that is traced.
#[derive(Debug)]
pub struct Span {
    tracer: Arc<Tracer>,
    mark: Mark,
    parent: Option<u64>,
    model: String,
    version: u64,
    tenant: Option<Arc<str>>,
    begun: Instant,
    queued: Mutex<Vec<Arc<Traced>>>,
}

impl Tracer {
    /// Traces one of so many requests, and those that their clients trace. The exporter has to [run](Exporter::run).
    pub fn new(to: Destination, rate: u64) -> (Arc<Tracer>, Exporter) {
        let (queue, exporter) = export::channel(to);
        let tracer = Tracer {
            settings: Mutex::new(Settings::new(rate)),
            queue,
        };
        (Arc::new(tracer), exporter)
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes settings of all models, or of one.
    pub(crate) fn change(&self, model: Option<&str>, changes: &[Change]) -> Result<()> {
        self.settings().change(model, changes)
    }

    /// The settings of all models, or of one.
    pub(crate) fn told(&self, model: Option<&str>) -> Vec<(&'static str, Vec<String>)> {
        self.settings().told(model)
    }

    /// A request has come: it is traced, or it is not.
    pub(crate) fn begin(
        self: &Arc<Tracer>,
        (model, version): (&str, u64),
        tenant: Option<&Arc<str>>,
        context: Option<Context>,
    ) -> Option<Arc<Span>> {
        let asked = context.map(|context| context.sampled);
        if !self.settings().take(model, asked) {
            return None;
        }
        let trace = context.map_or_else(|| fastrand::u128(1..), |context| context.mark.trace);
        Some(Arc::new(Span {
            tracer: self.clone(),
            mark: Mark {
                trace,
                span: fastrand::u64(1..),
            },
            parent: context.map(|context| context.mark.span),
            model: model.to_owned(),
            version,
            tenant: tenant.cloned(),
            begun: Instant::now(),
            queued: Mutex::default(),
        }))
    }

    /// Waits until all traces have left. To be called when no request is in progress any more.
    pub async fn flush(&self) {
        self.queue.flush().await;
    }

    /// What became of traces.
    pub fn counts(&self) -> &Counts {
        self.queue.counts()
    }
}

impl Span {
    /// Follows a request of the queue.
    pub(crate) fn follow(&self) -> Option<Arc<Traced>> {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        (queued.len() < MOST_QUEUED).then(|| {
            let traced = Arc::new(Traced::new(self.mark));
            queued.push(traced.clone());
            traced
        })
    }

    /// It is over.
    pub(crate) fn end(&self, failure: Option<&'static str>) {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        self.tracer.queue.put(Finished {
            mark: self.mark,
            parent: self.parent,
            model: self.model.clone(),
            version: self.version,
            tenant: self.tenant.clone(),
            begun: self.begun,
            ended: Instant::now(),
            failure,
            queued: std::mem::take(&mut *queued),
        });
    }
}
