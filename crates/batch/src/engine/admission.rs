//! How requests come in: at once while there is room, and one after the other when there is room again.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{After, Engine, Job, Parts, State, Turn};
use crate::figures::Fate;
use crate::outcome::{Accepted, Outcome, Waiter};
use crate::schedule::Ids;
use crate::sync::lock;

/// Who found no room does not come again sooner, even if all that waits is thought to take less, or nothing is known of it.
const SOON: Duration = Duration::from_millis(1);

/// Of the room, one part of so many is kept for tenants that have less than their share.
const KEPT: usize = 8;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// Requests.
    pub requests: usize,
    /// Bytes of their arrays.
    pub bytes: usize,
}

/// What is done with a request for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It is not taken.
    Refuse,
    /// It waits outside, and comes in when there is room.
    Hold,
}

/// Where a request is that was taken.
pub enum Admission {
    /// In the queue.
    Queued(Ids),
    /// Outside: it will be told where in the queue it is, once it is there, or that it will not be.
    Held(Arc<Place>),
}

/// What became of requests that were brought together, and a batch to be run.
pub type Added<'a, K, J> = (Vec<Result<Admission, Rejected>>, Option<Turn<'a, K, J>>);

/// Where the parts of a request that is held outside come to be; nowhere, if it is turned away.
pub type Place = Outcome<Option<Ids>>;

/// Why a request was not taken, or not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// There is no room.
    Full {
        /// How many requests wait.
        requests: usize,
        /// How many bytes these have.
        bytes: usize,
        /// Which limit is reached.
        setting: &'static str,
        /// When there may be room.
        retry_after: Duration,
    },
    /// It is larger than all the room there is.
    TooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many there is room for.
        capacity: usize,
    },
    /// The queue is closed.
    Closed,
    /// Its deadline passed before it was its turn.
    Expired,
}

/// Requests that wait outside, in order.
pub struct Held<K, J>(VecDeque<Outside<K, J>>);

struct Outside<K, J> {
    kind: K,
    parts: Parts<J>,
    place: Arc<Place>,
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
    pub fn new() -> Self {
        Held(VecDeque::new())
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first of them is of no use any more.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(Outside::deadline).min()
    }

    /// Takes out what is of no use any more; who waits for it to come in is to be woken.
    pub fn expired(&mut self, now: Instant, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
        let is_late = |outside: &Outside<K, J>| outside.deadline().is_some_and(|at| at <= now);
        if !self.0.iter().any(is_late) {
            return Vec::new();
        }
        let (late, others) = self.0.drain(..).partition(is_late);
        self.0 = others;
        turn_away(late, waiters)
    }

    /// Takes out all; who waits for them to come in is to be woken.
    pub fn clear(&mut self, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
        turn_away(std::mem::take(&mut self.0), waiters)
    }
}

fn turn_away<K, J>(all: VecDeque<Outside<K, J>>, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
    let turned_away = all.into_iter().map(|mut outside| {
        waiters.extend(told(&outside.place, None));
        std::mem::take(&mut outside.parts)
    });
    turned_away.collect()
}

/// Who waited to be told.
fn told(place: &Place, where_it_is: Option<Ids>) -> Option<Waiter> {
    match place.put(where_it_is) {
        Accepted::By(waiter) => waiter,
        Accepted::Not => None,
    }
}

impl<K: Hash + Eq + Clone, J: Job> Engine<K, J> {
    /// Takes requests, each in parts that are run by themselves. A `helper` is given a batch to run, if one can go and what it asked
    /// for is in it: it is all that waits, or goes together with all that waits. Else a worker is called.
    pub fn add(
        &self,
        requests: impl IntoIterator<Item = (K, Parts<J>)>,
        when_full: Full,
        helper: bool,
    ) -> Added<'_, K, J> {
        let mut after = After::new();
        let mut state = lock(&self.state);
        self.shut_door(&mut state);
        // They came before.
        self.collect(&mut state, &mut after);
        let alone = state.schedule.requests() == 0;
        let mut patient = true;
        let requests = requests.into_iter().map(|(kind, parts)| {
            patient &= parts.iter().all(|part| part.deadline.is_none());
            self.add_one(&mut state, kind, parts, when_full, &mut after)
        });
        let added: Vec<_> = requests.collect();
        let own = alone || patient && state.schedule.is_one_batch();
        let now = Instant::now();
        self.tell_keeper(&mut state, now);
        if !(helper && own) || added.iter().all(Result::is_err) {
            self.call_if_ready(&mut state, now);
            return (added, None);
        }
        self.take(&mut state, &mut after);
        drop(state);
        (added, after.come())
    }

    /// Gives up a request that is held outside, if it is still there, and says what it waited for; if not, its place is known.
    pub fn withdraw(&self, place: &Arc<Place>, fate: Fate) -> Option<Rejected> {
        let mut after = After::new();
        let outside;
        let mut state = lock(&self.state);
        let is_it = |outside: &Outside<K, J>| Arc::ptr_eq(&outside.place, place);
        let at = state.held.0.iter().position(is_it)?;
        outside = state.held.0.remove(at)?;
        let full = self.full(&state, &outside.parts);
        state.settle(&outside.parts, fate);
        // Those behind it may fit.
        self.admit_held(&mut state, &mut after);
        drop(state);
        // Who gives up is not to be told.
        place.abandon();
        Some(full)
    }

    /// Lets in what waits outside, as far as there is room.
    pub(super) fn admit_held(&self, state: &mut State<K, J>, after: &mut After<'_, K, J>) {
        let before = state.held.0.len();
        while let Some(at) = self.next_in(state)
            && let Some(mut outside) = state.held.0.remove(at)
        {
            let ids = queue(state, &outside.kind, std::mem::take(&mut outside.parts));
            after.waiters.extend(told(&outside.place, Some(ids)));
        }
        if state.held.0.len() < before {
            let now = Instant::now();
            self.tell_keeper(state, now);
            self.call_if_ready(state, now);
        }
    }

    /// Who comes in next of those outside, if there is room: the first whose tenant has less than its share, or else the first.
    fn next_in(&self, state: &State<K, J>) -> Option<usize> {
        if state.schedule.requests() >= self.capacity.requests {
            return None;
        }
        let mut held = state.held.0.iter();
        let at = held.position(|outside| self.is_within_share(state, &outside.parts));
        let at = at.unwrap_or(0);
        let next = state.held.0.get(at)?;
        self.has_room(state, &next.parts).then_some(at)
    }

    /// Whether a request that comes now comes in before all that waits outside.
    fn is_next(&self, state: &State<K, J>, parts: &Parts<J>) -> bool {
        let mut held = state.held.0.iter();
        state.held.0.is_empty()
            || self.is_within_share(state, parts)
                && !held.any(|outside| self.is_within_share(state, &outside.parts))
    }

    /// Whether the tenant of a request has less than its share of the room.
    fn is_within_share(&self, state: &State<K, J>, parts: &Parts<J>) -> bool {
        let Capacity { requests, bytes } = self.capacity;
        let tenants = state.schedule.senders();
        let tenant = parts.first().map_or(0, |part| part.tenant);
        tenants.is_within_share(tenant, requests, bytes)
    }

    /// How much may wait when a request comes in: all, or a little less if its tenant has its share, and others may come.
    fn room_for(&self, state: &State<K, J>, parts: &Parts<J>) -> Capacity {
        let Capacity { requests, bytes } = self.capacity;
        match state.schedule.senders().are_many() && !self.is_within_share(state, parts) {
            true => Capacity {
                requests: requests - requests.div_ceil(KEPT),
                bytes: bytes - bytes.div_ceil(KEPT),
            },
            false => self.capacity,
        }
    }

    fn has_room(&self, state: &State<K, J>, parts: &Parts<J>) -> bool {
        self.limit(state, parts).is_none()
    }

    /// Which limit a request would be beyond.
    fn limit(&self, state: &State<K, J>, parts: &Parts<J>) -> Option<&'static str> {
        let (schedule, capacity) = (&state.schedule, self.room_for(state, parts));
        if schedule.requests() >= capacity.requests {
            return Some("capacity");
        }
        let all = schedule.bytes().saturating_add(bytes(parts));
        (all > capacity.bytes).then_some("capacity_bytes")
    }

    /// Why there is no room for a request. One that would fit waits behind others that do not.
    fn full(&self, state: &State<K, J>, parts: &Parts<J>) -> Rejected {
        let first = state.held.0.front().map(|first| &first.parts);
        let limits = std::iter::once(parts).chain(first);
        let setting = limits.filter_map(|parts| self.limit(state, parts)).next();
        let lanes = u32::try_from(state.lanes).unwrap_or(u32::MAX);
        Rejected::Full {
            requests: state.schedule.requests(),
            bytes: state.schedule.bytes(),
            setting: setting.unwrap_or("capacity"),
            retry_after: (state.schedule.backlog() / lanes).max(SOON),
        }
    }

    /// Takes a request, or refuses it and says why.
    pub(super) fn add_one(
        &self,
        state: &mut State<K, J>,
        kind: K,
        parts: Parts<J>,
        when_full: Full,
        after: &mut After<'_, K, J>,
    ) -> Result<Admission, Rejected> {
        if let Some(part) = parts.first() {
            state.figures.submitted(part.tenant);
        }
        let is_late = parts
            .first()
            .is_some_and(|part| part.deadline.is_some_and(|at| at <= part.arrived));
        let (fate, why) = if state.phase.is_closing() {
            (Fate::Closed, Rejected::Closed)
        } else if is_late {
            (Fate::Expired, Rejected::Expired)
        } else if bytes(&parts) > self.capacity.bytes {
            let too_large = Rejected::TooLarge {
                bytes: bytes(&parts),
                capacity: self.capacity.bytes,
            };
            (Fate::Rejected, too_large)
        } else if self.is_next(state, &parts) && self.has_room(state, &parts) {
            return Ok(Admission::Queued(queue(state, &kind, parts)));
        } else if when_full == Full::Hold {
            let place = Arc::new(Outcome::new());
            state.held.0.push_back(Outside {
                kind,
                parts,
                place: place.clone(),
            });
            return Ok(Admission::Held(place));
        } else {
            (Fate::Rejected, self.full(state, &parts))
        };
        state.settle(&parts, fate);
        after.refused.push((parts, why));
        Err(why)
    }
}

fn bytes<J>(parts: &Parts<J>) -> usize {
    parts.iter().map(|part| part.bytes).sum()
}

fn queue<K: Hash + Eq + Clone, J>(state: &mut State<K, J>, kind: &K, parts: Parts<J>) -> Ids {
    let ids = parts.into_iter().map(|part| state.schedule.add(kind, part));
    ids.collect()
}
