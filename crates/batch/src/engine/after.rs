//! What is to be done once the queue's lock is given up.

use std::hash::Hash;

use super::parts::{Job, Parts, Rejected};
use super::turn::Turn;
use crate::outcome::{Waiter, wake};

/// Who is to be woken, what is refused or given up, and the batch that was taken. Arrays and wakers are foreign: none is dropped or
/// called under the lock. It is made before the lock is taken, and so dropped after it, even if what happens under it panics: those
/// it has are told then, too, and the batch gives its lane back.
pub struct After<'a, K: Hash + Eq + Clone, J: Job> {
    pub waiters: Vec<Waiter>,
    pub refused: Vec<(Parts<J>, Rejected)>,
    /// Nobody asks for them any more.
    pub given_up: Vec<Parts<J>>,
    pub turn: Option<Turn<'a, K, J>>,
}

impl<'a, K: Hash + Eq + Clone, J: Job> After<'a, K, J> {
    /// Nothing so far.
    pub fn new() -> Self {
        After {
            waiters: Vec::new(),
            refused: Vec::new(),
            given_up: Vec::new(),
            turn: None,
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.refused.is_empty() && self.turn.is_none()
    }

    /// Does it, when the lock is free. Returns the batch that is to be run.
    pub fn come(&mut self) -> Option<Turn<'a, K, J>> {
        wake(self.waiters.drain(..));
        for (parts, why) in self.refused.drain(..) {
            wake(parts.into_iter().filter_map(|part| part.job.refuse(why)));
        }
        self.given_up.clear();
        self.turn.take()
    }
}

impl<K: Hash + Eq + Clone, J: Job> Drop for After<'_, K, J> {
    fn drop(&mut self) {
        self.come();
    }
}
