//! What faults hit on a stream, as far as that is settled.

use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_device::lock::Mutex;
use streampool_device::{Fault, Tick};

use crate::ranks;

/// Commands of one stream whose results are not to be used.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub from: Tick,
    pub to: Tick,
    pub fault: Fault,
}

/// What faults hit on one stream, directly or through what it used, as far as that is settled.
pub(crate) struct History {
    hits: Mutex<Vec<Hit>>,
    /// How many there ever were.
    count: AtomicUsize,
}

/// So many are told apart. Of a stream that faults more often, the oldest become one that covers what lies between
/// them, too: good work may count as hit then, but never the other way round.
const TOLD_APART: usize = 1024;

impl History {
    pub fn new() -> Self {
        History {
            hits: Mutex::new(ranks::HISTORY, Vec::new()),
            count: AtomicUsize::new(0),
        }
    }

    pub fn add(&self, hit: Hit) {
        let mut hits = self.hits.lock();
        if hits.len() == TOLD_APART {
            let oldest = hits.remove(0);
            let next = &mut hits[0];
            *next = Hit {
                from: oldest.from.min(next.from),
                to: oldest.to.max(next.to),
                fault: oldest.fault,
            };
        }
        hits.push(hit);
        self.count.fetch_add(1, Ordering::Release);
    }

    pub fn find(&self, tick: Tick) -> Option<Fault> {
        let hits = self.hits.lock();
        let hit = hits
            .iter()
            .find(|hit| (hit.from..=hit.to).contains(&tick))?;
        Some(hit.fault.clone())
    }

    /// Whether what a fault hit ended after the command at `one` and before that at `other`.
    pub fn was_over_between(&self, one: Tick, other: Tick) -> bool {
        let ended = |hit: &Hit| (one..other).contains(&hit.to);
        self.any() && self.hits.lock().iter().any(ended)
    }

    /// The last command before `tick` that a fault hit; 0 if none was.
    pub fn last_before(&self, tick: Tick) -> Tick {
        if !self.any() {
            return 0;
        }
        let hits = self.hits.lock();
        let before = hits.iter().map(|hit| hit.to).filter(|to| *to < tick);
        before.max().unwrap_or(0)
    }

    /// The fault that hit any command from one to another.
    pub fn find_between(&self, from: Tick, to: Tick) -> Option<Fault> {
        let hits = self.hits.lock();
        let hit = hits.iter().find(|hit| hit.from <= to && hit.to >= from)?;
        Some(hit.fault.clone())
    }

    /// Whether anything was ever hit.
    pub fn any(&self) -> bool {
        self.count() > 0
    }

    /// How many were settled here.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use streampool_device::OpKind;

    #[test]
    fn no_hit_is_forgotten_however_many_follow() {
        let history = History::new();
        for tick in (2..10_000).step_by(2) {
            history.add(Hit {
                from: tick,
                to: tick,
                fault: Fault::new("lane", tick, OpKind::Nop, "on purpose"),
            });
        }
        let missed = (2..10_000)
            .step_by(2)
            .find(|&tick| history.find(tick).is_none());
        assert_eq!(missed, None);
        assert_eq!(history.count(), 4_999);
        assert!(history.find(9_999).is_none(), "the last are told apart");
        assert!(history.find(1).is_none() && history.find(10_000).is_none());
    }
    #[test]
    fn hits_are_found_where_they_are_and_nowhere_else() {
        let history = History::new();
        assert_eq!((history.last_before(9), history.any()), (0, false));
        assert!(!history.was_over_between(0, 9) && history.find_between(0, 9).is_none());
        for (from, to) in [(3, 5), (9, 9)] {
            let fault = Fault::new("lane", from, OpKind::Nop, "on purpose");
            history.add(Hit { from, to, fault });
        }
        let hit: Vec<Tick> = (0..12).filter(|&at| history.find(at).is_some()).collect();
        assert_eq!(hit, [3, 4, 5, 9]);
        let before = [0, 3, 5, 6, 9, 10].map(|tick| history.last_before(tick));
        assert_eq!(before, [0, 0, 0, 5, 5, 9]);
        for (one, other, is_over) in [(0, 5, false), (5, 6, true), (6, 9, false), (9, 10, true)] {
            assert_eq!(
                history.was_over_between(one, other),
                is_over,
                "{one} to {other}"
            );
        }
        let found = |from, to| history.find_between(from, to).map(|fault| fault.tick());
        assert_eq!(
            (found(0, 2), found(6, 8), found(10, 20)),
            (None, None, None)
        );
        assert_eq!(
            (found(1, 3), found(5, 5), found(6, 20)),
            (Some(3), Some(3), Some(9))
        );
    }
}
