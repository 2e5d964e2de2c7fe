//! Queues that are closed while others do something.

use std::time::Duration;

use crate::engine::{Full, Shutdown};
use crate::loom_support::outcomes_bounded;
use crate::queue::*;

/// A worker, and somebody who asks while the queue is being closed: a request is run, or its caller is told.
pub fn ask_against(how: Shutdown, ask: fn(&Queue) -> End) -> Vec<End> {
    let ends = outcomes_bounded(move |turns| {
        let queue = Queue::new(1, 9);
        let worker = spawn(&turns, &queue, Queue::work);
        let caller = spawn(&turns, &queue, ask);
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

fn infer(queue: &Queue) -> End {
    queue.infer(Full::Refuse, false)
}

#[cfg(not(planted))]
#[test]
fn what_is_queued_is_drained_or_was_never_taken() {
    assert_eq!(ask_against(Shutdown::Drain, infer), [Ran, Closed]);
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
    assert_eq!(ask_against(Shutdown::Cancel, infer), [Ran, Closed]);
}

/// Somebody waits outside when the queue is closed.
fn outside_against(how: Shutdown) -> Vec<(End, End)> {
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
    assert_eq!(outside_against(Shutdown::Drain), first_runs);
    let ends = outside_against(Shutdown::Cancel);
    assert_eq!(ends, [first_runs[0], first_runs[1], (Closed, Closed)]);
}

/// Two close at once, each in its way, and both return.
#[cfg(not(planted))]
#[test]
fn two_may_close_at_once() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::new(1, 9);
        let submitted = queue.submit(Full::Refuse, false, false);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, |queue| queue.close(Shutdown::Cancel));
        queue.close(Shutdown::Drain);
        other.join().unwrap();
        worker.join().unwrap();
        queue.at_rest(1);
        submitted.outcome.wait()
    });
    assert_eq!(Vec::from_iter(ends), [Ran, Closed]);
}
