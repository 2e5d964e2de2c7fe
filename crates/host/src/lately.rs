//! How many threads do work of their own, and did a moment ago.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// So many microseconds a thread is counted that has done its work: most come back with more. Otherwise a thread
/// that looks between two runs of another would split its op, and both would want the same processor.
const WHILE: u64 = 500;

/// Counts threads.
pub(crate) struct Lately {
    now: AtomicUsize,
    most: AtomicUsize,
    /// When there were so many last, in microseconds; it may have been a tenth of [`WHILE`] later.
    at: AtomicU64,
    begun: Instant,
}

/// One of those who are counted, until it is dropped.
pub(crate) struct Counted<'a>(&'a Lately);

impl Lately {
    pub(crate) fn new() -> Self {
        Lately {
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            at: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }

    pub(crate) fn count(&self) -> Counted<'_> {
        self.now.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    /// The most at once of late.
    pub(crate) fn most(&self) -> usize {
        let now = self.now.load(Ordering::Relaxed);
        // One that is alone asks for no time.
        match now.max(self.most.load(Ordering::Relaxed)) {
            0 | 1 => now,
            _ => self.most_at(self.begun.elapsed().as_micros() as u64),
        }
    }

    fn most_at(&self, time: u64) -> usize {
        let now = self.now.load(Ordering::Relaxed);
        let most = self.most.load(Ordering::Relaxed);
        let at = self.at.load(Ordering::Relaxed);
        if now < most && time.saturating_sub(at) < WHILE {
            return most;
        }
        // Others read these words all the time: they are written when that changes something.
        if now != most {
            self.most.store(now, Ordering::Relaxed);
        }
        if now != most || time.saturating_sub(at) > WHILE / 10 {
            self.at.store(time, Ordering::Relaxed);
        }
        now
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_just_gone_still_counts() {
        let lately = Lately::new();
        let one = lately.count();
        assert_eq!((lately.most(), lately.most_at(10)), (1, 1));
        let others = [lately.count(), lately.count()];
        assert_eq!(lately.most_at(1000), 3);
        drop(others);
        assert_eq!(lately.most_at(1000 + WHILE - 1), 3);
        assert_eq!(lately.most_at(1000 + WHILE), 1);
        drop(one);
        assert_eq!(lately.most(), 0);
    }
}
