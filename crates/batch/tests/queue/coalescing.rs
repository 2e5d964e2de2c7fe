//! Requests that wait go together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::*;
use streampool_batch::{Batch, BatchQueue, Error, Reason, Shutdown};

#[test]
fn an_idle_queue_runs_a_request_on_its_callers_own_thread() {
    let stand = Stand::new(BatchQueue::builder());
    for value in 0..100 {
        assert_eq!(values(stand.infer(row(value))), [2 * value]);
    }
    let own = thread::current().id();
    assert!(stand.stage.calls().iter().all(|call| call.thread == own));
    let statistics = stand.statistics();
    assert_eq!(statistics.reasons[&Reason::Free], 100);
    assert_eq!(statistics.requests.completed, 100);
}

#[test]
fn who_may_run_a_request_runs_it_only_if_it_can_go_at_once() {
    let stand = Stand::new(one_lane(8));
    let ticket = stand.run_or_submit(row(1)).unwrap();
    assert!(ticket.is_ready());
    assert_eq!(values(ticket.wait()), [2]);
    assert_eq!(stand.stage.calls()[0].thread, thread::current().id());
    let first = stand.occupied();
    let others = [2, 3].map(|value| stand.run_or_submit(row(value)).unwrap());
    assert!(others.iter().all(|ticket| !ticket.is_ready()));
    stand.until_queued(2);
    stand.stage.open();
    let others = others.map(|ticket| values(ticket.wait()));
    assert_eq!(
        (values(first.wait()), others),
        (vec![0], [vec![4], vec![6]])
    );
    // What fails is told by the ticket.
    let wrong = stand.run_or_submit(row(-1)).unwrap();
    assert!(wrong.wait().is_err());
    let requests = stand.statistics().requests;
    assert_eq!((requests.submitted, requests.over()), (5, 5));
}

/// Callers who find nothing waiting run their requests without the queue's lock: on as many lanes as there are, and counted.
#[test]
fn callers_who_find_nothing_waiting_share_the_lanes() {
    const CALLERS: i64 = 8;
    const EACH: i64 = if SANITIZED { 200 } else { 2_000 };
    let used = [0; 3].map(|_| AtomicBool::new(false));
    let used: Arc<[AtomicBool; 3]> = Arc::new(used);
    let lanes = used.clone();
    let call = move |batch: Batch| {
        let lane = &lanes[batch.lane()];
        assert!(!lane.swap(true, Ordering::Acquire), "a lane is used once");
        lane.store(false, Ordering::Release);
        Ok::<_, Error>(batch)
    };
    let queue = BatchQueue::builder().max_in_flight(3).build(call).unwrap();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let queue = &queue;
            scope.spawn(move || {
                for turn in 0..EACH {
                    let value = caller * EACH + turn;
                    assert_eq!(values(queue.infer(row(value))), [value]);
                }
            });
        }
        // Looking at it disturbs nobody, and finds nobody twice.
        for _ in 0..100 {
            let requests = queue.statistics().requests;
            assert!(requests.over() <= requests.submitted);
            thread::yield_now();
        }
    });
    let statistics = queue.statistics();
    let all = (CALLERS * EACH) as u64;
    assert_eq!(statistics.requests.submitted, all);
    assert_eq!(statistics.requests.completed, all);
    assert_eq!(statistics.queue_time.count(), all);
    assert_eq!((statistics.queued_requests, statistics.running), (0, 0));
}

#[test]
fn a_caller_who_goes_without_the_lock_is_seen_and_waited_for() {
    let stand = Stand::new(BatchQueue::builder());
    assert_eq!(values(stand.infer(row(1))), [2]);
    thread::scope(|scope| {
        stand.stage.shut();
        let caller = scope.spawn(|| values(stand.infer(row(2))));
        stand.stage.until_inside(1);
        assert_eq!(stand.statistics().running, 1);
        let closer = scope.spawn(|| stand.shutdown(Shutdown::Cancel));
        while stand.is_open() {
            thread::yield_now();
        }
        assert!(!closer.is_finished(), "a request is still under way");
        stand.stage.open();
        assert_eq!(caller.join().unwrap(), [4]);
    });
    assert_eq!(stand.statistics().requests.completed, 2);
}

#[test]
fn all_who_come_while_the_function_is_held_go_in_one_batch() {
    let stand = Stand::new(one_lane(64));
    thread::scope(|scope| {
        let first = stand.occupied();
        for value in 1..=40 {
            let stand = &stand;
            scope.spawn(move || assert_eq!(values(stand.infer(row(value))), [2 * value]));
        }
        stand.until_queued(40);
        stand.stage.open();
        assert_eq!(values(first.wait()), [0]);
    });
    let [first, second] = &stand.stage.batches()[..] else {
        panic!("{:?}", stand.stage.batches());
    };
    assert_eq!((first.len(), second.len()), (1, 40));
    assert_eq!(
        BTreeSet::from_iter(second),
        BTreeSet::from_iter(&Vec::from_iter(1..=40))
    );
}

#[test]
fn rows_are_counted_and_not_requests() {
    let stand = Stand::new(one_lane(8));
    let first = stand.occupied();
    let requests: [&[i64]; 4] = [
        &[1, 2, 3],
        &[4, 5, 6, 7],
        &[8, 9],
        &[10, 11, 12, 13, 14, 15],
    ];
    let tickets = requests.map(|values| stand.submit(rows(values)).unwrap());
    let waiting = stand.statistics();
    assert_eq!((waiting.queued_requests, waiting.queued_rows), (4, 15));
    assert_eq!(waiting.queued_bytes, 15 * 8);
    stand.stage.open();
    drop(first.wait());
    for (ticket, request) in tickets.into_iter().zip(requests) {
        let expected: Vec<i64> = request.iter().map(|value| 2 * value).collect();
        assert_eq!(values(ticket.wait()), expected);
    }
    let batches = stand.stage.batches();
    let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 7, 8]);
    assert_eq!(batches[1..].concat(), Vec::from_iter(1..=15));
}

#[test]
fn what_is_submitted_together_goes_together() {
    let stand = Stand::new(one_lane(16));
    let tickets = stand.submit_many((0..16).map(row));
    for (value, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(values(ticket.unwrap().wait()), [2 * value as i64]);
    }
    assert_eq!(stand.stage.batches(), [Vec::from_iter(0..16)]);
}

#[test]
fn a_request_that_is_none_does_not_hurt_those_submitted_with_it() {
    let stand = Stand::new(one_lane(16));
    let mut tickets = stand.submit_many([vec![row(1)], vec![], vec![row(2)]]);
    let last = tickets.pop().unwrap().unwrap();
    let error = tickets.pop().unwrap().unwrap_err();
    assert!(error.to_string().contains("at least one array"), "{error}");
    assert_eq!(values(tickets.pop().unwrap().unwrap().wait()), [2]);
    assert_eq!(values(last.wait()), [4]);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.statistics().requests.submitted, 2);
}

#[test]
fn no_batch_is_larger_than_it_may_be() {
    let stand = Stand::new(one_lane(16));
    let first = stand.occupied();
    let tickets = stand.submit_many((1..=50).map(row));
    stand.stage.open();
    drop(first);
    for ticket in tickets {
        ticket.unwrap().wait().unwrap();
    }
    let sizes: Vec<usize> = stand.stage.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 16, 16, 16, 2]);
    stand.shutdown(Shutdown::Drain);
    let statistics = stand.statistics();
    assert_eq!(statistics.reasons[&Reason::Full], 3);
    assert_eq!(statistics.batch_rows.count(), 5);
    assert_eq!(statistics.batch_rows.max(), 16);
}

#[test]
fn batches_run_at_the_same_time_each_on_a_lane_of_its_own() {
    let stand = Stand::new(one_lane(1).max_in_flight(3));
    stand.stage.shut();
    let tickets = stand.submit_many((0..7).map(row));
    stand.stage.until_inside(3);
    let lanes: BTreeSet<usize> = stand.stage.calls().iter().map(|call| call.lane).collect();
    assert_eq!(lanes, BTreeSet::from([0, 1, 2]));
    let statistics = stand.statistics();
    assert_eq!((statistics.running, statistics.queued_requests), (3, 4));
    stand.stage.open();
    for ticket in tickets {
        ticket.unwrap().wait().unwrap();
    }
    assert!(stand.stage.calls().iter().all(|call| call.lane < 3));
}

#[test]
fn with_time_to_wait_a_batch_goes_when_it_is_full() {
    let stand = Stand::new(one_lane(4).max_wait(Duration::MAX));
    let tickets: Vec<_> = (0..3)
        .map(|value| stand.submit(row(value)).unwrap())
        .collect();
    assert_eq!(
        stand.statistics().queued_requests,
        3,
        "a lane is free, and they wait"
    );
    // One more fills the batch.
    assert_eq!(values(stand.infer(row(3))), [6]);
    for (value, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(values(ticket.wait()), [2 * value as i64]);
    }
    assert_eq!(stand.stage.batches(), [[0, 1, 2, 3]]);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.statistics().reasons[&Reason::Full], 1);
}

#[test]
fn a_request_that_has_waited_long_enough_goes_alone() {
    let stand = Stand::new(one_lane(4).max_wait(Duration::from_millis(5)));
    assert_eq!(values(stand.infer(row(1))), [2]);
    assert_eq!(values(stand.submit(row(2)).unwrap().wait()), [4]);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.statistics().reasons[&Reason::Waited], 2);
    let waited = stand.statistics().queue_time;
    assert_eq!(waited.count(), 2);
    assert!(waited.quantile(0.0) >= Some(5_000_000), "{waited:?}");
}

/// The batch is given as its requests' own arrays, not copied, and may be given back so.
#[test]
fn the_parts_of_a_batch_are_the_requests_arrays() {
    let _watch = watch();
    let (inside, entered) = std::sync::mpsc::channel();
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let opened = std::sync::Mutex::new(opened);
    let queue = one_lane(8)
        .build(move |batch: Batch| {
            inside.send(()).unwrap();
            opened.lock().unwrap().recv().unwrap();
            let parts: Vec<usize> = batch.parts(0).iter().map(|part| part.row_count()).collect();
            match batch.requests().len() == parts.len()
                && parts.iter().sum::<usize>() == batch.rows()
            {
                true => Ok(batch),
                false => Err(format!("{parts:?}")),
            }
        })
        .unwrap();
    let first = queue.submit(rows(&[1])).unwrap();
    entered.recv().unwrap();
    let others = queue.submit_many([rows(&[2, 3]), rows(&[4])]);
    open.send(()).unwrap();
    entered.recv().unwrap();
    open.send(()).unwrap();
    assert_eq!(values(first.wait()), [1]);
    let others: Vec<Vec<i64>> = others
        .into_iter()
        .map(|ticket| values(ticket.unwrap().wait()))
        .collect();
    assert_eq!(others, [vec![2, 3], vec![4]]);
}
