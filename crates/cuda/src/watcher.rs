//! The watcher: it sees when something of a lane is due, and a few threads call completion handlers, one at a time
//! for each lane, in order, with no lock held.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use streampool_device::lock::{Condvar, Mutex};
use streampool_device::{Error, Result};

use crate::ranks;

/// How long the watcher rests between two looks: shortly while something happens.
const SHORTEST_REST: Duration = Duration::from_micros(20);
const LONGEST_REST: Duration = Duration::from_millis(1);
/// How long a thread waits for the next handler before it ends.
const IDLE: Duration = Duration::from_secs(2);

/// A lane, as far as it is looked after.
pub(crate) trait Watched: Send + Sync {
    /// Asks how far it is, and settles and reports what is over. Says whether anything is over that was not before,
    /// and whether handlers are due: then the caller has to have them called.
    fn look(&self) -> (bool, bool);

    /// Whether it owes nobody anything any more.
    fn is_settled(&self) -> bool;

    /// Calls the handlers that are due.
    fn call_handlers(&self);
}

/// Looks after the lanes that owe somebody something: handlers, intervals, memory to let go of. Its one
/// thread starts when it is first needed.
pub(crate) struct Watcher(Arc<Shared>);

struct Shared {
    watched: Mutex<State>,
    news: Condvar,
    due: Mutex<Due>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    lanes: Vec<Arc<dyn Watched>>,
    started: bool,
    stopped: bool,
}

#[derive(Default)]
struct Due {
    lanes: VecDeque<Arc<dyn Watched>>,
    idle: usize,
}

impl Watcher {
    pub fn new() -> Watcher {
        Watcher(Arc::new(Shared {
            watched: Mutex::new(ranks::WATCHED, State::default()),
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
    pub fn watch<L: Watched + 'static>(&self, lane: &Arc<L>) {
        let mut watched = self.0.watched.lock();
        if !watched
            .lanes
            .iter()
            .any(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(lane)))
        {
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
                let (passed, due) = lane.look();
                news |= passed || due;
                if due {
                    self.hand_over(lane.clone());
                }
            }
            self.forget(&lanes);
            rest = match news {
                true => SHORTEST_REST,
                false => (rest * 2).min(LONGEST_REST),
            };
        }
    }

    /// The lanes to look at, after a rest; `None` at the end.
    fn next_round(&self, rest: Duration) -> Option<Vec<Arc<dyn Watched>>> {
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
    fn forget(&self, lanes: &[Arc<dyn Watched>]) {
        let settled = |lane: &Arc<dyn Watched>| lane.is_settled();
        if !lanes.iter().any(settled) {
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
    fn hand_over(self: &Arc<Self>, lane: Arc<dyn Watched>) {
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

    fn next_due(&self) -> Option<Arc<dyn Watched>> {
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
