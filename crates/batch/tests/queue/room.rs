//! How much may wait, and what happens to what finds no room.

use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::common::*;
use streampool_batch::{Error, Priority, Request, Shutdown, WhenFull};

#[test]
fn a_full_queue_refuses_and_says_when_to_come_again() {
    let stand = Stand::new(one_lane(2).capacity(3));
    assert_eq!(values(stand.infer(row(1))), [2]);
    let first = stand.occupied();
    let queued = stand.submit_many((1..=3).map(row));
    for result in [
        stand.submit(row(4)),
        stand.submit_many([row(4)]).pop().unwrap(),
    ] {
        let Err(Error::Full {
            requests,
            bytes,
            setting,
            retry_after,
        }) = result
        else {
            panic!("{result:?}");
        };
        assert_eq!((requests, bytes, setting), (3, 24, "capacity"));
        assert!(
            retry_after > Duration::ZERO,
            "a batch has run, so something is known"
        );
        assert!(retry_after < Duration::from_secs(60), "{retry_after:?}");
    }
    assert!(told(stand.infer(row(4))).contains("3 requests of 24 bytes wait"));
    stand.stage.open();
    drop(first.wait());
    for ticket in queued {
        ticket.unwrap().wait().unwrap();
    }
    assert_eq!(values(stand.infer(row(5))), [10]);
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!((requests.rejected, requests.over()), (3, 9));
    assert!(!stand.stage.saw(4));
}

/// Who waits outside for room in a full priority is in nobody's way but those of that priority.
#[test]
fn a_priority_may_have_less_room_than_the_queue() {
    let low = |value| Request::from(row(value)).priority(Priority::Low);
    let builder = one_lane(1).capacity(5).capacity_of(Priority::Low, 2);
    let stand = Stand::new(builder.clone());
    let first = stand.occupied();
    let mut all = stand.submit_many((1..=2).map(low));
    all.push(stand.submit(row(4)));
    let full = stand.submit(low(3)).unwrap_err();
    assert!(full.to_string().ends_with("raise `capacity_of`"), "{full}");
    let Error::Full {
        requests, bytes, ..
    } = full
    else {
        panic!("{full:?}");
    };
    assert_eq!((requests, bytes), (2, 16), "the third is of another one");
    drop(all.remove(0));
    all.push(stand.submit(low(5)));
    stand.stage.open();
    drop(first.wait());
    assert!(all.into_iter().all(|ticket| ticket.unwrap().wait().is_ok()));
    assert_eq!(stand.statistics().requests.rejected, 1);

    let stand = Stand::new(builder.when_full(WhenFull::Block));
    let first = stand.occupied();
    let all = stand.submit_many((1..=2).map(low));
    thread::scope(|scope| {
        let held = scope.spawn(|| stand.infer(low(3)));
        until("it waits outside", || {
            stand.statistics().requests.submitted == 4
        });
        let other = stand.submit(row(4)).unwrap();
        assert_eq!(stand.statistics().queued_requests, 3, "one is outside");
        stand.stage.open();
        assert_eq!(values(other.wait()), [8]);
        assert_eq!(values(held.join().unwrap()), [6]);
    });
    drop((first, all));
    assert_eq!(stand.stage.batches().concat(), [0, 4, 1, 2, 3]);
}

#[test]
fn bytes_are_counted_too() {
    let stand = Stand::new(one_lane(16).capacity_bytes(64));
    let error = stand.submit(rows(&[0; 9])).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                bytes: 72,
                capacity: 64
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("capacity_bytes"));
    assert_eq!(values(stand.infer(rows(&[1; 8]))), [2; 8]);
    let first = stand.occupied();
    let queued = stand.submit(rows(&[1; 5])).unwrap();
    let full = stand.submit(rows(&[1; 4])).unwrap_err();
    assert!(
        matches!(
            full,
            Error::Full {
                bytes: 40,
                setting: "capacity_bytes",
                ..
            }
        ),
        "{full}"
    );
    assert!(full.to_string().ends_with("raise `capacity_bytes`"));
    let fits = stand.submit(rows(&[1; 3])).unwrap();
    stand.stage.open();
    drop(first);
    assert_eq!(values(queued.wait()), [2; 5]);
    assert_eq!(values(fits.wait()), [2; 3]);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.statistics().requests.rejected, 2);
}

/// Nothing has run, so nothing is known: to come again at once would be of no use all the same.
#[test]
fn who_is_refused_is_never_asked_back_at_once() {
    let stand = Stand::new(one_lane(1).capacity(1));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    let Err(Error::Full { retry_after, .. }) = stand.submit(row(2)) else {
        panic!("there is no room");
    };
    assert_eq!(retry_after, Duration::from_millis(1));
    stand.stage.open();
    drop((first, queued));
}

/// If each of these waited for its own time, that would be longer than anything may take.
#[test]
fn who_brings_many_waits_for_the_time_once() {
    let builder = one_lane(1).capacity(1);
    let stand = Stand::new(builder.when_full(WhenFull::Wait(Duration::from_millis(100))));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    let many = stand.submit_many((0..10_000).map(row));
    assert!(
        many.iter()
            .all(|one| matches!(one, Err(Error::Full { requests: 1, .. })))
    );
    stand.stage.open();
    drop((first, queued));
}

#[test]
fn who_may_wait_comes_in_in_order() {
    let stand = Stand::new(one_lane(1).capacity(1).when_full(WhenFull::Block));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    thread::scope(|scope| {
        let threads: Vec<_> = (2..6)
            .map(|value| {
                let thread = scope.spawn({
                    let stand = &stand;
                    move || stand.infer(row(value))
                });
                until("it waits outside", || {
                    stand.statistics().requests.submitted == value as u64 + 1
                });
                thread
            })
            .collect();
        assert_eq!(stand.statistics().queued_requests, 1);
        stand.stage.open();
        for (thread, value) in threads.into_iter().zip(2..) {
            assert_eq!(values(thread.join().unwrap()), [2 * value]);
        }
    });
    drop((first, queued));
    let order: Vec<i64> = stand.stage.batches().concat();
    assert_eq!(order, Vec::from_iter(0..6));
}

#[test]
fn who_waits_for_a_time_is_refused_after_it_or_comes_in_before() {
    let stand = Stand::new(
        one_lane(1)
            .capacity(1)
            .when_full(WhenFull::Wait(Duration::from_millis(5))),
    );
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    assert!(matches!(
        stand.infer(row(2)),
        Err(Error::Full { requests: 1, .. })
    ));
    assert!(matches!(stand.submit(row(3)), Err(Error::Full { .. })));
    stand.stage.open();
    assert_eq!(values(first.wait()), [0]);
    assert_eq!(values(queued.wait()), [2]);
    stand.shutdown(Shutdown::Drain);
    assert!(!stand.stage.saw(2) && !stand.stage.saw(3));
    let requests = stand.statistics().requests;
    assert_eq!((requests.rejected, requests.over()), (2, 4));

    let patient = Stand::new(
        one_lane(1)
            .capacity(1)
            .when_full(WhenFull::Wait(Duration::MAX)),
    );
    let first = patient.occupied();
    let queued = patient.submit(row(1)).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| patient.infer(row(2)));
        until("it waits outside", || {
            patient.statistics().requests.submitted == 3
        });
        patient.stage.open();
        assert_eq!(values(waits.join().unwrap()), [4]);
    });
    drop((first, queued));
}

#[test]
fn a_ticket_that_is_dropped_makes_room() {
    let stand = Stand::new(one_lane(1).capacity(1).when_full(WhenFull::Block));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| stand.submit(row(2)).unwrap());
        until("it waits outside", || {
            stand.statistics().requests.submitted == 3
        });
        drop(queued);
        let came_in = waits.join().unwrap();
        assert_eq!(stand.stage.inside(), 1);
        stand.stage.open();
        assert_eq!(values(came_in.wait()), [4]);
    });
    drop(first);
    assert!(!stand.stage.saw(1));
}

/// Requests that come in late and may wait for others are not forgotten there.
#[test]
fn who_comes_in_late_goes_when_it_has_waited_long_enough() {
    let builder = one_lane(4).capacity(1).when_full(WhenFull::Block);
    let stand = Stand::new(builder.max_wait(Duration::from_millis(20)));
    thread::scope(|scope| {
        for value in 0..4 {
            let stand = &stand;
            scope.spawn(move || assert_eq!(values(stand.infer(row(value))), [2 * value]));
            // Each is to come in when the one before it goes, and to be due some time after that.
            until("it has come", || {
                stand.statistics().requests.submitted == value as u64 + 1
            });
            thread::sleep(Duration::from_millis(7));
        }
    });
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.statistics().requests.completed, 4);
}

/// What comes in for one that was given up, and is a full batch by itself, goes at once.
#[test]
fn who_comes_in_for_another_and_fills_a_batch_goes_at_once() {
    let builder = one_lane(4).capacity(1).when_full(WhenFull::Block);
    let stand = Stand::new(builder.max_wait(Duration::MAX));
    // Once the worker has run something, it has to be called.
    block_on(stand.submit(rows(&[0; 4])).unwrap()).unwrap();
    let queued = stand.submit(row(1)).unwrap();
    thread::scope(|scope| {
        // A task, which runs nothing itself.
        let full = scope.spawn(|| values(block_on(stand.submit(rows(&[2, 3, 4, 5])).unwrap())));
        until("it waits outside", || {
            stand.statistics().requests.submitted == 3
        });
        drop(queued);
        assert_eq!(full.join().unwrap(), [4, 6, 8, 10]);
    });
}

/// A large request at the head of those outside is given up: those behind it that fit come in.
#[test]
fn who_gives_up_outside_does_not_hold_up_those_behind() {
    let stand = Stand::new(one_lane(16).capacity_bytes(80));
    let first = stand.occupied();
    let queued = stand.submit(rows(&[1; 5])).unwrap();
    let mut large = Box::pin(stand.submit_when_room(rows(&[2; 10])));
    let mut small = Box::pin(stand.submit_when_room(row(3)));
    let (unheard, heard) = (Bell::new(), Bell::new());
    assert!(unheard.poll(&mut large).is_pending());
    assert!(heard.poll(&mut small).is_pending());
    drop(large);
    assert_eq!((unheard.rings(), heard.rings()), (0, 1));
    let Poll::Ready(small) = heard.poll(&mut small) else {
        panic!("there is room");
    };
    assert_eq!(stand.statistics().queued_requests, 2);
    stand.stage.open();
    assert_eq!(values(small.unwrap().wait()), [6]);
    drop((first, queued));
}

#[test]
fn who_waits_for_room_as_a_task_comes_in_in_order() {
    let stand = Stand::new(one_lane(1).capacity(1));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    let outside: Vec<_> = (2..5)
        .map(|value| stand.submit_when_room(row(value)))
        .collect();
    let mut outside: Vec<_> = outside.into_iter().map(Box::pin).collect();
    let bells = [(); 3].map(|()| Bell::new());
    for (bell, waits) in bells.iter().zip(&mut outside) {
        assert!(bell.poll(waits).is_pending());
    }
    assert!(
        matches!(stand.submit(row(9)), Err(Error::Full { .. })),
        "nobody goes past them"
    );
    stand.stage.open();
    for (waits, value) in outside.into_iter().zip(2..) {
        assert_eq!(values(block_on(waits).unwrap().wait()), [2 * value]);
    }
    drop((first, queued));
    assert_eq!(stand.stage.batches().concat(), Vec::from_iter(0..5));
}

#[test]
fn a_task_that_gives_up_waiting_for_room_never_comes_in() {
    let stand = Stand::new(one_lane(1).capacity(1));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    // Never polled, it has not even come.
    drop(stand.submit_when_room(row(2)));
    assert_eq!(stand.statistics().requests.submitted, 2);
    let bell = Bell::new();
    let mut outside = Box::pin(stand.submit_when_room(row(3)));
    assert!(bell.poll(&mut outside).is_pending());
    drop(outside);
    assert_eq!(stand.statistics().requests.cancelled, 1);
    // The next has been let in when it gives up, and does not know.
    let mut outside = Box::pin(stand.submit_when_room(row(4)));
    assert!(bell.poll(&mut outside).is_pending());
    drop(queued);
    assert_eq!((bell.rings(), stand.statistics().queued_requests), (1, 1));
    drop(outside);
    assert_eq!(stand.statistics().queued_requests, 0);
    stand.stage.open();
    assert_eq!(values(first.wait()), [0]);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.stage.batches(), [[0]]);
    let requests = stand.statistics().requests;
    assert_eq!(
        (requests.cancelled, requests.over()),
        (3, requests.submitted)
    );
}

#[test]
fn a_task_that_waits_for_room_is_told_of_its_deadline_and_of_the_end() {
    let stand = Stand::new(one_lane(1).capacity(1));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    let late = Request::from(row(2)).within(Duration::from_millis(500));
    let late = block_on(stand.submit_when_room(late)).unwrap();
    assert_expired(block_on(late));
    assert_eq!(stand.stage.inside(), 1);
    thread::scope(|scope| {
        let waits = scope.spawn(|| block_on(stand.submit_when_room(row(3))).unwrap().wait());
        until("it waits outside", || {
            stand.statistics().requests.submitted == 4
        });
        scope.spawn(|| stand.shutdown(Shutdown::Cancel));
        assert_closed(waits.join().unwrap());
        assert_eq!(stand.stage.inside(), 1);
        stand.stage.open();
    });
    assert_closed(queued.wait());
    drop(first);
}
