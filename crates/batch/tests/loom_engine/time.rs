//! Requests that expire.

use crate::engine::{Admission, Full};
use crate::loom_support::outcomes_bounded;
use crate::queue::*;

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
        running.turn.expect("the lane was free").run(&run);
        queue.engine.turn(&ids).expect("it is free").run(&run);
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
