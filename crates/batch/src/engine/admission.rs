//! Room for requests: who has it, and who comes in when there is some again.

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::after::After;
use super::held::{Key, Outside, told};
use super::parts::{Capacity, Job, Parts, Place, Rejected, bytes, priority};
use super::state::{Engine, State};
use crate::figures::Fate;
use crate::schedule::Ids;
use crate::sync::lock;

/// Who found no room does not come again sooner, even if all that waits is thought to take less, or nothing is known of it.
const SOON: Duration = Duration::from_millis(1);

/// Of the room, one part of so many is kept for tenants that have less than their share.
const KEPT: usize = 8;

impl<K: Hash + Eq + Clone, J: Job> Engine<K, J> {
    /// Gives up a request that is held outside, if it is still there, and says what it waited for; if not, its place is known.
    pub fn withdraw(&self, place: &Arc<Place>, fate: Fate) -> Option<Rejected> {
        let mut after = After::new();
        let outside;
        let mut state = lock(&self.state);
        let key = state.held.find(place)?;
        outside = state.held.remove(key)?;
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
        let before = state.held.len();
        while let Some(key) = self.next_in(state)
            && let Some(mut outside) = state.held.remove(key)
        {
            let ids = queue(state, &outside.kind, std::mem::take(&mut outside.parts));
            after.waiters.extend(told(&outside.place, Some(ids)));
        }
        if state.held.len() < before {
            let now = Instant::now();
            self.tell_keeper(state, now);
            self.call_if_ready(state, now);
        }
    }

    /// Who comes in next of those outside, if there is room: the first whose tenant has less than its share, or else the first.
    fn next_in(&self, state: &State<K, J>) -> Option<Key> {
        if state.schedule.requests() >= self.capacity.requests {
            return None;
        }
        let (key, next) = self.may_come_in(state).min_by_key(|(key, outside)| {
            let is_within = self.is_within_share(state, &outside.parts);
            (!is_within, key.number)
        })?;
        self.has_room(state, &next.parts).then_some(key)
    }

    /// Whether a request that comes now comes in before all that waits outside.
    pub(super) fn is_next(&self, state: &State<K, J>, parts: &Parts<J>) -> bool {
        let is_within = self.is_within_share(state, parts);
        !self
            .may_come_in(state)
            .any(|(_, outside)| !is_within || self.is_within_share(state, &outside.parts))
    }

    /// The first of each tenant and priority outside, but for priorities that are full.
    fn may_come_in<'a>(
        &'a self,
        state: &'a State<K, J>,
    ) -> impl Iterator<Item = (Key, &'a Outside<K, J>)> {
        let firsts = state.held.firsts();
        firsts.filter(|(_, outside)| !self.is_priority_full(state, &outside.parts))
    }

    /// Whether as many requests of this one's priority wait as may.
    fn is_priority_full(&self, state: &State<K, J>, parts: &Parts<J>) -> bool {
        let priority = priority(parts);
        let (requests, _) = state.schedule.waiting_of(priority);
        requests >= self.capacity.of_priority[priority as usize]
    }

    /// Whether the tenant of a request has less than its share of the room.
    fn is_within_share(&self, state: &State<K, J>, parts: &Parts<J>) -> bool {
        let Capacity {
            requests, bytes, ..
        } = self.capacity;
        let tenants = state.schedule.senders();
        let tenant = parts.first().map_or(0, |part| part.tenant);
        tenants.is_within_share(tenant, requests, bytes)
    }

    /// How much may wait when a request comes in: all, or a little less if its tenant has its share, and others may come.
    fn room_for(&self, state: &State<K, J>, parts: &Parts<J>) -> Capacity {
        let Capacity {
            requests, bytes, ..
        } = self.capacity;
        match state.schedule.senders().are_many() && !self.is_within_share(state, parts) {
            true => Capacity {
                requests: requests - requests.div_ceil(KEPT),
                bytes: bytes - bytes.div_ceil(KEPT),
                ..self.capacity
            },
            false => self.capacity,
        }
    }

    pub(super) fn has_room(&self, state: &State<K, J>, parts: &Parts<J>) -> bool {
        self.limit(state, parts).is_none()
    }

    /// Which limit a request would be beyond.
    fn limit(&self, state: &State<K, J>, parts: &Parts<J>) -> Option<&'static str> {
        let (schedule, capacity) = (&state.schedule, self.room_for(state, parts));
        if schedule.requests() >= capacity.requests {
            return Some("capacity");
        }
        if self.is_priority_full(state, parts) {
            return Some("capacity_of");
        }
        let all = schedule.bytes().saturating_add(bytes(parts));
        (all > capacity.bytes).then_some("capacity_bytes")
    }

    /// Why there is no room for a request. One that would fit waits behind others that do not.
    pub(super) fn full(&self, state: &State<K, J>, parts: &Parts<J>) -> Rejected {
        let firsts = state.held.firsts();
        let first = firsts.min_by_key(|(key, _)| key.number);
        let first = first.map(|(_, first)| &first.parts);
        let mut limits = std::iter::once(parts).chain(first);
        let limit = limits.find_map(|parts| Some((self.limit(state, parts)?, priority(parts))));
        let schedule = &state.schedule;
        let (setting, (requests, bytes), backlog) = match limit {
            Some((setting @ "capacity_of", priority)) => {
                let backlog = schedule.backlog_until(priority);
                (setting, schedule.waiting_of(priority), backlog)
            }
            limit => {
                let setting = limit.map_or("capacity", |(setting, _)| setting);
                let all = (schedule.requests(), schedule.bytes());
                (setting, all, schedule.backlog())
            }
        };
        let lanes = u32::try_from(state.lanes).unwrap_or(u32::MAX);
        Rejected::Full {
            requests,
            bytes,
            setting,
            retry_after: (backlog / lanes).max(SOON),
        }
    }
}

/// Puts a request in the queue.
pub(super) fn queue<K: Hash + Eq + Clone, J>(
    state: &mut State<K, J>,
    kind: &K,
    parts: Parts<J>,
) -> Ids {
    let ids = parts.into_iter().map(|part| state.schedule.add(kind, part));
    ids.collect()
}
