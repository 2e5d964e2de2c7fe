//! A queue for models: its requests tell what became of them, and nothing takes time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{
    Admission, Capacity, Done, Engine, Full, Job, Parts, Rejected, Shutdown, Turn,
};
use crate::figures::{Fate, RequestCounts};
use crate::loom_support::Turns;
use crate::outcome::{Accepted, Outcome, Waiter};
use crate::schedule::{Entry, Ids, Limits, Priority, Schedule, Tenants};
use crate::sync::{Condvar, Mutex, lock, wait};

/// What a caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Ran,
    Expired,
    Closed,
    GivenUp,
    NoRoom,
}
pub use End::*;

/// One request.
pub struct Call(Arc<Outcome<End>>);

pub fn put(call: Call, end: End) -> (bool, Option<Waiter>) {
    match call.0.put(end) {
        Accepted::By(waiter) => (true, waiter),
        Accepted::Not => (false, None),
    }
}

impl Job for Call {
    fn refuse(self, why: Rejected) -> Option<Waiter> {
        let end = match why {
            Rejected::Expired => Expired,
            Rejected::Closed => Closed,
            Rejected::Full { .. } => NoRoom,
            Rejected::TooLarge { .. } => panic!("it is not large"),
        };
        put(self, end).1
    }

    fn settles(&self) -> bool {
        true
    }
}

/// A queue, and how many requests were run.
pub struct Queue {
    pub engine: Engine<u8, Call>,
    runs: Mutex<usize>,
    ran: Condvar,
}

/// What was submitted, as far as its caller knows.
pub struct Submitted<'a> {
    pub outcome: Arc<Outcome<End>>,
    pub came: Result<Admission, Rejected>,
    pub turn: Option<Turn<'a, u8, Call>>,
}

pub fn request(late: bool) -> (Arc<Outcome<End>>, (u8, Parts<Call>)) {
    let now = Instant::now();
    let outcome = Arc::new(Outcome::new());
    let part = Entry {
        job: Call(outcome.clone()),
        rows: 1,
        bytes: 1,
        tenant: 0,
        priority: Priority::Normal,
        deadline: late.then_some(now),
        behind: None,
        // As if it had been some time on its way.
        arrived: now.checked_sub(Duration::from_nanos(1)).unwrap(),
    };
    (outcome, (0, std::iter::once(part).collect()))
}

impl Queue {
    /// Each request is a batch by itself.
    pub fn new(lanes: usize, capacity: usize) -> Arc<Queue> {
        Queue::of_batches(1, Duration::ZERO, lanes, capacity)
    }

    pub fn of_batches(rows: usize, wait: Duration, lanes: usize, capacity: usize) -> Arc<Queue> {
        let limits = Limits {
            rows,
            wait,
            passes: 8,
            adaptive: false,
            objective: None,
        };
        let capacity = Capacity {
            requests: capacity,
            bytes: 100,
            of_priority: [usize::MAX; Priority::COUNT],
        };
        Arc::new(Queue {
            engine: Engine::new(Schedule::new(limits, Tenants::new([])), lanes, capacity),
            runs: Mutex::new(0),
            ran: Condvar::new(),
        })
    }

    pub fn run(&self, entries: Vec<Entry<Call>>) -> Done {
        let mut done = Done::default();
        for entry in entries {
            *lock(&self.runs) += 1;
            self.ran.notify_one();
            let (accepted, waiter) = put(entry.job, Ran);
            let fate = if accepted {
                Fate::Completed
            } else {
                Fate::Cancelled
            };
            done.fates.push((entry.tenant, fate));
            done.waiters.extend(waiter);
        }
        done
    }

    /// A request, late or not, whose caller runs a batch itself or leaves that to others.
    pub fn submit(&self, full: Full, late: bool, helper: bool) -> Submitted<'_> {
        let (outcome, request) = request(late);
        let (mut came, turn) = self.engine.add([request], full, helper);
        Submitted {
            outcome,
            came: came.pop().unwrap(),
            turn,
        }
    }

    /// Two requests that come in at the same time.
    pub fn submit_two(&self) -> [Arc<Outcome<End>>; 2] {
        let [(first, one), (second, other)] = [request(false), request(false)];
        let (came, _) = self.engine.add([one, other], Full::Refuse, false);
        assert!(came.iter().all(Result::is_ok));
        [first, second]
    }

    /// Submits a request as [`submit`](Self::submit) does, runs what it is given to run, and waits for its end.
    pub fn infer(&self, full: Full, helper: bool) -> End {
        let submitted = self.submit(full, false, helper);
        if let Some(turn) = submitted.turn {
            turn.run(&|entries, _| self.run(entries));
        }
        match submitted.came {
            Ok(Admission::Queued(_)) => submitted.outcome.wait(),
            Ok(Admission::Held(place)) => {
                place.wait();
                submitted.outcome.wait()
            }
            Err(Rejected::Closed) => Closed,
            Err(why) => panic!("{why:?}"),
        }
    }

    /// Leaves a request in the inbox, runs what it is given to run, and waits for its end.
    pub fn leave(&self, full: Full) -> End {
        let (outcome, (kind, parts)) = request(false);
        if let Some(turn) = self.engine.leave(kind, parts, full) {
            turn.run(&|entries, _| self.run(entries));
        }
        outcome.wait()
    }

    /// A queue whose door is open: a request has been run already.
    pub fn with_open_door(lanes: usize) -> Arc<Queue> {
        let queue = Queue::new(lanes, 9);
        assert_eq!(queue.infer(Full::Refuse, true), Ran);
        queue
    }

    /// Runs a request without the lock if the door is open, and says so; else as [`leave`](Self::leave) does.
    pub fn infer_by_the_door(&self) -> (bool, End) {
        let (outcome, (kind, parts)) = request(false);
        let run = |entries: Vec<_>, _| self.run(entries);
        match self.engine.run_at_once(&kind, parts, &run) {
            Ok(()) => (true, outcome.wait()),
            Err(_) => (false, self.leave(Full::Refuse)),
        }
    }

    pub fn runs(&self) -> usize {
        *lock(&self.runs)
    }

    /// Waits until so many requests have run, by other means than the queue's own.
    pub fn until_run(&self, count: usize) {
        let mut runs = lock(&self.runs);
        while *runs < count {
            runs = wait(&self.ran, runs);
        }
    }

    pub fn work(&self) {
        self.engine.work(&|entries, _| self.run(entries));
    }

    pub fn close(&self, how: Shutdown) {
        self.engine.close(how);
        self.engine.wait_until_closed();
    }

    /// Has the queue drained and its threads go home, after so many requests. Returns what became of these.
    pub fn drained(
        &self,
        threads: impl IntoIterator<Item = loom::thread::JoinHandle<()>>,
        submitted: u64,
    ) -> RequestCounts {
        self.close(Shutdown::Drain);
        for thread in threads {
            thread.join().unwrap();
        }
        self.at_rest(submitted)
    }

    /// Nothing is left, and so many were submitted. Returns what became of them.
    pub fn at_rest(&self, submitted: u64) -> RequestCounts {
        self.engine.look(|schedule, figures, running| {
            assert_eq!((schedule.requests(), running), (0, 0));
            let fates = figures.tenants[0].fates.clone();
            assert_eq!((fates.submitted, fates.over()), (submitted, submitted));
            assert_eq!(figures.tenants[0].queue_time.count(), self.runs() as u64);
            fates
        })
    }
}

pub fn ids(submitted: &Submitted<'_>) -> Ids {
    match &submitted.came {
        Ok(Admission::Queued(ids)) => ids.clone(),
        _ => panic!("there is room"),
    }
}

pub fn spawn<R: 'static>(
    turns: &Turns,
    queue: &Arc<Queue>,
    work: impl FnOnce(&Queue) -> R + 'static,
) -> loom::thread::JoinHandle<R> {
    let queue = queue.clone();
    turns.spawn(move || work(&queue))
}
