//! Callers who give up.

use std::sync::Arc;

use crate::engine::{Admission, Full, Place, Shutdown};
use crate::figures::Fate;
use crate::loom_support::outcomes_bounded;
use crate::outcome::Outcome;
use crate::queue::*;

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
        let closing = spawn(&turns, &queue, |queue| queue.close(Shutdown::Drain));
        assert!(submitted.outcome.abandon());
        queue.engine.cancel(&ids(&submitted));
        closing.join().unwrap();
        queue.at_rest(1).cancelled
    });
    assert_eq!(Vec::from_iter(fates), [1]);
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
    if queue.engine.withdraw(place, Fate::Cancelled).is_some() {
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
