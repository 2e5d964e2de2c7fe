//! Requests of more rows than a batch are run in parts, and joined.

use std::time::Duration;

use crate::common::*;
use streampool_batch::{Error, Request, Shutdown};
use streampool_tensor::Array;

fn doubled(values: &[i64]) -> Vec<i64> {
    values.iter().map(|value| 2 * value).collect()
}

#[test]
fn parts_are_joined_in_order() {
    let stand = Stand::new(one_lane(8).max_in_flight(3));
    let request = Vec::from_iter(0..100);
    assert_eq!(values(stand.infer(rows(&request))), doubled(&request));
    let mut batches = stand.stage.batches();
    assert!(batches.iter().all(|batch| batch.len() <= 8));
    batches.sort();
    assert_eq!(batches.concat(), request, "each row ran once");
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!((requests.submitted, requests.completed), (1, 1));
}

#[test]
fn rows_of_nothing_are_not_cut_into_more_parts_than_there_is_memory_for() {
    let stand = Stand::new(one_lane(8));
    let nothing = Array::new::<i64>(&[], &[1 << 40, 0]).unwrap();
    let told = stand.infer(Request::new(vec![nothing])).unwrap_err();
    assert!(matches!(told, Error::Request { .. }), "{told}");
    assert_eq!(values(stand.infer(rows(&[1, 2]))), [2, 4]);
}

#[test]
fn the_last_part_shares_its_batch_with_others() {
    let stand = Stand::new(one_lane(8));
    let first = stand.occupied();
    let large = stand.submit(rows(&Vec::from_iter(1..=12))).unwrap();
    let small = stand.submit(rows(&[13, 14])).unwrap();
    stand.stage.open();
    drop(first);
    assert_eq!(values(large.wait()), doubled(&Vec::from_iter(1..=12)));
    assert_eq!(values(small.wait()), [26, 28]);
    let batches = stand.stage.batches();
    assert_eq!(
        batches[1..],
        [Vec::from_iter(1..=8), Vec::from_iter(9..=14)]
    );
}

#[test]
fn a_part_that_fails_fails_its_request_and_no_other() {
    let stand = Stand::new(one_lane(4));
    for bad in [2, 7, 10] {
        let first = stand.occupied();
        let mut request = Vec::from_iter(1..=11);
        request[bad] = -5;
        let large = stand.submit(rows(&request)).unwrap();
        let small = stand.submit(row(20)).unwrap();
        stand.stage.open();
        drop(first);
        assert_eq!(told(large.wait()), "no -5");
        assert_eq!(values(small.wait()), [40]);
    }
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!(
        (requests.failed, requests.submitted, requests.over()),
        (3, 9, 9)
    );
}

#[test]
fn several_parts_that_fail_are_one_failure() {
    let stand = Stand::new(one_lane(2).max_in_flight(2));
    assert_eq!(told(stand.infer(rows(&[-1, 1, 2, -1, 3, -1]))), "no -1");
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!((requests.failed, requests.over()), (1, 1));
}

#[test]
fn what_is_left_of_a_request_that_failed_does_not_run() {
    let stand = Stand::new(one_lane(4));
    stand.stage.shut();
    let mut request = Vec::from_iter(1..=16);
    request[2] = -5;
    let large = stand.submit(rows(&request)).unwrap();
    stand.stage.until_inside(1);
    stand.stage.let_one_out();
    assert_eq!(told(large.wait()), "no -5");
    assert_eq!(stand.statistics().queued_requests, 0);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.stage.batches(), [[1, 2, -5, 4]]);
    let requests = stand.statistics().requests;
    assert_eq!((requests.failed, requests.over()), (1, 1));
}

/// Its ticket is held, and nobody looks at it.
#[test]
fn parts_of_a_request_that_failed_are_left_out_of_their_batches() {
    let stand = Stand::new(one_lane(2));
    let first = stand.occupied();
    let large = stand.submit(rows(&[-7, 1, 2, 3, 4])).unwrap();
    let other = stand.submit(row(5)).unwrap();
    stand.stage.open();
    assert_eq!(values(block_on(other)), [10]);
    drop(first);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.stage.batches(), [vec![0], vec![-7, 1], vec![5]]);
    assert_eq!(told(large.wait()), "no -7");
    let requests = stand.statistics().requests;
    assert_eq!(
        (requests.completed + requests.cancelled, requests.failed),
        (2, 1)
    );
    assert_eq!(requests.over(), 3);
}

#[test]
fn parts_that_have_not_begun_never_do_once_nobody_wants_them() {
    let stand = Stand::new(one_lane(4));
    stand.stage.shut();
    let large = stand.submit(rows(&Vec::from_iter(1..=12))).unwrap();
    stand.stage.until_inside(1);
    drop(large);
    assert_eq!(stand.statistics().queued_requests, 0);
    stand.stage.open();
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.stage.batches(), [[1, 2, 3, 4]]);
    let requests = stand.statistics().requests;
    assert_eq!((requests.cancelled, requests.over()), (1, 1));
}

#[test]
fn parts_that_have_not_begun_expire_with_their_request() {
    let stand = Stand::new(one_lane(4));
    stand.stage.shut();
    let request = Request::from(rows(&Vec::from_iter(1..=12)));
    let large = stand
        .submit(request.within(Duration::from_secs(2)))
        .unwrap();
    // The first part has to begin before that, or none does.
    stand.stage.until_inside(1);
    assert_expired(large.wait());
    assert_eq!(
        (stand.stage.inside(), stand.statistics().queued_requests),
        (1, 0)
    );
    stand.stage.open();
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.stage.batches(), [[1, 2, 3, 4]]);
    let requests = stand.statistics().requests;
    assert_eq!((requests.expired, requests.over()), (1, 1));
}

#[test]
fn a_queue_that_closes_refuses_or_runs_the_parts_that_are_left() {
    for how in [Shutdown::Cancel, Shutdown::Drain] {
        let stand = Stand::new(one_lane(4));
        stand.stage.shut();
        let request = Vec::from_iter(1..=12);
        let large = stand.submit(rows(&request)).unwrap();
        stand.stage.until_inside(1);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| stand.shutdown(how));
            until("the queue is closing", || !stand.is_open());
            stand.stage.open();
            closing.join().unwrap();
        });
        match how {
            Shutdown::Cancel => assert_closed(large.wait()),
            Shutdown::Drain => assert_eq!(values(large.wait()), doubled(&request)),
        }
        assert_eq!(
            stand.stage.batches().len(),
            if how == Shutdown::Cancel { 1 } else { 3 }
        );
        assert_eq!(stand.statistics().requests.over(), 1);
    }
}
