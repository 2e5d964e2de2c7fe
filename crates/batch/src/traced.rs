//! When the batch of a request ran, and with whom: for whoever traces requests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What a caller knows a request by; the queue hands it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The trace that the request is part of.
    pub trace: u128,
    /// Its place in that trace.
    pub span: u64,
}

/// A request that is traced. The queue writes down when it came and when its batch ran; see [`Request::traced`](crate::Request::traced).
#[derive(Debug)]
pub struct Traced {
    mark: Mark,
    came: OnceLock<Instant>,
    run: OnceLock<Arc<BatchRun>>,
}

impl Traced {
    /// A request with this mark.
    pub fn new(mark: Mark) -> Traced {
        Traced {
            mark,
            came: OnceLock::new(),
            run: OnceLock::new(),
        }
    }

    /// What the caller knows it by.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// When it came to the queue.
    pub fn came(&self) -> Option<Instant> {
        self.came.get().copied()
    }

    /// The batch that it ran in: the first, if it was divided. Nothing, if it did not run.
    pub fn run(&self) -> Option<&Arc<BatchRun>> {
        self.run.get()
    }

    pub(crate) fn comes(&self, now: Instant) {
        // Who gives one to two requests sees the first.
        let _ = self.came.set(now);
    }
}

/// A batch that has run.
#[derive(Debug)]
pub struct BatchRun {
    /// Tells it from all others of this process.
    pub number: u64,
    /// When it began.
    pub begun: Instant,
    /// When it ended.
    pub ended: Instant,
    /// How many rows it had.
    pub rows: usize,
    /// The lane that it ran on.
    pub lane: usize,
    /// Whether it went well.
    pub succeeded: bool,
    /// The marks of those of its requests that are traced.
    pub marks: Vec<Mark>,
    told: AtomicBool,
}

impl BatchRun {
    /// Whether nobody has asked before: of all that were in the batch, one tells of it.
    pub fn is_untold(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

/// What is known of a batch when it has ended.
pub struct Ended {
    pub begun: Instant,
    pub rows: usize,
    pub lane: usize,
    pub succeeded: bool,
}

/// Tells those of a batch's requests that are traced how it ran.
pub fn tell<'a>(requests: impl Iterator<Item = &'a Arc<Traced>> + Clone, batch: &Ended) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if requests.clone().next().is_none() {
        return;
    }
    let run = Arc::new(BatchRun {
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        begun: batch.begun,
        ended: Instant::now(),
        rows: batch.rows,
        lane: batch.lane,
        succeeded: batch.succeeded,
        marks: requests.clone().map(|request| request.mark).collect(),
        told: AtomicBool::new(false),
    });
    for request in requests {
        // The first batch of one that was divided counts.
        let _ = request.run.set(run.clone());
    }
}
