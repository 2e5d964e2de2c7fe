//! Callers and workers: nobody is left behind.

use std::time::Duration;

use crate::engine::Full;
use crate::loom_support::outcomes_bounded;
use crate::queue::*;

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
