//! Waits: how threads wait for the GPU, and how many do.
//!
//! The driver has a thread that waits spin, which is fastest while there are processors to spare. Where more threads wait
//! than there are processors, spinning keeps those from a processor that could go on: they are late by the scheduler's
//! turns, milliseconds each. So from some number on, threads that wait ask and yield in turn.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::context::{Context, Failure};

/// Between two questions a thread yields at most so often.
const MOST_YIELDS: usize = 8;
/// After so many questions it sleeps instead: whatever it waits for takes long, and may need the processor.
const MOST_ROUNDS: usize = 64;
const REST: Duration = Duration::from_micros(20);
/// So seldom it asks all the same.
const MOST_SKIPPED: usize = 64;

/// The threads of this process that wait for a stream or an event of a GPU, without a deadline: an entry for each GPU, and if
/// there are more, some share one.
static WAITING: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// Waits by `spin`, or where too many do already, until `is_over`. To ask takes the driver's lock, shared: that is not done
/// while another thread needs it alone.
pub(crate) fn wait(
    context: &Context,
    spin: impl FnOnce() -> Result<(), Failure>,
    mut is_over: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let _waiting = Waiting::begin(context);
    let all: usize = WAITING.iter().map(of_relaxed).sum();
    if all <= most_that_spin() {
        return spin();
    }
    for round in 1.. {
        let may_ask = !context.is_shut() || round % MOST_SKIPPED == 0;
        if may_ask && is_over()? {
            break;
        }
        match round {
            ..MOST_ROUNDS => (0..MOST_YIELDS.min(round)).for_each(|_| thread::yield_now()),
            _ => thread::sleep(REST),
        }
    }
    Ok(())
}

/// How many threads wait for this GPU now, without a deadline.
#[inline]
pub(crate) fn waiting(context: &Context) -> usize {
    of_relaxed(of_gpu(context))
}

/// A thread waits for a GPU until this is dropped.
struct Waiting(&'static AtomicUsize);

impl Waiting {
    fn begin(context: &Context) -> Waiting {
        let waiting = of_gpu(context);
        // Relaxed: they are only counted.
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[inline]
fn of_gpu(context: &Context) -> &'static AtomicUsize {
    &WAITING[context.device().unsigned_abs() as usize % WAITING.len()]
}

#[inline]
fn of_relaxed(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

/// Some processors are left to those who do something.
fn most_that_spin() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST
        .get_or_init(|| thread::available_parallelism().map_or(1, |all| (all.get() * 3 / 4).max(1)))
}
