//! Requests that are run by their callers without the lock, while nothing waits.

use std::hash::Hash;
use std::time::Duration;

use super::door::Door;
use super::{Done, Engine, Job, Parts, State};
use crate::figures::{BatchFigures, Figures};
use crate::schedule::{Entry, Reason, TenantId};
use crate::sync::{Mutex, lock};

/// What was done on a lane without the lock. On a cache line of its own, so that lanes do not slow each other down.
#[repr(align(128))]
pub struct Lane<K>(Mutex<Record<K>>);

struct Record<K> {
    figures: Figures,
    /// How long so many rows of a kind took.
    sample: Option<(K, usize, Duration)>,
}

impl<K> Lane<K> {
    /// Nothing was done yet.
    pub fn new() -> Lane<K> {
        Lane(Mutex::new(Record {
            figures: Figures::default(),
            sample: None,
        }))
    }

    /// Adds to `figures` what was done since the last time.
    pub fn tell(&self, figures: &mut Figures) {
        figures.add(std::mem::take(&mut lock(&self.0).figures));
    }
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
