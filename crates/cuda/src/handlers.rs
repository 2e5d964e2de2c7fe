//! Completion handlers: one watcher for all lanes sees when they are due, and a few threads call them, one at
//! a time for each lane, in order, with no lock held.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use streampool_device::lock::{self, Condvar, Mutex};
use streampool_device::{Error, Fault, Handler, OpKind, Result, Tick, foreign};

use crate::lane::Lane;
use crate::ranks;

/// How long the watcher rests between two looks: shortly while something happens.
const SHORTEST_REST: Duration = Duration::from_micros(20);
const LONGEST_REST: Duration = Duration::from_millis(1);
/// How long a thread waits for the next handler before it ends.
const IDLE: Duration = Duration::from_secs(2);

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
    fn take(&self, completed: Tick) -> bool {
        let mut list = self.list.lock();
        let due = list
            .waiting
            .front()
            .is_some_and(|(tick, _)| *tick <= completed);
        due && !std::mem::replace(&mut list.taken, true)
    }

    /// The next one that is due; without one, the list is free for another thread.
    fn next(&self, completed: Tick) -> Option<(Tick, Handler)> {
        let mut list = self.list.lock();
        let due = list
            .waiting
            .front()
            .is_some_and(|(tick, _)| *tick <= completed);
        let next = if due { list.waiting.pop_front() } else { None };
        list.taken = next.is_some();
        next
    }
}

impl Lane {
    fn call_handlers(&self) {
        while let Some((tick, handler)) = self.handlers.next(self.completed()) {
            let outcome = match self.core.context.check_alive() {
                Ok(()) => Ok(()),
                Err(lost) => Err(Fault::new(&self.label, tick, OpKind::Nop, lost.to_string())),
            };
            lock::assert_none_held();
            // The panic hook has reported it, and what follows does not depend on it.
            let _ = foreign::call(|| handler(outcome));
            self.handlers.count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Looks after the lanes that owe somebody something: handlers, intervals, memory to let go of. Its one
/// thread starts when it is first needed.
pub(crate) struct Watcher(Arc<Shared>);

struct Shared {
    watched: Mutex<Watched>,
    news: Condvar,
    due: Mutex<Due>,
    work: Condvar,
}

#[derive(Default)]
struct Watched {
    lanes: Vec<Arc<Lane>>,
    started: bool,
    stopped: bool,
}

#[derive(Default)]
struct Due {
    lanes: VecDeque<Arc<Lane>>,
    idle: usize,
}

impl Watcher {
    pub fn new() -> Watcher {
        Watcher(Arc::new(Shared {
            watched: Mutex::new(ranks::WATCHED, Watched::default()),
            news: Condvar::new(),
            due: Mutex::new(ranks::DUE, Due::default()),
            work: Condvar::new(),
        }))
    }

    /// Starts the thread, once.
    pub fn start(&self) -> Result<()> {
        let mut watched = self.0.watched.lock();
        if !watched.started {
            let shared = self.0.clone();
            spawn("cuda-watcher", move || shared.keep_watch())?;
            watched.started = true;
        }
        Ok(())
    }

    /// Looks after `lane` as long as it owes something. It was started before.
    pub fn watch(&self, lane: &Arc<Lane>) {
        let mut watched = self.0.watched.lock();
        if !watched.lanes.iter().any(|known| Arc::ptr_eq(known, lane)) {
            watched.lanes.push(lane.clone());
        }
        drop(watched);
        self.0.news.notify_one();
    }

    /// Something may be due now.
    pub fn look(&self) {
        self.0.news.notify_one();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The last one to let go may be the watcher itself: it is told, not waited for.
        self.0.watched.lock().stopped = true;
        self.0.news.notify_one();
    }
}

impl Shared {
    fn keep_watch(self: Arc<Self>) {
        let mut rest = SHORTEST_REST;
        loop {
            let Some(lanes) = self.next_round(rest) else {
                return;
            };
            let mut news = false;
            for lane in &lanes {
                let before = lane.completed();
                let completed = lane.poll();
                lane.settle(completed);
                lane.report_due();
                news |= completed > before;
                if lane.handlers.take(completed) {
                    news = true;
                    self.hand_over(lane.clone());
                }
            }
            let settled = |lane: &Arc<Lane>| lane.is_over(lane.appended()) && !lane.owes();
            self.forget(&lanes, settled);
            rest = match news {
                true => SHORTEST_REST,
                false => (rest * 2).min(LONGEST_REST),
            };
        }
    }

    /// The lanes to look at, after a rest; `None` at the end.
    fn next_round(&self, rest: Duration) -> Option<Vec<Arc<Lane>>> {
        let mut watched = self.watched.lock();
        if !watched.lanes.is_empty() {
            watched = self.news.wait_timeout(watched, rest);
        }
        while watched.lanes.is_empty() && !watched.stopped {
            watched = self.news.wait(watched);
        }
        (!watched.stopped).then(|| watched.lanes.clone())
    }

    /// Looks no more after those of `lanes` that are settled.
    fn forget(&self, lanes: &[Arc<Lane>], settled: impl Fn(&Arc<Lane>) -> bool) {
        if !lanes.iter().any(&settled) {
            return;
        }
        let mut watched = self.watched.lock();
        let (gone, kept) = watched.lanes.drain(..).partition::<Vec<_>, _>(settled);
        watched.lanes = kept;
        drop(watched);
        // Perhaps the last of their kind: not with the lock held.
        drop(gone);
    }

    /// Has the handlers of `lane` called.
    fn hand_over(self: &Arc<Self>, lane: Arc<Lane>) {
        let mut due = self.due.lock();
        due.lanes.push_back(lane);
        if due.idle >= due.lanes.len() {
            drop(due);
            self.work.notify_one();
            return;
        }
        drop(due);
        let shared = self.clone();
        if spawn("cuda-handlers", move || shared.call_handlers()).is_err() {
            // Without a thread of its own, it is called here: late for others, but called.
            let lane = self.due.lock().lanes.pop_back();
            if let Some(lane) = lane {
                lane.call_handlers();
            }
        }
    }

    fn call_handlers(&self) {
        while let Some(lane) = self.next_due() {
            lane.call_handlers();
        }
    }

    fn next_due(&self) -> Option<Arc<Lane>> {
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

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| Error::Unavailable {
            device: "cuda".to_owned(),
            why: format!("a thread cannot be started: {error}"),
        })
}
