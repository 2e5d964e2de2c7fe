//! One compile that several threads wait for.

use std::sync::Arc;

use streampool_device::lock::{Condvar, Mutex};

use crate::ranks;

/// How a compile ended.
#[derive(Debug)]
pub(crate) enum Outcome<V, E> {
    /// With a kernel.
    Done(Arc<V>),
    /// With an error, which everyone who waited gets.
    Failed(E),
    /// By a panic: whoever waited tries again.
    Abandoned,
}

impl<V, E: Clone> Clone for Outcome<V, E> {
    fn clone(&self) -> Self {
        match self {
            Outcome::Done(value) => Outcome::Done(value.clone()),
            Outcome::Failed(error) => Outcome::Failed(error.clone()),
            Outcome::Abandoned => Outcome::Abandoned,
        }
    }
}

/// A compile in flight.
#[derive(Debug)]
pub(crate) struct Flight<V, E> {
    outcome: Mutex<Option<Outcome<V, E>>>,
    landed: Condvar,
}

impl<V, E: Clone> Flight<V, E> {
    pub(crate) fn new() -> Self {
        Flight {
            outcome: Mutex::new(ranks::FLIGHT, None),
            landed: Condvar::new(),
        }
    }

    /// Tells everyone who waits, now or later.
    pub(crate) fn land(&self, outcome: Outcome<V, E>) {
        *self.outcome.lock() = Some(outcome);
        self.landed.notify_all();
    }

    /// Waits for the compile to end.
    pub(crate) fn wait(&self) -> Outcome<V, E> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => outcome = self.landed.wait(outcome),
            }
        }
    }
}
