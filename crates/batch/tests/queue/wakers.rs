//! Wakers that panic: whoever calls them goes on, and nobody else waits in vain.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::common::*;
use streampool_batch::{Request, Shutdown, Ticket};

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

/// Has a waker that panics be woken once the ticket's answer is there.
fn poll(ticket: &mut Ticket) {
    let waker = Waker::from(Arc::new(Panics));
    let polled = Pin::new(ticket).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
}

#[test]
fn a_worker_goes_on_and_wakes_the_others() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let mut tickets: Vec<Ticket> = (1..=4)
        .map(|value| stand.submit(row(value)).unwrap())
        .collect();
    poll(&mut tickets[0]);
    poll(&mut tickets[2]);
    stand.stage.open();
    for (ticket, value) in tickets.into_iter().zip(1..) {
        assert_eq!(values(block_on(ticket)), [2 * value]);
    }
    assert_eq!(values(block_on(stand.submit(row(5)).unwrap())), [10]);
    drop(first);
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!(requests.over(), 6);
}

#[test]
fn the_keeper_of_time_goes_on_and_tells_the_others() {
    let stand = Stand::new(one_lane(1));
    let first = stand.occupied();
    let late = |value, milliseconds| {
        let request = Request::from(row(value)).within(Duration::from_millis(milliseconds));
        stand.submit(request).unwrap()
    };
    let mut polled = late(1, 500);
    let other = late(2, 500);
    poll(&mut polled);
    assert_expired(block_on(other));
    assert_expired(block_on(late(3, 500)));
    stand.stage.open();
    drop(first);
}

#[test]
fn a_caller_who_runs_what_others_wait_for_gets_its_answer() {
    let stand = Stand::new(one_lane(2).max_wait(Duration::MAX));
    let mut polled = stand.submit(row(1)).unwrap();
    poll(&mut polled);
    assert_eq!(values(stand.infer(row(2))), [4]);
    assert_eq!(values(polled.wait()), [2]);
}
