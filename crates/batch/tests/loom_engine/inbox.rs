//! Callers who leave their requests for whoever has the lock next.

use crate::closing::ask_against;
use crate::engine::{Full, Shutdown};
use crate::loom_support::outcomes_bounded;
use crate::queue::*;

/// A worker, room for so many, and two callers at once who leave their requests.
fn two_leave(capacity: usize, full: Full) -> Vec<[End; 2]> {
    let ends = outcomes_bounded(move |turns| {
        let queue = Queue::new(1, capacity);
        let worker = spawn(&turns, &queue, Queue::work);
        let other = spawn(&turns, &queue, move |queue| queue.leave(full));
        let mut ends = [queue.leave(full), other.join().unwrap()];
        ends.sort();
        let ran = ends.iter().filter(|end| **end == Ran).count();
        assert_eq!(queue.drained([worker], 2).completed, ran as u64);
        ends
    });
    Vec::from_iter(ends)
}

/// Whoever finds something in the inbox relies on who left that; both are served.
#[test]
#[cfg_attr(planted, should_panic(expected = "deadlock"))]
fn nothing_is_left_behind() {
    assert_eq!(two_leave(9, Full::Refuse), [[Ran, Ran]]);
}

/// Who takes requests in has no room for one of them: its caller sleeps already, and is told.
#[cfg(not(planted))]
#[test]
fn who_finds_no_room_is_told_or_let_in_later() {
    assert_eq!(two_leave(1, Full::Refuse), [[Ran, Ran], [Ran, NoRoom]]);
    assert_eq!(two_leave(1, Full::Hold), [[Ran, Ran]]);
}

/// A queue is closed while a caller leaves a request.
#[cfg(not(planted))]
#[test]
fn nothing_is_left_in_a_closed_queue() {
    let leave = |queue: &Queue| queue.leave(Full::Refuse);
    assert_eq!(ask_against(Shutdown::Drain, leave), [Ran, Closed]);
    assert_eq!(ask_against(Shutdown::Cancel, leave), [Ran, Closed]);
}
