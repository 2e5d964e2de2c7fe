//! What many callers get through together.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use streampool::batch::{Batch, BatchQueue};

use super::overhead::{LENGTH, nothing};
use super::row;
use crate::figure::{Figure, Goal, Measurement, Unit};
use crate::{Result, threads};

/// Callers of a function that does nothing.
const FEW: usize = 64;

/// Callers of one that takes its time, so that most of them sleep.
const MANY: usize = 256;

/// How long that takes, whatever is in a batch: as on a device, the processor is free meanwhile.
const BATCH: Duration = Duration::from_micros(100);

/// So many calls between two looks at the clock.
const CHUNK: u64 = 16;

/// Threads take turns on few processors: a round is so much longer that each has had several.
const TURNS: u32 = 8;

/// Requests that callers get through where the function does nothing.
pub fn of_nothing() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_callers_64",
        what: "  64 callers",
        unit: Unit::Rate,
        goal: Some(Goal::AtLeast(1e6)),
    };
    let queue = nothing()?;
    Ok(Measurement::new(FIGURE, move |slice| {
        requests(&queue, FEW, CHUNK, slice)
    }))
}

/// Requests that callers get through who wait for batches together.
pub fn of_batches() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_callers_256",
        what: "256 callers, batches of 100 us",
        unit: Unit::Rate,
        goal: None,
    };
    let queue = BatchQueue::builder()
        .max_batch_size(MANY)
        .build(|batch: Batch| {
            thread::sleep(BATCH);
            Ok::<Batch, Infallible>(batch)
        })?;
    Ok(Measurement::new(FIGURE, move |slice| {
        requests(&queue, MANY, 1, slice)
    }))
}

/// What bounds that: as many threads that do nothing but sleep until all do, and are woken.
pub fn of_sleepers() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "sleepers_256",
        what: "  256 threads asleep and awake",
        unit: Unit::Rate,
        goal: None,
    };
    Ok(Measurement::new(FIGURE, |slice| {
        Ok(awakenings(MANY, slice))
    }))
}

/// Requests of so many callers in a second.
fn requests(queue: &BatchQueue, callers: usize, chunk: u64, slice: Duration) -> Result<f64> {
    let ask = || Ok(queue.infer(row(LENGTH)).map(drop)?);
    let time = slice * TURNS;
    let count = |(), begin: Instant| {
        let mut calls = 0;
        while begin.elapsed() < time {
            (0..chunk).try_for_each(|_| ask())?;
            calls += chunk;
        }
        Ok(calls)
    };
    let together = threads::together(0..callers, |_| ask(), || (), count)?;
    let seconds = together.begin.elapsed().as_secs_f64();
    Ok(together.done.iter().sum::<u64>() as f64 / seconds)
}

/// How often in a second one of so many threads is woken, where each that is woken wakes two others.
fn awakenings(count: usize, slice: Duration) -> f64 {
    let sleepers = Sleepers {
        threads: OnceLock::new(),
        calls: (0..count).map(|_| AtomicU64::new(0)).collect(),
        asleep: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let sleepers = &sleepers;
    thread::scope(|scope| {
        let threads = (0..count).map(|number| scope.spawn(move || sleepers.sleep(number)));
        let threads: Vec<_> = threads.collect();
        let handles = threads.iter().map(|thread| thread.thread().clone());
        let handles = sleepers.threads.get_or_init(|| handles.collect());
        let (begin, time) = (Instant::now(), slice * TURNS);
        let mut rounds = 0;
        while begin.elapsed() < time {
            sleepers.until_asleep();
            sleepers.wake(handles, 0);
            rounds += 1;
        }
        let seconds = begin.elapsed().as_secs_f64();
        sleepers.until_asleep();
        sleepers.over.store(true, Ordering::Relaxed);
        sleepers.wake(handles, 0);
        (rounds * count) as f64 / seconds
    })
}

/// Threads that sleep until they are called.
struct Sleepers {
    threads: OnceLock<Vec<Thread>>,
    /// How often each was called.
    calls: Vec<AtomicU64>,
    /// How many sleep, or are about to.
    asleep: AtomicUsize,
    over: AtomicBool,
}

impl Sleepers {
    fn sleep(&self, number: usize) {
        let threads = self.threads.wait();
        for calls in 1.. {
            self.asleep.fetch_add(1, Ordering::AcqRel);
            while self.calls[number].load(Ordering::Acquire) < calls {
                thread::park();
            }
            for other in [2 * number + 1, 2 * number + 2] {
                self.wake(threads, other);
            }
            if self.over.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Waits until all sleep, and has them begin to count again.
    fn until_asleep(&self) {
        while self.asleep.load(Ordering::Acquire) < self.calls.len() {
            thread::yield_now();
        }
        self.asleep.store(0, Ordering::Release);
    }

    fn wake(&self, threads: &[Thread], number: usize) {
        if let Some(thread) = threads.get(number) {
            self.calls[number].fetch_add(1, Ordering::Release);
            thread.unpark();
        }
    }
}
