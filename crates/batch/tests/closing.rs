//! How a queue ends, and begins again: nothing is stranded.
#![cfg(not(loom))]

mod common;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::*;
use streampool_batch::{Batch, BatchQueue, Error, Shutdown, Ticket, WhenFull};

/// Closes the queue while its only lane is held, lets that go once the queue is closing, and returns when it is closed.
fn close_while_held(stand: &Stand, how: Shutdown) {
    thread::scope(|scope| {
        scope.spawn(|| stand.shutdown(how));
        until("the queue is closing", || !stand.is_open());
        stand.stage.open();
    });
}

#[test]
fn what_is_queued_is_run_or_refused_and_what_runs_is_run() {
    for how in [Shutdown::Drain, Shutdown::Cancel] {
        let stand = Stand::new(one_lane(4));
        let first = stand.occupied();
        let queued = stand.submit_many((1..=10).map(row));
        close_while_held(&stand, how);
        assert_eq!(values(first.wait()), [0]);
        for (ticket, value) in queued.into_iter().zip(1..) {
            let ticket = ticket.unwrap();
            assert!(ticket.is_ready(), "nothing is left when it is closed");
            match how {
                Shutdown::Drain => assert_eq!(values(ticket.wait()), [2 * value]),
                Shutdown::Cancel => assert_closed(ticket.wait()),
            }
        }
        let statistics = stand.statistics();
        let requests = &statistics.requests;
        assert_eq!((requests.submitted, requests.over()), (11, 11));
        assert_eq!(
            requests.closed,
            if how == Shutdown::Cancel { 10 } else { 0 }
        );
        assert_eq!((statistics.queued_requests, statistics.running), (0, 0));
    }
}

#[test]
fn who_waits_outside_is_refused() {
    for how in [Shutdown::Drain, Shutdown::Cancel] {
        let stand = Stand::new(one_lane(4).capacity(1).when_full(WhenFull::Block));
        let first = stand.occupied();
        let queued = stand.submit(row(1)).unwrap();
        thread::scope(|scope| {
            let outside: Vec<_> = (2..5)
                .map(|value| {
                    let stand = &stand;
                    scope.spawn(move || stand.infer(row(value)))
                })
                .collect();
            until("all have come", || {
                stand.statistics().requests.submitted == 5
            });
            close_while_held(&stand, how);
            outside
                .into_iter()
                .for_each(|thread| assert_closed(thread.join().unwrap()));
        });
        assert_eq!(queued.wait().is_ok(), how == Shutdown::Drain);
        drop(first);
        assert_eq!(stand.statistics().requests.over(), 5);
    }
}

#[test]
fn what_waits_for_others_waits_no_more() {
    let stand = Stand::new(one_lane(8).max_in_flight(2).max_wait(Duration::MAX));
    let tickets = stand.submit_many((0..5).map(row));
    stand.shutdown(Shutdown::Drain);
    for (ticket, value) in tickets.into_iter().zip(0..) {
        assert_eq!(values(ticket.unwrap().wait()), [2 * value]);
    }
    assert_eq!(stand.stage.batches(), [[0, 1, 2, 3, 4]]);
}

#[test]
fn a_closed_queue_takes_nothing_and_closes_again_at_once() {
    let stand = Stand::new(one_lane(8));
    assert!(stand.is_open());
    for how in [Shutdown::Drain, Shutdown::Cancel, Shutdown::Drain] {
        stand.shutdown(how);
        assert!(!stand.is_open());
        assert_closed(stand.infer(row(1)));
        assert!(matches!(stand.submit(row(1)), Err(Error::Closed)));
        let many = stand.submit_many((0..2).map(row));
        assert!(
            many.iter()
                .all(|ticket| matches!(ticket, Err(Error::Closed)))
        );
    }
    assert!(stand.stage.calls().is_empty());
    let requests = stand.statistics().requests;
    assert_eq!((requests.submitted, requests.closed), (12, 12));
}

#[test]
fn whoever_closes_last_decides_and_all_wait_for_the_end() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let queued = stand.submit_many((1..=4).map(row));
    thread::scope(|scope| {
        let drains: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| stand.shutdown(Shutdown::Drain)))
            .collect();
        until("the queue is closing", || !stand.is_open());
        let cancels = scope.spawn(|| stand.shutdown(Shutdown::Cancel));
        until("what is queued is refused", || {
            queued.iter().flatten().all(Ticket::is_ready)
        });
        assert_eq!(stand.stage.inside(), 1);
        assert!(
            drains
                .iter()
                .chain([&cancels])
                .all(|thread| !thread.is_finished())
        );
        stand.stage.open();
    });
    queued
        .into_iter()
        .for_each(|ticket| assert_closed(ticket.unwrap().wait()));
    assert_eq!(values(first.wait()), [0]);
}

/// A queue whose function has a handle of the queue itself, as long as the test has one.
struct KnowsItself {
    queue: BatchQueue,
    own: Arc<Mutex<Option<BatchQueue>>>,
}

impl KnowsItself {
    fn new(function: impl Fn(BatchQueue, i64) + Send + Sync + 'static) -> KnowsItself {
        let own: Arc<Mutex<Option<BatchQueue>>> = Arc::default();
        let inside = own.clone();
        let queue = one_lane(1).max_in_flight(2).build(move |batch: Batch| {
            let value = batch.array(0)?.values::<i64>()?[0];
            let queue = inside.lock().unwrap().clone();
            function(queue.ok_or("the test is over")?, value);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(batch)
        });
        let queue = queue.unwrap();
        *own.lock().unwrap() = Some(queue.clone());
        KnowsItself { queue, own }
    }
}

impl Drop for KnowsItself {
    fn drop(&mut self) {
        *self.own.lock().unwrap() = None;
    }
}

#[test]
fn the_function_may_close_its_own_queue() {
    let _watch = watch();
    for how in [Shutdown::Drain, Shutdown::Cancel] {
        for on_own_thread in [true, false] {
            let knows_itself = KnowsItself::new(move |queue, value| {
                if value == 7 {
                    queue.shutdown(how);
                    queue.shutdown(how);
                }
            });
            let queue = &knows_itself.queue;
            let result = match on_own_thread {
                true => queue.infer(row(7)),
                false => queue.submit(row(7)).unwrap().wait(),
            };
            assert_eq!(values(result), [7], "it runs to its end");
            // Who is not inside waits for the end as ever.
            queue.shutdown(how);
            assert_closed(queue.infer(row(1)));
            queue.restart().unwrap();
            assert_eq!(values(queue.infer(row(2))), [2]);
            queue.shutdown(how);
        }
    }
}

#[test]
fn the_function_cannot_wait_for_its_own_end() {
    let _watch = watch();
    let knows_itself = KnowsItself::new(|queue, _| {
        queue.restart().unwrap();
        queue.shutdown(Shutdown::Drain);
        let restarted = queue.restart();
        let error = restarted.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Inside {
                    call: "restart",
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("another thread"), "{error}");
    });
    let queue = &knows_itself.queue;
    assert_eq!(values(queue.infer(row(7))), [7]);
    queue.shutdown(Shutdown::Drain);
    queue.restart().unwrap();
    assert_eq!(values(queue.submit(row(8)).unwrap().wait()), [8]);
    queue.shutdown(Shutdown::Cancel);
}

#[test]
fn when_the_last_handle_is_dropped_what_waits_is_refused() {
    let _watch = watch();
    let stage = Arc::new(Stage::default());
    let function = stage.clone();
    let queue = one_lane(4)
        .build(move |batch| function.call(&batch))
        .unwrap();
    stage.shut();
    let first = queue.submit(row(0)).unwrap();
    stage.until_inside(1);
    let waiting = queue.submit(row(1)).unwrap();
    let other = queue.clone();
    drop(queue);
    assert!(other.is_open() && !waiting.is_ready());
    thread::scope(|scope| {
        scope.spawn(move || drop(other));
        until("it is refused", || waiting.is_ready());
        stage.open();
    });
    assert_closed(waiting.wait());
    assert_eq!(values(first.wait()), [0], "a ticket outlives its queue");
}

#[test]
fn a_ticket_does_not_keep_what_the_function_holds() {
    let _watch = watch();
    let held = Arc::new(());
    let of_function = held.clone();
    let queue = one_lane(4).build(move |batch: Batch| {
        let _holds = &of_function;
        Ok::<_, Error>(batch)
    });
    let queue = queue.unwrap();
    let ticket = queue.submit(row(1)).unwrap();
    drop(queue);
    assert_eq!(Arc::strong_count(&held), 1);
    // Run before the end or refused by it, but not forgotten.
    let _ = ticket.wait();
}

/// The function drops the last handle there is, and does not wait for itself.
#[test]
fn the_last_handle_may_be_dropped_by_the_function() {
    let _watch = watch();
    let (give, handles) = channel::<BatchQueue>();
    let handles = Mutex::new(handles);
    let queue = one_lane(1).build(move |batch: Batch| {
        drop(handles.lock().unwrap().recv());
        Ok::<_, Error>(batch)
    });
    let queue = queue.unwrap();
    let (first, second) = (queue.submit(row(1)).unwrap(), queue.submit(row(2)).unwrap());
    give.send(queue).unwrap();
    assert_closed(second.wait());
    assert_eq!(values(first.wait()), [1]);
}

#[test]
fn a_queue_begins_again_as_often_as_it_is_asked_to() {
    let stand = Stand::new(one_lane(4).max_in_flight(2));
    stand.restart().unwrap();
    for round in 0..20 {
        assert_eq!(values(stand.infer(row(round))), [2 * round]);
        assert_eq!(
            values(stand.submit(row(round)).unwrap().wait()),
            [2 * round]
        );
        stand.shutdown(if round % 2 == 0 {
            Shutdown::Drain
        } else {
            Shutdown::Cancel
        });
        assert_closed(stand.infer(row(1)));
        stand.restart().unwrap();
        stand.restart().unwrap();
    }
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!((requests.completed, requests.closed), (40, 20));
}

/// Threads that close and threads that restart, at once: each call ends, and so does each request.
#[test]
fn closing_and_restarting_at_once_strands_nobody() {
    let stand = Stand::new(one_lane(4).max_in_flight(2));
    let rounds = if SANITIZED { 50 } else { 500 };
    thread::scope(|scope| {
        for closer in 0..2 {
            let stand = &stand;
            scope.spawn(move || {
                for round in 0..rounds {
                    let how = if (round + closer) % 2 == 0 {
                        Shutdown::Drain
                    } else {
                        Shutdown::Cancel
                    };
                    stand.shutdown(how);
                    stand.restart().unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for value in 0..rounds {
                    match stand.infer(row(value)) {
                        Ok(outputs) => assert_eq!(values(Ok(outputs)), [2 * value]),
                        Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
                    }
                }
            });
        }
    });
    assert!(stand.is_open());
    assert_eq!(values(stand.infer(row(5))), [10]);
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!(requests.submitted, requests.over());
}

/// Forks; the child's exit status says whether `child` held.
fn in_a_fork(child: impl FnOnce()) -> i32 {
    // SAFETY: the child only calls `child` and ends without running anything of its parent's.
    match unsafe { libc::fork() } {
        0 => {
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
            // SAFETY: it ends the process, and nothing after it runs.
            unsafe { libc::_exit(if held { 0 } else { 1 }) }
        }
        process => {
            let mut status = -1;
            // SAFETY: `status` outlives the call. Had the fork failed, so would this.
            let ended = unsafe { libc::waitpid(process, &mut status, 0) };
            assert_eq!(ended, process);
            status
        }
    }
}

#[test]
#[cfg_attr(
    sanitize_thread,
    ignore = "the thread sanitizer forbids threads after a fork with threads"
)]
fn a_forked_child_is_refused_and_the_parent_goes_on() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let mut tickets = stand.submit_many((1..4).map(row));
    let mut other = Some(Stand::new(one_lane(4)));
    let ended = in_a_fork(|| {
        let is_forked = |result| matches!(result, Err(Error::Forked));
        let mut tickets = tickets.drain(..).map(Result::unwrap);
        assert!(is_forked(tickets.next().unwrap().wait()));
        let timed = tickets
            .next()
            .unwrap()
            .wait_timeout(Duration::from_secs(60));
        assert!(timed.is_ok_and(is_forked));
        drop(tickets);
        assert!(is_forked(stand.infer(row(4))));
        let refused = stand.submit_many([row(5)]).pop();
        assert!(refused.is_some_and(|one| one.is_err()));
        assert!(!stand.is_open() && stand.restart().is_err());
        stand.shutdown(Shutdown::Drain);
        drop(other.take());
    });
    assert_eq!(ended, 0, "the child said no, or hung and was ended");
    stand.stage.open();
    assert_eq!(values(first.wait()), [0]);
    for (ticket, value) in tickets.into_iter().zip(1..) {
        assert_eq!(values(ticket.unwrap().wait()), [2 * value]);
    }
}
