//! Requests that can go together, in the order in which they go.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::costs::Costs;
use super::line::Line;
use super::{Entry, Limits, Place, Reason, Running};

/// Requests of one kind.
pub struct Bucket<K, J> {
    /// Which kind.
    pub kind: K,
    /// What batches of them took.
    pub costs: Costs,
    /// Which batch was the last of them.
    pub last_used: u64,
    line: Line<J>,
    /// In the order of their coming; some may be gone, but never the first.
    ages: VecDeque<(Place, Instant)>,
    rows: usize,
    /// What of this kind runs.
    pub running: Running,
}

impl<K, J> Bucket<K, J> {
    /// None so far.
    pub fn new(kind: K, last_used: u64) -> Self {
        Bucket {
            kind,
            costs: Costs::new(),
            last_used,
            line: Line::new(),
            ages: VecDeque::new(),
            rows: 0,
            running: Running::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.line.first().is_none()
    }

    /// Whether nothing of the kind waits or runs.
    pub fn is_unused(&self) -> bool {
        self.is_empty() && self.running.batches == 0
    }

    /// Whether the one at this place waits.
    pub fn holds(&self, place: Place) -> bool {
        self.line.get(place).is_some()
    }

    /// How many rows wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The place of the first.
    pub fn head(&self) -> Option<Place> {
        self.line.first()
    }

    /// The one that came first.
    pub fn oldest(&mut self) -> Option<(Place, Instant)> {
        self.ages.front().copied()
    }

    /// Whether one has waited this long.
    pub fn has_waited(&mut self, wait: Duration, now: Instant) -> bool {
        wait.is_zero()
            || self
                .oldest()
                .is_some_and(|(_, arrived)| now.saturating_duration_since(arrived) >= wait)
    }

    /// Whether a batch is worth its lane beside those of its kind that run: it is no smaller than they are on average. A smaller one
    /// would take from them what it gains, and leave the next one as small; it goes when one of them is over.
    pub fn is_large_beside_others(&self, limits: &Limits) -> bool {
        self.rows.min(limits.rows) * self.running.batches >= self.running.rows
    }

    /// Whether there is no use in waiting for more.
    pub fn has_enough(&self, limits: &Limits) -> bool {
        self.rows >= limits.rows || limits.adaptive && self.costs.is_enough(self.rows)
    }

    pub fn add(&mut self, place: Place, entry: Entry<J>) {
        self.rows += entry.rows;
        self.ages.push_back((place, entry.arrived));
        self.line.add(place, entry);
    }

    pub fn remove(&mut self, place: Place) -> Option<Entry<J>> {
        let entry = self.line.remove(place)?;
        self.rows -= entry.rows;
        while let Some(&(first, _)) = self.ages.front()
            && self.line.get(first).is_none()
        {
            self.ages.pop_front();
        }
        Some(entry)
    }

    pub fn clear(&mut self) -> impl Iterator<Item = Entry<J>> + use<K, J> {
        self.ages.clear();
        self.rows = 0;
        self.line.clear()
    }

    /// How many rows the next batch should have at most, and why no more if more might come.
    pub fn size(&mut self, limits: &Limits, now: Instant) -> (usize, Option<Reason>) {
        let full = self.rows.min(limits.rows);
        if !limits.adaptive && limits.objective.is_none() {
            return (full, None);
        }
        let left = limits.objective.map(|objective| {
            let waited = self.oldest().map_or(Duration::ZERO, |(_, arrived)| {
                now.saturating_duration_since(arrived)
            });
            objective.saturating_sub(waited)
        });
        self.costs.choose(full, limits.adaptive, left)
    }

    /// The first ones, of at most so many rows, or the very first alone; led by one of them, if that is asked for.
    pub fn take(&mut self, leader: Option<Place>, most: usize) -> Vec<(Place, Entry<J>)> {
        let mut taken = Vec::new();
        let mut rows = 0;
        let mut next = leader;
        while let Some(place) = next.take().or_else(|| self.head()) {
            let more = self.line.get(place).map_or(0, |entry| entry.rows);
            if rows > 0 && rows + more > most {
                break;
            }
            rows += more;
            taken.extend(self.remove(place).map(|entry| (place, entry)));
            if rows >= most {
                break;
            }
        }
        taken
    }

    /// How long what waits will take, one batch after the other, as far as is known.
    pub fn backlog(&self, limits: &Limits) -> Duration {
        let each = self.costs.per_row(self.rows.min(limits.rows));
        each.mul_f64(self.rows as f64)
    }
}
