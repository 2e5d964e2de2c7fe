//! How long a thread spends inside the imitation, so that a benchmark can subtract it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static MEASURING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Measures from now on, or no longer. Off at first, for reading the clock costs time, too.
pub fn measure_time_inside(on: bool) {
    MEASURING.store(on, Ordering::Relaxed);
}

/// How long this thread has been inside, in calls from outside while it was measured.
pub fn time_inside() -> Duration {
    SPENT.get()
}

/// Held by each function that is called from outside.
pub struct Inside {
    since: Option<Instant>,
    /// It counts for the thread it was made on.
    thread: PhantomData<*const ()>,
}

impl Inside {
    /// A call begins.
    pub fn enter() -> Inside {
        let outermost = DEPTH.replace(DEPTH.get() + 1) == 0;
        let since = (outermost && MEASURING.load(Ordering::Relaxed)).then(Instant::now);
        Inside {
            since,
            thread: PhantomData,
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if let Some(since) = self.since {
            SPENT.set(SPENT.get() + since.elapsed());
        }
    }
}
