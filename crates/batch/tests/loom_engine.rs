//! Interleavings of callers, workers, the keeper of time and those who close a queue. In each, every request has one fate and
//! nobody sleeps for ever. Built with `--cfg planted`, a call of a worker that does not sleep yet is not counted, and who gives
//! up the last request does not look whether the queue is being closed, which must be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
#[path = "../src/alarm.rs"]
mod alarm;
#[allow(dead_code, unused_imports)]
#[path = "../src/engine/mod.rs"]
mod engine;
#[allow(dead_code)]
#[path = "../src/figures.rs"]
mod figures;
#[allow(dead_code)]
#[path = "../src/histogram.rs"]
mod histogram;
#[allow(dead_code)]
#[path = "../../runtime/tests/loom_support/mod.rs"]
mod loom_support;
#[allow(dead_code)]
#[path = "../src/outcome.rs"]
mod outcome;
#[allow(dead_code, unused_imports)]
#[path = "../src/schedule/mod.rs"]
mod schedule;
#[allow(dead_code, unused_imports)]
#[path = "../src/sync.rs"]
mod sync;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Admission, Capacity, Close, Done, Engine, Full, Job, Parts, Place, Refusal, Rejected, Turn,
};
use figures::{Fate, Fates};
use loom_support::{Turns, outcomes_bounded};
use outcome::{Accepted, Outcome, Waiter};
use schedule::{Entry, Ids, Limits, Priority, Schedule, Tenants};
use sync::{Condvar, Mutex, lock, wait};

/// What a caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Ran,
    Expired,
    Closed,
    GivenUp,
}
use End::*;

/// One request.
struct Call(Arc<Outcome<End>>);

fn put(call: Call, end: End) -> (bool, Option<Waiter>) {
    match call.0.put(end) {
        Accepted::By(waiter) => (true, waiter),
        Accepted::Not => (false, None),
    }
}

impl Job for Call {
    fn refuse(self, why: Refusal) -> Option<Waiter> {
        let end = match why {
            Refusal::Expired => Expired,
            Refusal::Closed => Closed,
        };
        put(self, end).1
    }

    fn settles(&self) -> bool {
        true
    }
}

/// A queue, and how many requests were run.
struct Queue {
    engine: Engine<u8, Call>,
    runs: Mutex<usize>,
    ran: Condvar,
}

/// What was submitted, as far as its caller knows.
struct Submitted {
    outcome: Arc<Outcome<End>>,
    came: Result<Admission, Rejected>,
    turn: Option<Turn<Call>>,
}

fn request(late: bool) -> (Arc<Outcome<End>>, (u8, Parts<Call>)) {
    let now = Instant::now();
    let outcome = Arc::new(Outcome::new());
    let part = Entry {
        job: Call(outcome.clone()),
        rows: 1,
        bytes: 1,
        tenant: 0,
        priority: Priority::Normal,
        deadline: late.then_some(now),
        // As if it had been some time on its way.
        arrived: now.checked_sub(Duration::from_nanos(1)).unwrap(),
    };
    (outcome, (0, std::iter::once(part).collect()))
}

impl Queue {
    /// Each request is a batch by itself.
    fn new(lanes: usize, capacity: usize) -> Arc<Queue> {
        Queue::of_batches(1, Duration::ZERO, lanes, capacity)
    }

    fn of_batches(rows: usize, wait: Duration, lanes: usize, capacity: usize) -> Arc<Queue> {
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
        };
        Arc::new(Queue {
            engine: Engine::new(Schedule::new(limits, Tenants::new([])), lanes, capacity),
            runs: Mutex::new(0),
            ran: Condvar::new(),
        })
    }

    fn run(&self, entries: Vec<Entry<Call>>) -> Done {
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
    fn submit(&self, full: Full, late: bool, helper: bool) -> Submitted {
        let (outcome, request) = request(late);
        let (mut came, turn) = self.engine.add([request], full, helper);
        Submitted {
            outcome,
            came: came.pop().unwrap(),
            turn,
        }
    }

    /// Two requests that come in at the same time.
    fn submit_two(&self) -> [Arc<Outcome<End>>; 2] {
        let [(first, one), (second, other)] = [request(false), request(false)];
        let (came, _) = self.engine.add([one, other], Full::Refuse, false);
        assert!(came.iter().all(Result::is_ok));
        [first, second]
    }

    /// Submits a request as [`submit`](Self::submit) does, runs what it is given to run, and waits for its end.
    fn infer(&self, full: Full, helper: bool) -> End {
        let submitted = self.submit(full, false, helper);
        if let Some(turn) = submitted.turn {
            self.engine.run(turn, &|entries, _| self.run(entries));
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

    fn runs(&self) -> usize {
        *lock(&self.runs)
    }

    /// Waits until so many requests have run, by other means than the queue's own.
    fn until_run(&self, count: usize) {
        let mut runs = lock(&self.runs);
        while *runs < count {
            runs = wait(&self.ran, runs);
        }
    }

    fn work(&self) {
        self.engine.work(&|entries, _| self.run(entries));
    }

    fn close(&self, how: Close) {
        self.engine.close(how);
        self.engine.wait_until_closed();
    }

    /// Has the queue drained and its threads go home, after so many requests. Returns what became of these.
    fn drained(
        &self,
        threads: impl IntoIterator<Item = loom::thread::JoinHandle<()>>,
        submitted: u64,
    ) -> Fates {
        self.close(Close::Drain);
        for thread in threads {
            thread.join().unwrap();
        }
        self.at_rest(submitted)
    }

    /// Nothing is left, and so many were submitted. Returns what became of them.
    fn at_rest(&self, submitted: u64) -> Fates {
        self.engine.look(|schedule, figures, running| {
            assert_eq!((schedule.requests(), running), (0, 0));
            let fates = figures.tenants[0].fates.clone();
            assert_eq!((fates.submitted, fates.over()), (submitted, submitted));
            assert_eq!(figures.tenants[0].queue_time.count(), self.runs() as u64);
            fates
        })
    }
}

fn ids(submitted: &Submitted) -> Ids {
    match &submitted.came {
        Ok(Admission::Queued(ids)) => ids.clone(),
        _ => panic!("there is room"),
    }
}

/// A worker, and somebody who submits while the queue is being closed.
fn submit_against(how: Close) -> Vec<End> {
    let ends = outcomes_bounded(move |turns| {
        let queue = Queue::new(1, 9);
        let worker = spawn(&turns, &queue, Queue::work);
        let caller = spawn(&turns, &queue, |queue| queue.infer(Full::Refuse, false));
        queue.close(how);
        let end = caller.join().unwrap();
        worker.join().unwrap();
        let fates = queue.at_rest(1);
        assert_eq!(fates.completed, u64::from(end == Ran));
        assert_eq!(fates.closed, u64::from(end == Closed));
        end
    });
    Vec::from_iter(ends)
}

fn spawn<R: 'static>(
    turns: &Turns,
    queue: &Arc<Queue>,
    work: impl FnOnce(&Queue) -> R + 'static,
) -> loom::thread::JoinHandle<R> {
    let queue = queue.clone();
    turns.spawn(move || work(&queue))
}

#[cfg(not(planted))]
#[test]
fn what_is_queued_is_drained_or_was_never_taken() {
    assert_eq!(submit_against(Close::Drain), [Ran, Closed]);
}

/// What may wait for others, for as long as it takes, waits no more when the queue is closed: workers that sleep are called.
#[cfg(not(planted))]
#[test]
fn what_waits_for_others_is_drained() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::of_batches(8, Duration::MAX, 1, 9);
        let worker = spawn(&turns, &queue, Queue::work);
        let submitted = queue.submit(Full::Refuse, false, false);
        queue.drained([worker], 1);
        submitted.outcome.wait()
    });
    assert_eq!(Vec::from_iter(ends), [Ran]);
}

#[cfg(not(planted))]
#[test]
fn what_is_queued_is_run_or_refused_by_a_cancelling_close() {
    assert_eq!(submit_against(Close::Cancel), [Ran, Closed]);
}

/// One worker, and one caller after the other: each is served, although the worker is on its way to sleep when the second comes.
#[test]
#[cfg_attr(planted, should_panic(expected = "deadlock"))]
fn no_call_is_lost() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 9);
        let worker = spawn(&turns, &queue, Queue::work);
        for count in 1..=2 {
            let _submitted = queue.submit(Full::Refuse, false, false);
            queue.until_run(count);
        }
        queue.drained([worker], 2).completed
    });
    assert_eq!(Vec::from_iter(ends), [2]);
}

/// A worker, and two callers at once, of whom one may run batches itself.
fn two_callers(helper: bool) -> Vec<u64> {
    let ends = outcomes_bounded(move |turns| {
        let queue = Queue::new(1, 9);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, |queue| queue.infer(Full::Refuse, false));
        assert_eq!(queue.infer(Full::Refuse, helper), Ran);
        assert_eq!(other.join().unwrap(), Ran);
        queue.drained([worker], 2).completed
    });
    Vec::from_iter(ends)
}

#[cfg(not(planted))]
#[test]
fn two_callers_at_once_are_served_by_one_worker() {
    assert_eq!(two_callers(false), [2]);
}

/// Two batches that come in at the same time, and each runs until the other does: whoever takes the first sees to the second.
#[cfg(not(planted))]
#[test]
fn two_batches_run_side_by_side() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(2, 9);
        let work = |queue: &Queue| {
            queue.engine.work(&|entries, _| {
                let done = queue.run(entries);
                queue.until_run(2);
                done
            });
        };
        let workers = [(); 2].map(|()| spawn(&turns, &queue, work));
        for outcome in queue.submit_two() {
            assert_eq!(outcome.wait(), Ran);
        }
        queue.drained(workers, 2).completed
    });
    assert_eq!(Vec::from_iter(ends), [2]);
}

/// A batch that is smaller than the one that runs waits for that, although a lane is free, and then it goes.
#[cfg(not(planted))]
#[test]
fn a_small_batch_that_waits_for_a_larger_is_not_forgotten() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::of_batches(8, Duration::ZERO, 2, 9);
        let workers = [(); 2].map(|()| spawn(&turns, &queue, Queue::work));
        let first = queue.submit_two();
        let last = queue.submit(Full::Refuse, false, false).outcome;
        for outcome in first.iter().chain([&last]) {
            assert_eq!(outcome.wait(), Ran);
        }
        queue.drained(workers, 3);
        queue
            .engine
            .look(|_, figures, _| figures.batch_rows.count())
    });
    assert_eq!(Vec::from_iter(ends), [1, 2]);
}

/// A caller that runs batches itself, beside a worker and a caller that does not.
#[cfg(not(planted))]
#[test]
fn a_helper_and_a_worker_leave_nobody_behind() {
    assert_eq!(two_callers(true), [2]);
}

/// A caller gives up while its request is taken: it runs or it does not, and counts once.
#[cfg(not(planted))]
#[test]
fn giving_up_meets_the_taking_once() {
    let fates = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 9);
        let worker = spawn(&turns, &queue, Queue::work);
        let submitted = queue.submit(Full::Refuse, false, false);
        let given_up = submitted.outcome.abandon();
        if given_up {
            queue.engine.cancel(&ids(&submitted));
        }
        let fates = queue.drained([worker], 1);
        assert_eq!(fates.cancelled, u64::from(given_up));
        (given_up, queue.runs())
    });
    assert_eq!(Vec::from_iter(fates), [(false, 1), (true, 0), (true, 1)]);
}

/// A queue that is being closed waits for one request, which nobody runs and its caller gives up.
#[test]
#[cfg_attr(planted, should_panic(expected = "deadlock"))]
fn giving_up_the_last_request_ends_a_close() {
    let fates = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 9);
        let submitted = queue.submit(Full::Refuse, false, false);
        let closing = spawn(&turns, &queue, |queue| queue.close(Close::Drain));
        assert!(submitted.outcome.abandon());
        queue.engine.cancel(&ids(&submitted));
        closing.join().unwrap();
        queue.at_rest(1).cancelled
    });
    assert_eq!(Vec::from_iter(fates), [1]);
}

/// What has expired is refused by whoever comes to it first, and never run.
#[cfg(not(planted))]
#[test]
fn what_has_expired_never_runs() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 9);
        let keeper = spawn(&turns, &queue, |queue| queue.engine.keep_time());
        let worker = spawn(&turns, &queue, Queue::work);
        let submitted = queue.submit(Full::Refuse, true, false);
        let end = submitted.outcome.wait();
        assert_eq!(
            (queue.drained([keeper, worker], 1).expired, queue.runs()),
            (1, 0)
        );
        end
    });
    assert_eq!(Vec::from_iter(ends), [Expired]);
}

/// The lane is taken: only the keeper can tell who is late, queued or outside, and let in who is not.
#[cfg(not(planted))]
#[test]
fn the_keeper_tells_who_is_late_while_the_lane_is_taken() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 1);
        let keeper = spawn(&turns, &queue, |queue| queue.engine.keep_time());
        let running = queue.submit(Full::Refuse, false, true);
        let late = queue.submit(Full::Hold, true, false);
        let outside = queue.submit(Full::Hold, true, false);
        let patient = queue.submit(Full::Hold, false, false);
        assert_eq!(late.outcome.wait(), Expired);
        assert_eq!(outside.outcome.wait(), Expired);
        let ids = match &patient.came {
            Ok(Admission::Held(place)) => place.wait().expect("nobody closes the queue"),
            _ => ids(&patient),
        };
        let run = |entries: Vec<_>, _| queue.run(entries);
        queue
            .engine
            .run(running.turn.expect("the lane was free"), &run);
        queue
            .engine
            .run(queue.engine.turn(&ids).expect("it is free"), &run);
        let fates = queue.drained([keeper], 4);
        (fates.expired, fates.completed)
    });
    assert_eq!(Vec::from_iter(ends), [(2, 2)]);
}

/// A queue that is being closed waits for one request, which nobody runs and which expires.
#[cfg(not(planted))]
#[test]
fn a_close_ends_when_the_last_request_expires() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 9);
        let submitted = queue.submit(Full::Refuse, true, false);
        let keeper = spawn(&turns, &queue, |queue| queue.engine.keep_time());
        queue.drained([keeper], 1);
        submitted.outcome.wait()
    });
    assert_eq!(Vec::from_iter(ends), [Expired]);
}

/// Room for one: whoever waits outside comes in.
#[cfg(not(planted))]
#[test]
fn who_waits_outside_comes_in() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 1);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, |queue| queue.infer(Full::Hold, false));
        assert_eq!(queue.infer(Full::Hold, false), Ran);
        assert_eq!(other.join().unwrap(), Ran);
        queue.drained([worker], 2).completed
    });
    assert_eq!(Vec::from_iter(ends), [2]);
}

/// Somebody waits outside when the queue is closed.
fn outside_against(how: Close) -> Vec<(End, End)> {
    let ends = outcomes_bounded(move |turns| {
        let queue = Queue::new(1, 1);
        let first = queue.submit(Full::Hold, false, false);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, |queue| queue.infer(Full::Hold, false));
        queue.close(how);
        let ends = (first.outcome.wait(), other.join().unwrap());
        worker.join().unwrap();
        queue.at_rest(2);
        ends
    });
    Vec::from_iter(ends)
}

#[cfg(not(planted))]
#[test]
fn who_waits_outside_is_let_in_or_turned_away() {
    let first_runs = [(Ran, Ran), (Ran, Closed)];
    assert_eq!(outside_against(Close::Drain), first_runs);
    let ends = outside_against(Close::Cancel);
    assert_eq!(ends, [first_runs[0], first_runs[1], (Closed, Closed)]);
}

/// Who waits outside gives up while there comes to be room.
#[cfg(not(planted))]
#[test]
fn giving_up_outside_meets_being_let_in_once() {
    let fates = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 1);
        let first = queue.submit(Full::Hold, false, false);
        let second = queue.submit(Full::Hold, false, false);
        let worker = spawn(&turns, &queue, Queue::work);
        let Ok(Admission::Held(place)) = &second.came else {
            panic!("there is no room");
        };
        let end = give_up(&queue, place, &second.outcome);
        assert_eq!(first.outcome.wait(), Ran);
        let fates = queue.drained([worker], 2);
        assert_eq!(fates.cancelled, u64::from(end == GivenUp));
        (end, queue.runs())
    });
    assert_eq!(
        Vec::from_iter(fates),
        [(Ran, 2), (GivenUp, 1), (GivenUp, 2)]
    );
}

/// What a ticket that is dropped before its request has come in does.
fn give_up(queue: &Queue, place: &Arc<Place>, outcome: &Outcome<End>) -> End {
    if queue.engine.withdraw(place, Fate::Cancelled) {
        return GivenUp;
    }
    let ids = place.wait().expect("nobody closes the queue");
    match outcome.abandon() {
        true => {
            queue.engine.cancel(&ids);
            GivenUp
        }
        false => Ran,
    }
}

/// Two close at once, each in its way, and both return.
#[cfg(not(planted))]
#[test]
fn two_may_close_at_once() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 9);
        let submitted = queue.submit(Full::Refuse, false, false);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, |queue| queue.close(Close::Cancel));
        queue.close(Close::Drain);
        other.join().unwrap();
        worker.join().unwrap();
        queue.at_rest(1);
        submitted.outcome.wait()
    });
    assert_eq!(Vec::from_iter(ends), [Ran, Closed]);
}
