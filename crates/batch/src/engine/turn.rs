//! A batch that its holder has to run, and the lane that is its own meanwhile.

use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::parts::Job;
use super::state::Engine;
use crate::figures::{BatchFigures, Done};
use crate::outcome::discard;
use crate::schedule::{Entry, Group};
use crate::sync::lock;

/// A batch to be run. Dropped, it gives its lane back, whatever became of the batch.
pub struct Turn<'a, K: Hash + Eq + Clone, J: Job> {
    engine: &'a Engine<K, J>,
    group: Group<J>,
    lane: usize,
    begun: Instant,
    /// What it came to, once it has begun.
    done: Option<(BatchFigures, Done)>,
}

impl<'a, K: Hash + Eq + Clone, J: Job> Turn<'a, K, J> {
    /// A batch on a lane that was taken for it.
    pub(super) fn new(
        engine: &'a Engine<K, J>,
        group: Group<J>,
        lane: usize,
        begun: Instant,
    ) -> Self {
        Turn {
            engine,
            group,
            lane,
            begun,
            done: None,
        }
    }

    /// The requests of the batch.
    #[cfg(test)]
    pub(super) fn entries(&self) -> &[Entry<J>] {
        &self.group.entries
    }

    /// Runs the batch on the calling thread. Where that panics, those of its requests that have no answer are dropped, and the queue
    /// goes on.
    pub fn run(mut self, run: &impl Fn(Vec<Entry<J>>, usize) -> Done) {
        let (engine, lane) = (self.engine, self.lane);
        let entries = std::mem::take(&mut self.group.entries);
        let batch = BatchFigures::of(&entries, self.group.reason, self.begun);
        let done = catch_unwind(AssertUnwindSafe(|| run(entries, lane)));
        let mut done = done.unwrap_or_else(|panic| {
            discard(panic);
            Done::default()
        });
        // Who hears of an answer finds it counted.
        let waiters = std::mem::take(&mut done.waiters);
        self.done = Some((batch, done));
        drop(self);
        engine.alarm.ring(waiters);
    }
}

impl<K: Hash + Eq + Clone, J: Job> Drop for Turn<'_, K, J> {
    fn drop(&mut self) {
        let mut guard = lock(&self.engine.state);
        let state = &mut *guard;
        state.turns -= 1;
        let took = self.done.as_ref().and_then(|(_, done)| done.took);
        let schedule = &mut state.schedule;
        schedule.over(self.group.bucket, self.group.rows, took);
        if let Some(took) = took {
            schedule.held(self.begun.elapsed().saturating_sub(took));
        }
        if let Some((batch, done)) = &self.done {
            state.figures.done(batch, done);
        }
        self.engine.take_back(state, self.lane);
    }
}
