//! Requests for which there was no room.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Instant;

use super::parts::{Parts, Place, priority};
use crate::outcome::{Accepted, Waiter};
use crate::schedule::{Ids, Priority, TenantId};

/// Finds one of those outside. Those of one tenant and priority come in in their order: all that is looked at is the first of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    tenant: TenantId,
    priority: Priority,
    /// Rises with each that comes.
    pub number: u64,
}

/// Requests that wait outside.
pub struct Held<K, J> {
    all: BTreeMap<Key, Outside<K, J>>,
    deadlines: BTreeSet<(Instant, Key)>,
    next: u64,
}

/// One of them.
pub struct Outside<K, J> {
    pub kind: K,
    pub parts: Parts<J>,
    pub place: Arc<Place>,
}

/// Who waits for a request to come in is told, even if it was lost on the way.
impl<K, J> Drop for Outside<K, J> {
    fn drop(&mut self) {
        if let Some(waiter) = told(&self.place, None) {
            waiter.wake();
        }
    }
}

impl<K, J> Outside<K, J> {
    /// All parts have one deadline.
    fn deadline(&self) -> Option<Instant> {
        self.parts.first().and_then(|part| part.deadline)
    }
}

impl<K, J> Held<K, J> {
    /// None.
    pub fn new() -> Self {
        Held {
            all: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next: 0,
        }
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// One more waits, behind all others of its tenant and priority.
    pub fn add(&mut self, outside: Outside<K, J>) {
        let key = Key {
            tenant: outside.parts.first().map_or(0, |part| part.tenant),
            priority: priority(&outside.parts),
            number: self.next,
        };
        self.next += 1;
        let deadline = outside.deadline().map(|deadline| (deadline, key));
        self.deadlines.extend(deadline);
        self.all.insert(key, outside);
    }

    /// Takes one out.
    pub fn remove(&mut self, key: Key) -> Option<Outside<K, J>> {
        let outside = self.all.remove(&key)?;
        if let Some(deadline) = outside.deadline() {
            self.deadlines.remove(&(deadline, key));
        }
        Some(outside)
    }

    /// All of them; those of a tenant and priority in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Outside<K, J>)> {
        self.all.iter().map(|(&key, outside)| (key, outside))
    }

    /// The one that will be told here where it is.
    pub fn find(&self, place: &Arc<Place>) -> Option<Key> {
        let found = (self.iter()).find(|(_, outside)| Arc::ptr_eq(&outside.place, place));
        found.map(|(key, _)| key)
    }

    /// The first of each tenant and priority.
    pub fn firsts(&self) -> impl Iterator<Item = (Key, &Outside<K, J>)> {
        let mut next = self.all.first_key_value();
        std::iter::from_fn(move || {
            let (&key, outside) = next?;
            let last = Key {
                number: u64::MAX,
                ..key
            };
            next = self.all.range((Excluded(last), Unbounded)).next();
            Some((key, outside))
        })
    }

    /// When the first of them is of no use any more.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Takes out what is of no use any more; who waits for it to come in is to be woken.
    pub fn expired(&mut self, now: Instant, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
        let mut expired = Vec::new();
        while let Some(&(deadline, key)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            expired.extend(self.all.remove(&key));
        }
        turn_away(expired, waiters)
    }

    /// Takes out all; who waits for them to come in is to be woken.
    pub fn clear(&mut self, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
        self.deadlines.clear();
        turn_away(std::mem::take(&mut self.all).into_values(), waiters)
    }
}

fn turn_away<K, J>(
    all: impl IntoIterator<Item = Outside<K, J>>,
    waiters: &mut Vec<Waiter>,
) -> Vec<Parts<J>> {
    let turned_away = all.into_iter().map(|mut outside| {
        waiters.extend(told(&outside.place, None));
        std::mem::take(&mut outside.parts)
    });
    turned_away.collect()
}

/// Says where a request is, or that it is nowhere. Returns who waited to be told.
pub fn told(place: &Place, where_it_is: Option<Ids>) -> Option<Waiter> {
    match place.put(where_it_is) {
        Accepted::By(waiter) => waiter,
        Accepted::Not => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::parts::one;
    use super::*;
    use crate::outcome::Outcome;
    use crate::schedule::Entry;

    #[test]
    fn the_first_of_each_tenant_and_priority_is_found_however_many_wait() {
        let mut held: Held<u8, u64> = Held::new();
        let now = Instant::now();
        for number in 0..900 {
            let part = Entry {
                job: number,
                rows: 1,
                bytes: 1,
                tenant: number as usize % 3,
                priority: Priority::ALL[number as usize / 3 % 3],
                deadline: (number % 2 == 0).then_some(now),
                behind: None,
                arrived: now,
            };
            let place = Arc::new(Outcome::new());
            held.add(Outside {
                kind: 0,
                parts: one(part),
                place,
            });
        }
        let firsts = |held: &Held<u8, u64>| -> Vec<(Key, u64)> {
            let firsts = held.firsts();
            let mut firsts: Vec<_> = firsts.map(|(key, of)| (key, of.parts[0].job)).collect();
            firsts.sort_by_key(|&(_, job)| job);
            firsts
        };
        let jobs = |held: &Held<u8, u64>| firsts(held).into_iter().map(|(_, job)| job);
        assert!(jobs(&held).eq(0..9));
        let (key, _) = firsts(&held)[4];
        assert!(held.remove(key).is_some() && held.remove(key).is_none());
        assert!(jobs(&held).eq([0, 1, 2, 3, 5, 6, 7, 8, 13]));
        // Of those that are left, half are late.
        assert_eq!(held.next_deadline(), Some(now));
        assert_eq!(held.expired(now, &mut Vec::new()).len(), 449);
        assert_eq!((held.len(), held.next_deadline()), (450, None));
        assert!(jobs(&held).eq([1, 3, 5, 7, 9, 11, 13, 15, 17]));
        assert_eq!(held.clear(&mut Vec::new()).len(), 450);
        assert!(held.is_empty() && held.firsts().next().is_none());
    }
}
