//! Intervals: when each op ran, on the host's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use streampool_device::lock::Mutex;
use streampool_device::{Interval, KernelInterval, OpKind, Tick, Trace};

use crate::marks::Mark;
use crate::ranks;

/// Where intervals are sent, if anywhere.
pub(crate) struct Tracing {
    on: AtomicBool,
    /// Threads that hand over intervals of ticks that are over.
    delivering: AtomicUsize,
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

    /// Whether anybody wants intervals.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// From when the op that is encoded now is timed, if somebody wants to know.
    #[inline]
    pub fn origin(&self) -> Option<Arc<Origin>> {
        match self.is_on() {
            true => self.sink.lock().as_ref().map(|sink| sink.origin.clone()),
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

/// An op under way, or a kernel of it, that will be reported.
pub(crate) struct Timed {
    pub tick: Tick,
    pub piece: Piece,
    pub encoded: Instant,
    pub origin: Arc<Origin>,
}

/// What happens between two marks.
pub(crate) struct Piece {
    pub op: OpKind,
    /// The kernel, if it is not the op as a whole; and two marks with nothing between them, in the same graph: what of its time is
    /// for the marks.
    pub kernel: Option<(Shape, [Arc<Mark>; 2])>,
    pub begin: Arc<Mark>,
    pub end: Arc<Mark>,
}

/// A kernel as it is launched.
pub(crate) struct Shape {
    pub name: Arc<str>,
    pub launches: usize,
    pub groups: u64,
    pub fit: u32,
}

impl Timed {
    /// Tells what it was, once it is over.
    pub fn tell(self, queue: u32, trace: &dyn Trace) {
        let Some(interval) = self.interval(queue) else {
            return;
        };
        match self.piece.kernel {
            None => trace.op(interval),
            Some((shape, _)) => trace.kernel(KernelInterval {
                interval,
                name: shape.name,
                launches: shape.launches,
                groups: shape.groups,
                fit: shape.fit,
            }),
        }
    }

    /// The interval, once the op is over. Neither clock may run ahead of what is known: the op began after
    /// it was encoded and ended before it was seen to be over.
    fn interval(&self, queue: u32) -> Option<Interval> {
        let seen = Instant::now();
        let since = |mark: &Mark, start: &Mark| {
            let milliseconds = mark.since(start).ok()?;
            Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).ok()
        };
        let at = |mark: &Mark| self.origin.at.checked_add(since(mark, &self.origin.mark)?);
        let begin = at(&self.piece.begin)?.max(self.encoded).min(seen);
        let end = match &self.piece.kernel {
            None => at(&self.piece.end)?.max(begin).min(seen),
            // Far from the origin the driver's numbers are not fine enough for a kernel.
            Some((_, [first, second])) => {
                let idle = since(second, first);
                let time = since(&self.piece.end, &self.piece.begin)?;
                begin.checked_add(time.saturating_sub(idle.unwrap_or_default()))?
            }
        };
        Some(Interval {
            queue,
            tick: self.tick,
            op: self.piece.op,
            begin,
            end,
        })
    }
}
