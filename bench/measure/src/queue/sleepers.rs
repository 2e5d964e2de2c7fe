//! Threads that do nothing but sleep and wake one another.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How often in a second one of so many threads is woken, where each that is woken wakes two others.
pub fn awakenings(count: usize, time: Duration) -> f64 {
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
        let begin = Instant::now();
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
