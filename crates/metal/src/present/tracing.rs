//! Intervals: when each op ran, on the host's clock.
//!
//! Metal times buffers. So while somebody wants intervals, each op has a buffer of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::ranks;
use streampool_device::lock::Mutex;
use streampool_device::{Interval, OpKind, Tick, Trace};

/// When the GPU began and ended a buffer, in seconds of its clock, once it is over.
pub(crate) type Times = OnceLock<(f64, f64)>;

/// Where intervals are sent, if anywhere.
pub(crate) struct Tracing {
    on: AtomicBool,
    /// Threads that hand over intervals of ticks that are over.
    delivering: AtomicUsize,
    sink: Mutex<Option<Sink>>,
}

/// A receiver of intervals, and the moment from which the GPU's clock is counted for it.
pub(crate) struct Sink {
    pub trace: Arc<dyn Trace>,
    pub origin: Origin,
}

/// One moment on both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub gpu: f64,
    pub at: Instant,
}

impl Tracing {
    pub fn new() -> Tracing {
        Tracing {
            on: AtomicBool::new(false),
            delivering: AtomicUsize::new(0),
            sink: Mutex::new(ranks::TRACE, None),
        }
    }

    /// Sends to another receiver from now on, when what is over has been sent to the last one.
    pub fn set(&self, sink: Option<Sink>) {
        while self.delivering.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        self.on.store(sink.is_some(), Ordering::Release);
        let old = std::mem::replace(&mut *self.sink.lock(), sink);
        drop(old);
    }

    /// Begins to hand over intervals, before their ticks are known to be over.
    pub fn begin_delivery(&self) -> Delivery<'_> {
        self.delivering.fetch_add(1, Ordering::AcqRel);
        Delivery(&self.delivering)
    }

    /// From when the op that is encoded now is timed, if somebody wants to know.
    #[inline]
    pub fn origin(&self) -> Option<Origin> {
        match self.on.load(Ordering::Acquire) {
            true => self.sink.lock().as_ref().map(|sink| sink.origin),
            false => None,
        }
    }

    /// Who gets the interval of the op that is over now.
    pub fn trace(&self) -> Option<Arc<dyn Trace>> {
        self.sink.lock().as_ref().map(|sink| sink.trace.clone())
    }
}

/// Ends when all its intervals are handed over.
pub(crate) struct Delivery<'a>(&'a AtomicUsize);

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An op under way that will be reported, alone in its buffers.
#[derive(Clone)]
pub(crate) struct Traced {
    pub tick: Tick,
    pub op: OpKind,
    pub encoded: Instant,
    pub origin: Origin,
    /// When its first buffer ran, if this one is not the first.
    pub first: Option<Arc<Times>>,
}

impl Traced {
    /// The interval of an op that ran in `times`, the one before it on its queue having ended at `before`. Neither
    /// clock may run ahead of what is known: the op began after it was encoded and ended before it was seen to be over.
    pub fn interval(&self, queue: u32, times: (f64, f64), before: Option<Instant>) -> Interval {
        let seen = Instant::now();
        let at = |seconds: f64| {
            let since = Duration::try_from_secs_f64(seconds - self.origin.gpu);
            self.origin.at + since.unwrap_or_default()
        };
        let first = self.first.as_ref().and_then(|first| first.get());
        let begun = first.map_or(times.0, |first| first.0);
        let earliest = before.map_or(self.encoded, |before| before.max(self.encoded));
        let begin = at(begun).max(earliest).min(seen);
        let end = at(times.1).max(begin).min(seen);
        Interval {
            queue,
            tick: self.tick,
            op: self.op,
            begin,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_one_another_whatever_the_clocks_say() {
        let now = Instant::now();
        let millis = Duration::from_millis;
        let traced = Traced {
            tick: 1,
            op: OpKind::Fill,
            encoded: now - millis(50),
            origin: Origin {
                gpu: 100.0,
                at: now - millis(100),
            },
            first: None,
        };
        let usual = traced.interval(0, (100.06, 100.07), None);
        assert_eq!(
            (usual.begin, usual.end),
            (now - millis(40), now - millis(30))
        );
        let early = traced.interval(0, (99.0, 99.5), None);
        assert_eq!(
            (early.begin, early.end),
            (traced.encoded, traced.encoded),
            "not before it was encoded"
        );
        let next = traced.interval(0, (100.06, 100.07), Some(usual.end));
        assert!(next.begin >= usual.end);
        let parts = Traced {
            first: Some(Arc::new(OnceLock::from((100.055, 100.058)))),
            ..traced.clone()
        };
        let whole = parts.interval(0, (100.06, 100.07), None);
        assert_eq!(
            (whole.begin, whole.end),
            (now - millis(45), now - millis(30)),
            "from the begin of its first buffer on"
        );
        let late = traced.interval(0, (100.06, 200.0), None);
        assert!(late.end <= Instant::now(), "not after it was seen");
    }
}
