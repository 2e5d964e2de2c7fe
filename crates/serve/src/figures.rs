//! What became of a model's requests, over all its loads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use streampool::BatchQueue;
use streampool::batch::{Histogram, Statistics};

use crate::error::{Error, Reason, Refusal};
use crate::tenants::{Tenants, Who};
use crate::traces::Span;

/// Counters of one version of a model. A reload does not begin them anew.
#[derive(Default)]
pub struct Figures {
    success: Duration64,
    fail: Duration64,
    input: Duration64,
    output: Duration64,
    failures: [AtomicU64; Reason::ALL.len()],
    refusals: [AtomicU64; Refusal::ALL.len()],
    pending: AtomicU64,
    /// Milliseconds since 1970 at which the last request was answered.
    last: AtomicU64,
    queues: Mutex<Queues>,
}

/// A count and nanoseconds.
#[derive(Default)]
struct Duration64 {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Duration64 {
    fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        let count = self.count.load(Ordering::Relaxed);
        (count, self.nanos.load(Ordering::Relaxed))
    }
}

#[derive(Default)]
struct Queues {
    next: u64,
    live: BTreeMap<u64, BatchQueue>,
    past: QueueFigures,
}

/// What the queues of a model did.
#[derive(Debug, Clone, Default)]
pub struct QueueFigures {
    /// Nanoseconds that requests waited.
    pub queue_time: Histogram,
    /// Nanoseconds of batches.
    pub compute_time: Histogram,
    /// Rows of batches.
    pub batch_rows: Histogram,
    /// Why batches went.
    pub reasons: BTreeMap<String, u64>,
    /// Requests that wait.
    pub queued: u64,
    /// Batches that run.
    pub running: u64,
    /// Nanoseconds that the oldest request has waited.
    pub oldest_wait: u64,
    /// Of the elements of requests that were padded, the part that is padding.
    pub padding_waste: f64,
    /// Requests that waited, and nanoseconds of all, of each tenant.
    pub tenant_waits: BTreeMap<String, (u64, f64)>,
}

impl QueueFigures {
    fn add(&mut self, of: &Statistics) {
        self.queue_time.merge(&of.queue_time);
        self.compute_time.merge(&of.service_time);
        self.batch_rows.merge(&of.batch_rows);
        for (reason, count) in &of.reasons {
            let name = serde_json::to_value(reason).ok();
            let name = name.as_ref().and_then(|name| name.as_str());
            *self
                .reasons
                .entry(name.unwrap_or_default().to_owned())
                .or_default() += count;
        }
        self.queued += of.queued_requests as u64;
        self.running += of.running as u64;
        self.oldest_wait = self.oldest_wait.max(of.oldest_wait);
        self.padding_waste = self.padding_waste.max(of.padding_waste);
        for (tenant, of) in &of.tenants {
            let count = of.queue_time.count();
            let waits = self.tenant_waits.entry(tenant.clone()).or_default();
            waits.0 += count;
            waits.1 += of.queue_time.mean() * count as f64;
        }
    }
}

/// The counters at one time.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Requests answered with outputs: how many, and the nanoseconds of all.
    pub success: (u64, u64),
    /// Requests that failed.
    pub fail: (u64, u64),
    /// Requests whose inputs were read.
    pub input: (u64, u64),
    /// Requests whose outputs were written.
    pub output: (u64, u64),
    /// Failed requests by reason.
    pub failures: [u64; Reason::ALL.len()],
    /// Requests for which there was no room, by reason.
    pub refusals: [u64; Refusal::ALL.len()],
    /// Requests in progress.
    pub pending: u64,
    /// Milliseconds since 1970 at which the last request was answered; 0 if none was.
    pub last: u64,
    /// What the queues did.
    pub queues: QueueFigures,
}

impl Figures {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what a queue does until it is detached.
    pub fn attach(&self, queue: BatchQueue) -> u64 {
        let mut queues = self.queues();
        queues.next += 1;
        let number = queues.next;
        queues.live.insert(number, queue);
        number
    }

    /// Keeps what a queue did.
    pub fn detach(&self, number: u64) {
        let mut queues = self.queues();
        if let Some(queue) = queues.live.remove(&number) {
            let statistics = queue.statistics();
            queues.past.add(&statistics);
            // Whatever it still holds is refused with it.
            (queues.past.queued, queues.past.running) = (0, 0);
            (queues.past.oldest_wait, queues.past.padding_waste) = (0, 0.0);
        }
    }

    /// A request has come, and is traced if there is a span for it.
    pub fn begin(
        self: &Arc<Figures>,
        tenants: &Arc<Tenants>,
        who: &Who,
        span: Option<Arc<Span>>,
    ) -> Watch {
        self.pending.fetch_add(1, Ordering::Relaxed);
        tenants.know(who.tenant.as_ref());
        Watch {
            figures: self.clone(),
            tenants: tenants.clone(),
            tenant: who.tenant.clone(),
            begun: Instant::now(),
            reason: Some(Reason::Cancelled),
            span,
        }
    }

    /// The counters now.
    pub fn seen(&self) -> Seen {
        let queues = {
            let queues = self.queues();
            let mut all = queues.past.clone();
            for queue in queues.live.values() {
                all.add(&queue.statistics());
            }
            all
        };
        Seen {
            success: self.success.get(),
            fail: self.fail.get(),
            input: self.input.get(),
            output: self.output.get(),
            failures: std::array::from_fn(|at| self.failures[at].load(Ordering::Relaxed)),
            refusals: std::array::from_fn(|at| self.refusals[at].load(Ordering::Relaxed)),
            pending: self.pending.load(Ordering::Relaxed),
            last: self.last.load(Ordering::Relaxed),
            queues,
        }
    }
}

/// A request in progress. If it is dropped before its end, its client has gone away.
pub struct Watch {
    figures: Arc<Figures>,
    tenants: Arc<Tenants>,
    tenant: Option<Arc<str>>,
    begun: Instant,
    /// Why it fails, if it ends now.
    reason: Option<Reason>,
    span: Option<Arc<Span>>,
}

impl Watch {
    /// Its span, if it is traced.
    pub fn span(&self) -> Option<Arc<Span>> {
        self.span.clone()
    }

    /// Its inputs were read within this time.
    pub fn input(&self, took: Duration) {
        self.figures.input.add(took);
    }

    /// Its outputs were written within this time.
    pub fn output(&self, took: Duration) {
        self.figures.output.add(took);
    }

    /// It is over.
    pub fn end(mut self, error: Option<&Error>) {
        self.reason = error.map(Error::reason);
        if let Some(refusal) = error.and_then(Error::refusal) {
            self.figures.refusals[refusal as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let figures = &self.figures;
        figures.pending.fetch_sub(1, Ordering::Relaxed);
        let took = self.begun.elapsed();
        self.tenants.count(self.tenant.as_ref(), self.reason, took);
        match self.reason {
            None => figures.success.add(took),
            Some(reason) => {
                figures.fail.add(took);
                figures.failures[reason as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = now.map_or(0, |now| now.as_millis() as u64);
        figures.last.store(millis, Ordering::Relaxed);
        if let Some(span) = &self.span {
            span.end(self.reason.map(Reason::label));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_ends_once() {
        let figures = Arc::new(Figures::default());
        let tenants = Arc::new(Tenants::new(1));
        let begin = || figures.begin(&tenants, &Who::default(), None);
        begin().end(None);
        begin().end(Some(&Error::Deadline));
        drop(begin());
        let open = begin();
        let seen = figures.seen();
        assert_eq!((seen.success.0, seen.fail.0, seen.pending), (1, 2, 1));
        let of = |reason: Reason| seen.failures[reason as usize];
        assert_eq!(
            (
                of(Reason::Deadline),
                of(Reason::Cancelled),
                of(Reason::Backend)
            ),
            (1, 1, 0)
        );
        open.end(Some(&Error::ShuttingDown));
        let seen = figures.seen();
        assert_eq!(seen.pending, 0);
        assert_eq!(seen.refusals[Refusal::ShuttingDown as usize], 1);
        let (_, of) = &tenants.seen()[0];
        assert_eq!((of.success, of.failures.iter().sum()), (1, 3));
    }
}
