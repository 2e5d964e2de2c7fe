//! The three ways in: without the lock while nothing waits, by the inbox for callers that sleep until they have an answer,
//! and by the lock for all others.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use super::admission::queue;
use super::after::After;
use super::door::Door;
use super::held::Outside;
use super::inbox::Left;
use super::parts::{Admission, Full, Job, Parts, Rejected, bytes};
use super::state::{Engine, State};
use super::turn::Turn;
use crate::figures::{BatchFigures, Done, Fate};
use crate::outcome::Outcome;
use crate::schedule::{Entry, Id, Reason, TenantId};
use crate::sync::lock;

/// What became of requests that were brought together, and a batch to be run.
pub type Added<'a, K, J> = (Vec<Result<Admission, Rejected>>, Option<Turn<'a, K, J>>);

/// What came in out of the inbox.
pub struct Came {
    /// Which round it was.
    round: u64,
    requests: usize,
    /// Whether none of them has a deadline.
    patient: bool,
    /// The first of them, if it is queued.
    first: Option<Id>,
}

impl<K: Hash + Eq + Clone, J: Job> Engine<K, J> {
    /// Runs a request on the calling thread without the lock, if nothing waits, no batch is under way and a lane is free. Else
    /// gives it back.
    pub fn run_at_once(
        &self,
        kind: &K,
        parts: Parts<J>,
        run: &impl Fn(Vec<Entry<J>>, usize) -> Done,
    ) -> Result<(), Parts<J>> {
        let [part] = &parts[..] else {
            return Err(parts);
        };
        let is_late = part.deadline.is_some_and(|at| at <= part.arrived);
        if is_late || part.bytes > self.capacity.bytes {
            return Err(parts);
        }
        let Some(lane) = self.door.enter() else {
            return Err(parts);
        };
        let mut out = Out {
            engine: self,
            lane,
            kind,
            tenant: part.tenant,
            batch: BatchFigures::of(&parts, Reason::Free, part.arrived),
            done: Done::default(),
        };
        out.done = run(parts.into_vec(), lane);
        Ok(())
    }

    /// Nobody comes to a lane without the lock any more. Those that are out come back by it.
    pub(super) fn shut_door(&self, state: &mut State<K, J>) {
        if !state.is_door_open {
            return;
        }
        state.is_door_open = false;
        state.free.extend(self.door.shut());
        for lane in &self.lanes {
            if let Some((kind, rows, took)) = lock(&lane.0).sample.take() {
                state.schedule.learn_of(&kind, rows, took);
            }
        }
    }

    /// Lets callers come to a lane without the lock, if nothing waits and no batch is under way that has the lock's leave.
    pub(super) fn open_door(&self, state: &mut State<K, J>) {
        let nothing_waits = state.schedule.requests() == 0 && state.held.is_empty();
        let is_open = !state.phase.is_closing() && !state.schedule.waits_for_others();
        if nothing_waits && is_open && state.turns == 0 && !state.is_door_open {
            state.is_door_open = true;
            let (door, others): (Vec<_>, _) =
                state.free.drain(..).partition(|&lane| lane < Door::LANES);
            state.free = others;
            self.door.open(door);
        }
    }

    /// Leaves a request whose caller will sleep until it knows what became of it, be it that there is no room. Gives it a batch to
    /// run, if one can go and its request is in it: it is all that waits, goes together with all that waits, or is next.
    pub fn leave(&self, kind: K, parts: Parts<J>, when_full: Full) -> Option<Turn<'_, K, J>> {
        let left = Left {
            kind,
            parts,
            when_full,
        };
        let round = self.inbox.leave(left)?;
        let mut after = After::new();
        let mut state = lock(&self.state);
        let alone = state.schedule.requests() == 0;
        let came = self.collect(&mut state, &mut after);
        let is_among_them = came.round == round && came.requests > 0;
        let now = Instant::now();
        let is_all = alone && came.requests == 1 || came.patient && state.schedule.is_one_batch();
        // Who finds the inbox empty is the first in it.
        let leads = |id: Id| state.schedule.is_next(id, now, state.phase.is_closing());
        match is_among_them && (is_all || came.first.is_some_and(leads)) {
            true => self.take(&mut state, &mut after),
            false => self.call_if_ready(&mut state, now),
        }
        drop(state);
        after.come()
    }

    /// Takes in what was left. Who finds no room is told.
    pub(super) fn collect(&self, state: &mut State<K, J>, after: &mut After<'_, K, J>) -> Came {
        let (left, round) = self.inbox.empty();
        let mut came = Came {
            round,
            requests: left.len(),
            patient: true,
            first: None,
        };
        if left.is_empty() {
            return came;
        }
        self.shut_door(state);
        for (at, one) in left.into_iter().enumerate() {
            came.patient &= one.parts.iter().all(|part| part.deadline.is_none());
            // Its caller sleeps, and hears by its answer if it is refused.
            let added = self.add_one(state, one.kind, one.parts, one.when_full, after);
            if let (0, Ok(Admission::Queued(ids))) = (at, added) {
                came.first = ids.first().copied();
            }
        }
        self.tell_keeper(state, Instant::now());
        came
    }

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
            state.held.add(Outside {
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

/// A lane that was taken at the door. It comes back whatever became of the request.
struct Out<'a, K: Hash + Eq + Clone, J: Job> {
    engine: &'a Engine<K, J>,
    lane: usize,
    kind: &'a K,
    tenant: TenantId,
    batch: BatchFigures,
    /// Nobody sleeps for it: its caller is this thread.
    done: Done,
}

impl<K: Hash + Eq + Clone, J: Job> Drop for Out<'_, K, J> {
    fn drop(&mut self) {
        let mut record = lock(&self.engine.lanes[self.lane].0);
        record.figures.submitted(self.tenant);
        record.figures.done(&self.batch, &self.done);
        if let Some(took) = self.done.took
            && record.sample.is_none()
        {
            record.sample = Some((self.kind.clone(), self.batch.rows, took));
        }
        drop(record);
        if !self.engine.door.leave(self.lane) {
            let mut state = lock(&self.engine.state);
            self.engine.shut_door(&mut state);
            self.engine.take_back(&mut state, self.lane);
        }
    }
}
