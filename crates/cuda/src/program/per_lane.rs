//! What a program keeps for each lane that replays it.

use std::sync::{Arc, Weak};

use streampool_device::Tick;
use streampool_device::lock::Mutex;

use crate::ranks;

/// Lanes of different numbers do not meet at one lock.
const SHARDS: usize = 16;

/// After so many visits to an empty entry it is worth filling, at another's cost: to build a graph takes about
/// as long as to do without it so often.
const WORTH_IT: u32 = 8;

/// One value for each lane. Whoever uses a value takes it out and puts it back: no lock is held meanwhile.
/// A lane that is gone stays gone, and what was kept for it is found by [`of_the_gone`](Self::of_the_gone).
pub(super) struct PerLane<L, T> {
    shards: [Shard<L, T>; SHARDS],
}

/// A shard in cache lines of its own.
#[repr(align(128))]
struct Shard<L, T>(Mutex<Entries<L, T>>);

struct Entries<L, T> {
    list: Vec<Entry<L, T>>,
    /// How often a value was put back.
    uses: u64,
}

struct Entry<L, T> {
    lane: Weak<L>,
    /// When the lane came for it for the last time.
    used: u64,
    /// How often the lane found nothing after `asked`.
    misses: u32,
    asked: u64,
    /// From when on the lane found nothing many times; 0 if not so often yet.
    wanted: u64,
    /// The lane's tick of the last use.
    tick: Tick,
    /// Not there while it is in use, or if there was no room for one.
    value: Option<T>,
}

/// What a lane found.
pub(super) struct Found<T> {
    pub value: Option<T>,
    /// What was not used since then may give way to what the lane lacks.
    pub wanted: u64,
}

/// A value that may be idle, as it was when somebody looked.
pub(super) struct Candidate<L> {
    pub lane: Weak<L>,
    pub tick: Tick,
    pub used: u64,
    shard: usize,
}

impl<L, T> PerLane<L, T> {
    pub fn new() -> PerLane<L, T> {
        let shard = || Entries {
            list: Vec::new(),
            uses: 0,
        };
        PerLane {
            shards: std::array::from_fn(|_| Shard(Mutex::new(ranks::PROGRAM, shard()))),
        }
    }

    fn shard(&self, number: u32) -> &Mutex<Entries<L, T>> {
        &self.shards[number as usize % SHARDS].0
    }

    /// Takes out what is there for the lane of this number, at the time `now`.
    #[inline]
    pub fn take(&self, lane: &Arc<L>, number: u32, now: u64) -> Found<T> {
        let mut entries = self.shard(number).lock();
        if let Some(entry) = entries.of(Arc::as_ptr(lane)) {
            entry.used = now;
            let value = entry.value.take();
            if value.is_none() {
                entry.miss(now);
            }
            return Found {
                value,
                wanted: entry.wanted,
            };
        }
        entries.list.push(Entry {
            lane: Arc::downgrade(lane),
            used: now,
            misses: 0,
            asked: now,
            wanted: 0,
            tick: 0,
            value: None,
        });
        Found {
            value: None,
            wanted: 0,
        }
    }

    /// Puts `value` back, which the lane uses until its `tick` is over.
    #[inline]
    pub fn put(&self, lane: &Arc<L>, number: u32, tick: Tick, value: T) {
        let mut entries = self.shard(number).lock();
        entries.uses += 1;
        if let Some(entry) = entries.of(Arc::as_ptr(lane)) {
            entry.tick = tick;
            entry.value = Some(value);
        }
    }

    /// How often a value was used.
    pub fn uses(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.lock().uses).sum()
    }

    /// How many values are there.
    pub fn filled(&self) -> usize {
        let filled = |shard: &Shard<L, T>| {
            let entries = shard.0.lock();
            let filled = entries.list.iter().filter(|entry| entry.value.is_some());
            filled.count()
        };
        self.shards.iter().map(filled).sum()
    }

    /// Takes out what is kept for lanes that are gone.
    pub fn of_the_gone(&self) -> Vec<T> {
        let mut values = Vec::new();
        for shard in &self.shards {
            let mut entries = shard.0.lock();
            let gone = |entry: &mut Entry<L, T>| entry.lane.strong_count() == 0;
            let gone = entries.list.extract_if(.., gone);
            values.extend(gone.filter_map(|entry| entry.value));
        }
        values
    }

    /// The values for which nobody came since `wanted`.
    pub fn candidates(&self, wanted: u64) -> Vec<Candidate<L>> {
        let mut candidates = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let entries = shard.0.lock();
            let unused = |entry: &&Entry<L, T>| entry.value.is_some() && entry.used < wanted;
            let unused = entries.list.iter().filter(unused);
            candidates.extend(unused.map(|entry| Candidate {
                lane: entry.lane.clone(),
                tick: entry.tick,
                used: entry.used,
                shard: number,
            }));
        }
        candidates
    }

    /// Takes out the value, unless it was used again meanwhile.
    pub fn remove(&self, candidate: &Candidate<L>) -> Option<T> {
        let mut entries = self.shards[candidate.shard].0.lock();
        let entry = entries.of(candidate.lane.as_ptr())?;
        match entry.tick == candidate.tick {
            true => entry.value.take(),
            false => None,
        }
    }
}

impl<L, T> Entry<L, T> {
    fn miss(&mut self, now: u64) {
        self.misses += 1;
        if self.misses == WORTH_IT {
            self.misses = 0;
            self.wanted = std::mem::replace(&mut self.asked, now);
        }
    }
}

impl<L, T> Entries<L, T> {
    /// A lane's entry. Its weak reference keeps another lane from getting the same address.
    fn of(&mut self, lane: *const L) -> Option<&mut Entry<L, T>> {
        let entries = self.list.iter_mut();
        entries
            .into_iter()
            .find(|entry| entry.lane.as_ptr() == lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Words = PerLane<u8, &'static str>;

    #[test]
    fn each_lane_has_its_own_and_nobody_else_finds_it() {
        let (kept, one, other) = (Words::new(), Arc::new(0), Arc::new(0));
        assert!(kept.take(&one, 3, 1).value.is_none());
        kept.put(&one, 3, 1, "one");
        assert_eq!(kept.take(&other, 3 + SHARDS as u32, 2).value, None);
        kept.put(&other, 3 + SHARDS as u32, 1, "other");
        assert_eq!(kept.take(&one, 3, 5).value, Some("one"));
        assert_eq!((kept.uses(), kept.filled()), (2, 1));
        assert_eq!(kept.take(&one, 3, 6).value, None, "it is in use");
    }

    #[test]
    fn what_is_missed_often_is_wanted() {
        let (kept, lane) = (Words::new(), Arc::new(0));
        let many = u64::from(WORTH_IT);
        let wanted = |now| kept.take(&lane, 0, now).wanted;
        for now in 10..10 + many {
            assert_eq!(wanted(now), 0);
        }
        for now in 10 + many..10 + 2 * many {
            assert_eq!(wanted(now), 10, "since the first visit");
        }
        assert_eq!(wanted(100), 10 + many);
    }

    #[test]
    fn what_lanes_left_behind_is_found() {
        let (kept, one, other) = (Words::new(), Arc::new(0), Arc::new(0));
        for (lane, number, word) in [(&one, 1, "one"), (&other, 2, "other")] {
            kept.take(lane, number, 1);
            kept.put(lane, number, 1, word);
        }
        assert!(kept.of_the_gone().is_empty());
        drop(one);
        assert_eq!(kept.of_the_gone(), ["one"]);
        assert!(kept.of_the_gone().is_empty());
        assert_eq!(kept.take(&other, 2, 2).value, Some("other"));
    }

    #[test]
    fn only_what_was_not_used_again_is_removed() {
        let (kept, lane) = (Words::new(), Arc::new(0));
        kept.take(&lane, 0, 4);
        kept.put(&lane, 0, 1, "it");
        assert!(kept.candidates(4).is_empty(), "somebody came at 4");
        let seen = kept.candidates(5);
        assert_eq!((seen.len(), seen[0].tick, seen[0].used), (1, 1, 4));
        kept.take(&lane, 0, 4);
        assert_eq!(kept.remove(&seen[0]), None, "it is in use");
        kept.put(&lane, 0, 2, "it");
        assert_eq!(kept.remove(&seen[0]), None, "it was used");
        let seen = kept.candidates(5);
        assert_eq!(kept.remove(&seen[0]), Some("it"));
        assert_eq!(kept.remove(&seen[0]), None);
        assert_eq!(kept.take(&lane, 0, 9).value, None);
    }
}
