//! A ticket that is dropped takes its request with it, and nothing else.

use std::time::Duration;

use crate::common::*;
use streampool_batch::Shutdown;

#[test]
fn what_is_queued_never_runs() {
    let stand = Stand::new(one_lane(8));
    let first = stand.occupied();
    let mut tickets = stand.submit_many((1..=6).map(row));
    for gone in [4, 2, 0] {
        drop(tickets.remove(gone));
    }
    let statistics = stand.statistics();
    assert_eq!(
        (
            statistics.queued_requests,
            statistics.queued_rows,
            statistics.queued_bytes
        ),
        (3, 3, 24)
    );
    assert_eq!(statistics.requests.cancelled, 3);
    stand.stage.open();
    drop(first.wait());
    for ticket in tickets {
        ticket.unwrap().wait().unwrap();
    }
    assert_eq!(stand.stage.batches(), [vec![0], vec![2, 4, 6]]);
}

#[test]
fn what_runs_is_not_disturbed() {
    let stand = Stand::new(one_lane(8));
    let first = stand.occupied();
    let mut tickets = stand.submit_many((1..=4).map(row));
    stand.stage.let_one_out();
    stand.stage.until_called(2);
    drop(tickets.remove(1));
    stand.stage.open();
    for (ticket, value) in tickets.into_iter().zip([1, 3, 4]) {
        assert_eq!(values(ticket.unwrap().wait()), [2 * value]);
    }
    assert_eq!(stand.stage.batches(), [vec![0], vec![1, 2, 3, 4]]);
    drop(first);
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!((requests.completed, requests.cancelled), (4, 1));
}

#[test]
fn one_that_was_answered_before_it_was_dropped_counts_as_completed() {
    let stand = Stand::new(one_lane(1));
    let ticket = stand.submit(row(1)).unwrap();
    until("it is ready", || ticket.is_ready());
    drop(ticket);
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!((requests.completed, requests.cancelled), (1, 0));
}

#[test]
fn a_wait_that_is_over_gives_the_ticket_back() {
    let stand = Stand::new(one_lane(1));
    let ticket = stand.occupied();
    for time in [Duration::ZERO, Duration::from_millis(3)] {
        let queued = stand.submit(row(9)).unwrap();
        let queued = queued.wait_timeout(time).expect_err("the lane is held");
        assert!(!queued.is_ready());
        drop(queued);
    }
    let ticket = ticket
        .wait_timeout(Duration::from_millis(1))
        .expect_err("it is held");
    stand.stage.open();
    let outputs = ticket.wait_timeout(Duration::MAX).expect("there is time");
    assert_eq!(values(outputs), [0]);
    assert!(!stand.stage.saw(9));
    let outputs = stand
        .submit(row(4))
        .unwrap()
        .wait_timeout(Duration::from_secs(1000));
    assert_eq!(values(outputs.expect("there is time")), [8]);
}

/// A ticket is dropped at the moment its request is taken, again and again.
#[test]
fn a_drop_that_meets_the_taking_is_counted_once() {
    let stand = Stand::new(one_lane(4).max_in_flight(2));
    let rounds = if SANITIZED { 300 } else { 3000 };
    for round in 0..rounds {
        let mut tickets = stand.submit_many((0..6).map(row));
        if round % 3 == 0 {
            std::thread::yield_now();
        }
        drop(tickets.remove(round % 6));
        for ticket in tickets {
            ticket.unwrap().wait().unwrap();
        }
    }
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!(requests.submitted, 6 * rounds as u64);
    assert_eq!(requests.completed + requests.cancelled, requests.submitted);
    assert!(requests.completed >= 5 * rounds as u64);
}
