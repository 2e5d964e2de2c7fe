//! Whether a model is so quick that to wake another thread for a request would take longer than to run it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A run that takes no longer is quick: to wake a thread takes about as long.
const QUICK: Duration = Duration::from_micros(20);

/// A run that takes so long is slow. The operating system may take the processor away for a few milliseconds.
const SLOW: Duration = Duration::from_millis(20);

/// After so many runs in a row that were not quick, the model is not.
const MOST: u32 = 16;

/// A model that was quick before is tried again after so many requests, for it may be the machine that was slow; each time after twice
/// as many, but no more than so many. So those that a slow one would hold up are few.
const RESTS: [u32; 2] = [1 << 10, 1 << 17];

/// The inputs of a request that may be run by the thread that has read it have no more bytes.
const MOST_BYTES: usize = 1 << 16;

/// What is known of a model's runs.
#[derive(Debug)]
pub struct Quick {
    /// How many in a row were not quick.
    others: AtomicU32,
    /// After how many requests it is tried again; 0: never.
    rest: AtomicU32,
    /// How many of these are still to come.
    left: AtomicU32,
}

impl Quick {
    /// A model one row of which took so long, if that is known.
    pub fn new(took: Option<Duration>) -> Quick {
        let is_quick = took.is_some_and(|took| took <= QUICK);
        Quick {
            others: AtomicU32::new(if is_quick { 0 } else { MOST }),
            rest: AtomicU32::new(if is_quick { RESTS[0] } else { 0 }),
            left: AtomicU32::new(0),
        }
    }

    /// Whether a request with so many bytes is to be run by the thread that has read it: it is quick, or the model is tried again.
    pub fn is(&self, bytes: usize) -> bool {
        bytes <= MOST_BYTES && (self.others.load(Relaxed) < MOST || self.is_tried_again())
    }

    fn is_tried_again(&self) -> bool {
        let rest = self.rest.load(Relaxed);
        let next = |left: u32| Some(left.checked_sub(1).unwrap_or(rest));
        // The one that finds none left is it.
        rest > 0 && self.left.fetch_update(Relaxed, Relaxed, next) == Ok(0)
    }

    /// A run took so long.
    pub fn took(&self, time: Duration) {
        let before = self.others.load(Relaxed);
        let others = if time > SLOW {
            MOST
        } else if time > QUICK {
            before.saturating_add(1)
        } else {
            0
        };
        if others != before {
            self.others.store(others, Relaxed);
        }
        if others >= MOST {
            let rest = self.rest.load(Relaxed);
            self.left.store(rest, Relaxed);
            self.rest.store((2 * rest).min(RESTS[1]), Relaxed);
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

    #[test]
    fn what_was_slow_for_a_while_is_tried_again_ever_more_seldom() {
        let micros = Duration::from_micros;
        let quick = Quick::new(Some(micros(3)));
        // How many requests go to other threads before the next one is tried.
        let others = |quick: &Quick| (0..).take_while(|_| !quick.is(64)).count();
        quick.took(SLOW + micros(1));
        assert_eq!(others(&quick), 1 << 10);
        assert_eq!(others(&quick), 1 << 11, "nobody knows how long it took");
        quick.took(micros(21));
        assert_eq!(others(&quick), 1 << 11, "it is still slow");
        quick.took(micros(3));
        assert_eq!(others(&quick), 0);
        for _ in 0..20 {
            quick.took(SLOW + micros(1));
        }
        assert_eq!(others(&quick), 1 << 17);
        // One that was never quick is not tried.
        let slow = Quick::new(Some(micros(21)));
        assert!((0..1 << 12).all(|_| !slow.is(64)));
        assert_eq!(slow.rest.load(Relaxed), 0);
    }
}
