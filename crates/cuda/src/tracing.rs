//! Intervals: when each op ran, on the host's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use streampool_device::lock::Mutex;
use streampool_device::{Interval, OpKind, Tick, Trace};

use crate::marks::Mark;
use crate::ranks;

/// Where intervals are sent, if anywhere.
pub(crate) struct Tracing {
    on: AtomicBool,
    sink: Mutex<Option<Sink>>,
}

/// A receiver of intervals, and the moment from which the device's clock is counted for it.
pub(crate) struct Sink {
    pub trace: Arc<dyn Trace>,
    pub origin: Arc<Origin>,
}

/// One moment on both clocks.
pub(crate) struct Origin {
    pub mark: Mark,
    pub at: Instant,
}

impl Tracing {
    pub fn new() -> Tracing {
        Tracing {
            on: AtomicBool::new(false),
            sink: Mutex::new(ranks::TRACE, None),
        }
    }

    pub fn set(&self, sink: Option<Sink>) {
        self.on.store(sink.is_some(), Ordering::Release);
        let old = std::mem::replace(&mut *self.sink.lock(), sink);
        drop(old);
    }

    /// From when the op that is encoded now is timed, if somebody wants to know.
    #[inline]
    pub fn origin(&self) -> Option<Arc<Origin>> {
        match self.on.load(Ordering::Acquire) {
            true => self.sink.lock().as_ref().map(|sink| sink.origin.clone()),
            false => None,
        }
    }

    /// Who gets the interval of the op that is over now.
    pub fn trace(&self) -> Option<Arc<dyn Trace>> {
        self.sink.lock().as_ref().map(|sink| sink.trace.clone())
    }
}

/// An op under way that will be reported.
pub(crate) struct Timed {
    pub tick: Tick,
    pub op: OpKind,
    pub begin: Mark,
    pub end: Mark,
    pub encoded: Instant,
    pub origin: Arc<Origin>,
}

impl Timed {
    /// The interval, once the op is over. Neither clock may run ahead of what is known: the op began after
    /// it was encoded and ended before it was seen to be over.
    pub fn interval(&self, queue: u32) -> Option<Interval> {
        let seen = Instant::now();
        let at = |mark: &Mark| {
            let milliseconds = mark.since(&self.origin.mark).ok()?;
            let offset = Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).ok()?;
            self.origin.at.checked_add(offset)
        };
        let begin = at(&self.begin)?.max(self.encoded).min(seen);
        let end = at(&self.end)?.max(begin).min(seen);
        Some(Interval {
            queue,
            tick: self.tick,
            op: self.op,
            begin,
            end,
        })
    }
}
