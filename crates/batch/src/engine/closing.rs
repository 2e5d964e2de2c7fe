//! How a queue ends, and begins again.

use std::hash::Hash;

use super::after::After;
use super::parts::{Job, Rejected, one};
use super::state::{Engine, Phase, State};
use crate::figures::Fate;
use crate::sync::{lock, wait};

/// What happens to requests that are queued when the queue is closed. Those that run already run to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// They are run.
    Drain,
    /// They are refused.
    Cancel,
}

impl<K: Hash + Eq + Clone, J: Job> Engine<K, J> {
    /// Takes nothing any more. What waits is run or refused.
    pub fn close(&self, how: Shutdown) {
        let mut after: After<'_, K, J> = After::new();
        let mut state = lock(&self.state);
        self.shut_door(&mut state);
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        let mut given_up = state.held.clear(&mut after.waiters);
        if how == Shutdown::Cancel {
            given_up.extend(state.schedule.clear().into_iter().map(one));
        }
        for parts in given_up {
            state.settle(&parts, Fate::Closed);
            after.refused.push((parts, Rejected::Closed));
        }
        self.close_if_over(&mut state);
        // All that is left can go at once now.
        state.calls = state.idle;
        self.called.notify_all();
    }

    /// Waits until nothing is left of a queue that is being closed.
    pub fn wait_until_closed(&self) {
        let mut state = lock(&self.state);
        while state.phase == Phase::Closing {
            state = wait(&self.closed, state);
        }
    }

    /// Opens a closed queue again.
    pub fn open(&self) {
        lock(&self.state).phase = Phase::Open;
    }

    /// Whether nothing is left of it.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).phase == Phase::Closed
    }

    /// Whether requests are taken.
    pub fn is_open(&self) -> bool {
        lock(&self.state).phase == Phase::Open
    }

    /// Ends a queue that is being closed, once nothing is left: workers and the keeper go home.
    pub(super) fn close_if_over(&self, state: &mut State<K, J>) {
        if state.phase == Phase::Closing && state.is_idle() && state.schedule.requests() == 0 {
            state.phase = Phase::Closed;
            self.closed.notify_all();
            self.called.notify_all();
            self.clock.notify_all();
        }
    }
}
