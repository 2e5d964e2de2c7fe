//! Calls of a queue's function that wait for the queue themselves. They keep their lanes meanwhile: once all lanes are kept
//! so, on whatever threads, none of them would ever go on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::outcome::Outcome;

/// What is waited for: an answer, or room.
pub trait Awaited: Send + Sync {
    /// Whether it is there.
    fn is_there(&self) -> bool;
}

impl<R: Send> Awaited for Outcome<R> {
    fn is_there(&self) -> bool {
        self.is_put()
    }
}

/// What the calls of a queue's function wait for.
#[derive(Default)]
pub struct Nested(Mutex<Vec<Wait>>);

struct Wait {
    thread: ThreadId,
    /// How many calls it holds up that no earlier wait of its thread does.
    calls: usize,
    awaited: Arc<dyn Awaited>,
}

impl Nested {
    /// A thread that is in so many calls of the function is about to wait for something, until what is returned is dropped. Not
    /// if that would never come: all lanes are of calls that wait, and none has what it waits for yet.
    pub fn begin(
        self: &Arc<Self>,
        calls: usize,
        lanes: usize,
        awaited: Arc<dyn Awaited>,
    ) -> Option<Waiting> {
        let thread = std::thread::current().id();
        let mut waits = self.waits();
        let own = waits.iter().filter(|wait| wait.thread == thread);
        let counted: usize = own.map(|wait| wait.calls).sum();
        waits.push(Wait {
            thread,
            calls: calls - counted,
            awaited: awaited.clone(),
        });
        let waiting = Waiting {
            nested: self.clone(),
            awaited,
        };
        let held_up: usize = waits.iter().map(|wait| wait.calls).sum();
        // Who has it goes on, and may free its lane.
        let goes_on = held_up < lanes || waits.iter().any(|wait| wait.awaited.is_there());
        drop(waits);
        goes_on.then_some(waiting)
    }

    fn waits(&self) -> MutexGuard<'_, Vec<Wait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits.
#[must_use]
pub struct Waiting {
    nested: Arc<Nested>,
    awaited: Arc<dyn Awaited>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waits = self.nested.waits();
        waits.retain(|wait| {
            !std::ptr::addr_eq(Arc::as_ptr(&wait.awaited), Arc::as_ptr(&self.awaited))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use crate::error::Error;

    fn answer() -> Arc<Answer> {
        Arc::new(Outcome::new())
    }

    #[test]
    fn the_last_lane_is_not_waited_on() {
        let nested = Arc::new(Nested::default());
        let first = nested.begin(1, 2, answer());
        assert!(first.is_some());
        let other = nested.clone();
        let refused = std::thread::spawn(move || other.begin(1, 2, answer()).is_none());
        assert!(refused.join().unwrap());
        drop(first);
        assert!(nested.begin(1, 2, answer()).is_some());
    }

    #[test]
    fn calls_within_a_call_are_counted_once() {
        let nested = Arc::new(Nested::default());
        let _outer = nested.begin(1, 3, answer()).unwrap();
        let inner = nested.begin(2, 3, answer());
        assert!(inner.is_some());
        assert!(nested.begin(3, 3, answer()).is_none());
    }

    #[test]
    fn who_has_an_answer_holds_nobody_up() {
        let nested = Arc::new(Nested::default());
        let known = answer();
        let _goes_on = nested.begin(1, 2, known.clone()).unwrap();
        known.put(Err(Error::Closed));
        assert!(nested.begin(2, 2, answer()).is_some());
    }
}
