//! How long a thread spends inside the imitation, so that a benchmark can subtract it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static MEASURING: AtomicBool = AtomicBool::new(false);
/// What a call takes beside the time that it measures, in nanoseconds: about one reading of the clock.
static UNSEEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Measures from now on, or no longer. Off at first, for reading the clock costs time, too; a call's own readings
/// count as spent inside.
pub fn measure_time_inside(on: bool) {
    MEASURING.store(on, Ordering::Relaxed);
    UNSEEN.store(0, Ordering::Relaxed);
    if on {
        UNSEEN.store(unseen_by_a_call(), Ordering::Relaxed);
    }
}

/// How long this thread has been inside, in calls from outside while it was measured.
pub fn time_inside() -> Duration {
    SPENT.get()
}

fn unseen_by_a_call() -> u64 {
    const CALLS: u64 = 2_000;
    let measure = || {
        let (begun, inside) = (Instant::now(), time_inside());
        for _ in 0..CALLS {
            std::hint::black_box(Inside::enter());
        }
        let unseen = begun.elapsed().saturating_sub(time_inside() - inside);
        unseen.as_nanos() as u64 / CALLS
    };
    // A busy machine makes some longer, and none shorter.
    (0..5).map(|_| measure()).min().unwrap_or(0)
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
            let unseen = Duration::from_nanos(UNSEEN.load(Ordering::Relaxed));
            SPENT.set(SPENT.get() + since.elapsed() + unseen);
        }
    }
}
