//! Completion handlers: a few threads of ours call them, one at a time for each lane, in order, with no lock held.
//! Metal's own threads do not: a handler may take long, and Metal would have no thread for what completes meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use streampool_device::lock::{self, Condvar, Mutex};
use streampool_device::{Fault, Handler, Tick, foreign};

use super::peer::Peer;
use crate::ranks;

/// How long a thread waits for the next handler before it ends.
const IDLE: Duration = Duration::from_secs(2);

type Outcome = std::result::Result<(), Fault>;

/// The handlers of one lane that are not yet called.
pub(crate) struct Handlers(Mutex<List>);

#[derive(Default)]
struct List {
    waiting: VecDeque<(Tick, Handler)>,
    due: VecDeque<(Handler, Outcome)>,
    /// Whether a thread is at it, or will be.
    taken: bool,
}

impl Handlers {
    pub fn new() -> Handlers {
        Handlers(Mutex::new(ranks::HANDLERS, List::default()))
    }

    /// Has `handler` called when `tick` is over.
    pub fn push(&self, tick: Tick, handler: Handler) {
        self.0.lock().waiting.push_back((tick, handler));
    }

    /// `tick` is over, on a lane that `fault` poisons. Whether the caller has to see to it that those that are due
    /// now are called.
    pub fn settle(&self, tick: Tick, fault: Option<&Fault>) -> bool {
        let mut list = self.0.lock();
        while list.waiting.front().is_some_and(|(at, _)| *at <= tick) {
            let Some((at, handler)) = list.waiting.pop_front() else {
                break;
            };
            let outcome = match fault {
                Some(fault) if at >= fault.tick() => Err(fault.clone()),
                _ => Ok(()),
            };
            list.due.push_back((handler, outcome));
        }
        !list.due.is_empty() && !std::mem::replace(&mut list.taken, true)
    }

    /// The next one that is due; without one, the list is free for another thread.
    fn next(&self) -> Option<(Handler, Outcome)> {
        let mut list = self.0.lock();
        let next = list.due.pop_front();
        list.taken = next.is_some();
        next
    }

    /// Calls those that are due, until none is.
    pub fn call_all(&self) {
        while let Some((handler, outcome)) = self.next() {
            lock::assert_none_held();
            // The panic hook has reported it, and what follows does not depend on it.
            let _ = foreign::call(|| handler(outcome));
        }
    }
}

/// The threads that call handlers. They start when they are needed and end when they were not for a while.
pub(crate) struct Callers(Arc<Shared>);

struct Shared {
    due: Mutex<Due>,
    work: Condvar,
}

#[derive(Default)]
struct Due {
    lanes: VecDeque<Arc<dyn Peer>>,
    idle: usize,
}

impl Callers {
    pub fn new() -> Callers {
        Callers(Arc::new(Shared {
            due: Mutex::new(ranks::DUE, Due::default()),
            work: Condvar::new(),
        }))
    }

    /// Has the handlers of `lane` called.
    pub fn hand_over(&self, lane: Arc<dyn Peer>) {
        let mut due = self.0.due.lock();
        due.lanes.push_back(lane);
        if due.idle >= due.lanes.len() {
            drop(due);
            self.0.work.notify_one();
            return;
        }
        drop(due);
        let shared = self.0.clone();
        let spawned = std::thread::Builder::new()
            .name("metal-handlers".to_owned())
            .spawn(move || shared.call_handlers());
        if spawned.is_err() {
            // Without a thread of its own, it is called here: late for others, but called.
            let lane = self.0.due.lock().lanes.pop_back();
            if let Some(lane) = lane {
                lane.call_handlers();
            }
        }
    }
}

impl Shared {
    fn call_handlers(&self) {
        while let Some(lane) = self.next_due() {
            lane.call_handlers();
        }
    }

    fn next_due(&self) -> Option<Arc<dyn Peer>> {
        let mut due = self.due.lock();
        if let Some(lane) = due.lanes.pop_front() {
            return Some(lane);
        }
        due.idle += 1;
        due = self.work.wait_timeout(due, IDLE);
        due.idle -= 1;
        due.lanes.pop_front()
    }
}
