//! Callers who come by the door, without the lock.

use crate::engine::{Full, Shutdown};
use crate::loom_support::outcomes_bounded;
use crate::queue::*;

/// One caller comes by the door while another brings a request to a worker: the lane comes back, whoever has it.
#[test]
#[cfg_attr(planted, should_panic(expected = "deadlock"))]
fn a_lane_that_is_out_comes_back_to_who_waits_for_it() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::with_open_door(1);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, |queue| queue.infer(Full::Refuse, false));
        let (by_the_door, end) = queue.infer_by_the_door();
        assert_eq!((end, other.join().unwrap()), (Ran, Ran));
        assert_eq!(queue.drained([worker], 3).completed, 3);
        by_the_door
    });
    assert_eq!(Vec::from_iter(ends), [false, true]);
}

/// Two callers at the door at once, of whom only one finds a lane, and who is left is served.
#[cfg(not(planted))]
#[test]
fn two_callers_at_the_door_are_served() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::with_open_door(1);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, Queue::infer_by_the_door);
        let mine = queue.infer_by_the_door();
        let ends = [mine, other.join().unwrap()];
        assert!(ends.iter().all(|&(_, end)| end == Ran));
        assert_eq!(queue.drained([worker], 3).completed, 3);
        ends.iter().filter(|(by_the_door, _)| *by_the_door).count()
    });
    assert_eq!(Vec::from_iter(ends), [1, 2]);
}

/// A queue is closed while a caller comes by the door: its request is run before the close returns, or not taken.
#[cfg(not(planted))]
#[test]
fn a_close_waits_for_who_came_by_the_door() {
    let ends = outcomes_bounded(|turns| {
        let queue = Queue::with_open_door(1);
        let other = spawn(&turns, &queue, Queue::infer_by_the_door);
        queue.close(Shutdown::Drain);
        let runs = queue.runs();
        let end = other.join().unwrap();
        assert_eq!((runs, queue.runs()), (1 + usize::from(end.0), runs));
        queue.at_rest(2);
        end
    });
    assert_eq!(Vec::from_iter(ends), [(false, Closed), (true, Ran)]);
}
