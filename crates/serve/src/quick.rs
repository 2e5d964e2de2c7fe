//! Whether a model is so quick that to wake another thread for a request would take longer than to run it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A run that takes no longer is quick: to wake a thread takes about as long.
const QUICK: Duration = Duration::from_micros(20);

/// A run that takes so long is slow. The operating system may take the processor away for a few milliseconds.
const SLOW: Duration = Duration::from_millis(20);

/// After so many runs in a row that were not quick, the model is not.
const MOST: u32 = 16;

/// The inputs of a request that may be run by the thread that has read it have no more bytes.
const MOST_BYTES: usize = 1 << 16;

/// What is known of a model's runs.
#[derive(Debug)]
pub struct Quick {
    /// How many in a row were not quick.
    others: AtomicU32,
}

impl Quick {
    /// A model one row of which took so long, if that is known.
    pub fn new(took: Option<Duration>) -> Quick {
        let is_quick = took.is_some_and(|took| took <= QUICK);
        Quick {
            others: AtomicU32::new(if is_quick { 0 } else { MOST }),
        }
    }

    /// Whether a request with so many bytes is quick.
    pub fn is(&self, bytes: usize) -> bool {
        bytes <= MOST_BYTES && self.others.load(Ordering::Relaxed) < MOST
    }

    /// A run took so long.
    pub fn took(&self, time: Duration) {
        if time > SLOW {
            self.others.store(MOST, Ordering::Relaxed);
        } else if time > QUICK {
            let next = |others: u32| Some(others.saturating_add(1));
            let _ = self
                .others
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        } else if self.others.load(Ordering::Relaxed) > 0 {
            self.others.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_run_is_forgiven_and_many_are_not() {
        let micros = Duration::from_micros;
        for unknown in [None, Some(micros(21))] {
            assert!(!Quick::new(unknown).is(0));
        }
        let quick = Quick::new(Some(micros(3)));
        assert!(quick.is(64) && !quick.is(MOST_BYTES + 1));
        for _ in 0..10 {
            for _ in 1..MOST {
                quick.took(micros(3_000));
            }
            assert!(quick.is(64));
            quick.took(micros(3));
        }
        for _ in 0..MOST {
            quick.took(micros(21));
        }
        assert!(!quick.is(64));
        let quick = Quick::new(Some(micros(3)));
        quick.took(SLOW + micros(1));
        assert!(!quick.is(64));
    }
}
