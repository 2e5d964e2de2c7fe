//! Completion handlers of a lane: they are called in order, one at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_device::lock::Mutex;
use streampool_device::{Handler, Tick};

use crate::ranks;

/// The handlers of one lane that are not yet called.
pub(crate) struct Handlers {
    count: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    waiting: VecDeque<(Tick, Handler)>,
    /// Whether a thread is at it, or will be.
    taken: bool,
}

impl Handlers {
    pub fn new() -> Handlers {
        Handlers {
            count: AtomicUsize::new(0),
            list: Mutex::new(ranks::HANDLERS, List::default()),
        }
    }

    /// Whether none waits to be called.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Has `handler` called when `tick` is over.
    pub fn push(&self, tick: Tick, handler: Handler) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.list.lock().waiting.push_back((tick, handler));
    }

    /// Whether the first is due and nobody is at it; then the caller has to be.
    pub fn take(&self, completed: Tick) -> bool {
        let mut list = self.list.lock();
        let due = list
            .waiting
            .front()
            .is_some_and(|(tick, _)| *tick <= completed);
        due && !std::mem::replace(&mut list.taken, true)
    }

    /// The next one that is due; without one, the list is free for another thread.
    pub fn next(&self, completed: Tick) -> Option<(Tick, Handler)> {
        let mut list = self.list.lock();
        let due = list
            .waiting
            .front()
            .is_some_and(|(tick, _)| *tick <= completed);
        let next = if due { list.waiting.pop_front() } else { None };
        list.taken = next.is_some();
        next
    }

    /// One that [`next`](Self::next) gave was called.
    pub fn was_called(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}
