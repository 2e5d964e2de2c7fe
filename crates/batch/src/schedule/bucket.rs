//! Requests that can go together, in the order in which they go.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::costs::Costs;
use super::entry::{Entry, Limits, Reason, TenantId};
use super::line::{Line, Place};

/// What runs at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Running {
    /// How many batches.
    pub batches: usize,
    /// The rows of all.
    pub rows: usize,
}

/// Requests of one kind.
pub struct Bucket<K, J> {
    /// Which kind.
    pub kind: K,
    /// What batches of them took.
    pub costs: Costs,
    /// Which batch was the last of them.
    pub last_used: u64,
    line: Line<J>,
    /// In the order of their coming, but for those that went behind the others; some may be gone, but never the first.
    ages: VecDeque<(Place, Instant)>,
    deadlines: BTreeSet<(Instant, Place)>,
    /// When some of them go behind the others.
    moves: BTreeSet<(Instant, Place)>,
    /// When those came that did.
    behind: BTreeSet<(Instant, Place)>,
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
            deadlines: BTreeSet::new(),
            moves: BTreeSet::new(),
            behind: BTreeSet::new(),
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
        self.line.find(place).is_some()
    }

    /// How many rows wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The place of the first.
    pub fn head(&self) -> Option<Place> {
        self.line.first()
    }

    /// Whose the first is.
    pub fn head_tenant(&self) -> Option<TenantId> {
        self.line.first_tenant()
    }

    /// The one that came first of those that did not go behind the others.
    pub fn oldest(&self) -> Option<(Place, Instant)> {
        self.ages.front().copied()
    }

    /// When the first of all came.
    pub fn first_arrival(&self) -> Option<Instant> {
        let behind = self.behind.first().map(|&(arrived, _)| arrived);
        let oldest = self.oldest().map(|(_, arrived)| arrived);
        oldest.into_iter().chain(behind).min()
    }

    /// When the first of them is of no use any more.
    pub fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// One that is of no use any more.
    pub fn expired(&self, now: Instant) -> Option<Place> {
        let &(deadline, place) = self.deadlines.first()?;
        (deadline <= now).then_some(place)
    }

    /// When a batch of them has to go, whoever may come: one has waited as long as it may, or would miss its deadline or the
    /// objective otherwise.
    pub fn due(&self, limits: &Limits) -> Option<Instant> {
        let oldest = self.first_arrival()?;
        let rows = self.rows.min(limits.rows);
        let takes = self.costs.per_row(rows).mul_f64(rows as f64);
        let deadline = self.deadlines.first();
        let deadline = deadline
            .and_then(|&(by, place)| Some((self.line.get(self.line.find(place)?)?.arrived, by)));
        let objective = limits.objective.and_then(|time| oldest.checked_add(time));
        let by = objective.map(|by| (oldest, by)).into_iter().chain(deadline);
        let due = by.map(|(arrived, by)| latest_begin(arrived, by, takes));
        oldest.checked_add(limits.wait).into_iter().chain(due).min()
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
        self.deadlines
            .extend(entry.deadline.map(|deadline| (deadline, place)));
        self.moves.extend(entry.behind.map(|at| (at, place)));
        self.ages.push_back((place, entry.arrived));
        self.line.add(place, entry);
    }

    pub fn remove(&mut self, place: Place) -> Option<Entry<J>> {
        let at = self.line.find(place)?;
        let entry = self.line.remove(at)?;
        let place = at.before();
        self.rows -= entry.rows;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, place));
        }
        if let Some(at) = entry.behind {
            self.moves.remove(&(at, place));
            self.behind.remove(&(entry.arrived, place));
        }
        self.forget_gone();
        Some(entry)
    }

    /// Puts those behind the others whose time it is.
    pub fn put_behind(&mut self, now: Instant) {
        while let Some(&(at, place)) = self.moves.first()
            && at <= now
        {
            self.moves.pop_first();
            if let Some(entry) = self.line.remove(place) {
                self.behind.insert((entry.arrived, place));
                self.line.add(place.behind(), entry);
            }
        }
        self.forget_gone();
    }

    fn forget_gone(&mut self) {
        while let Some(&(first, _)) = self.ages.front()
            && self.line.get(first).is_none()
        {
            self.ages.pop_front();
        }
    }

    pub fn clear(&mut self) -> impl Iterator<Item = Entry<J>> + use<K, J> {
        self.ages.clear();
        self.deadlines.clear();
        self.moves.clear();
        self.behind.clear();
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

/// When something has to begin that takes about so long, to be over by a time: with as much to spare as it takes, and with a
/// quarter of all the time there was, for what is known of it may be wrong.
fn latest_begin(arrived: Instant, by: Instant, takes: Duration) -> Instant {
    let all = by.saturating_duration_since(arrived);
    let before = (2 * takes).max(all / 4);
    arrived + all.saturating_sub(before)
}
