//! A list in, a list out in order, and only some under way.

use std::cell::Cell;
use std::time::Duration;

use crate::common::*;
use streampool_batch::{Error, Shutdown, WhenFull};

#[test]
fn outputs_come_in_the_order_of_the_requests() {
    let stand = Stand::new(one_lane(8).max_in_flight(3));
    for count in [0, 1, 7, 8, 9, 500] {
        let outputs = stand.infer_all((0..count).map(row));
        let outputs: Vec<i64> = outputs.flat_map(values).collect();
        let expected: Vec<i64> = (0..count).map(|value| 2 * value).collect();
        assert_eq!(outputs, expected);
    }
    assert!(stand.stage.batches().iter().any(|batch| batch.len() == 8));
}

#[test]
fn an_error_stands_in_its_place_and_the_others_follow() {
    let stand = Stand::new(one_lane(4));
    let requests = [
        vec![row(1)],
        vec![],
        vec![row(-2)],
        vec![row(3)],
        vec![row(PANIC)],
        vec![rows(&[4, 5])],
    ];
    let results: Vec<_> = stand.infer_all(requests).collect();
    assert_eq!(results.len(), 6);
    let mut results = results.into_iter();
    let mut next = || results.next().unwrap();
    assert_eq!(values(next()), [2]);
    assert!(told(next()).contains("at least one array"));
    assert_eq!(told(next()), "no -2");
    assert_eq!(values(next()), [6]);
    assert!(told(next()).contains("panicked"));
    assert_eq!(values(next()), [8, 10]);
}

#[test]
fn only_some_are_under_way_however_many_there_are() {
    let stand = Stand::new(one_lane(4).max_in_flight(2));
    let asked = Cell::new(0);
    let requests = (0..).inspect(|_| asked.set(asked.get() + 1)).map(row);
    let mut outputs = stand.infer_all(requests);
    assert_eq!(asked.get(), 0, "nothing begins before it is asked for");
    for taken in 0..100 {
        assert_eq!(values(outputs.next().unwrap()), [2 * taken]);
        assert!(asked.get() <= taken + 12, "{} of {taken}", asked.get());
    }
    // What is under way is given up.
    drop(outputs);
    stand.shutdown(Shutdown::Drain);
    let requests = stand.statistics().requests;
    assert_eq!(
        (requests.submitted, requests.over()),
        (asked.get() as u64, asked.get() as u64)
    );
}

#[test]
fn a_small_queue_is_waited_for() {
    let ways = [
        WhenFull::Reject,
        WhenFull::Wait(Duration::ZERO),
        WhenFull::Block,
    ];
    for when_full in ways {
        for builder in [one_lane(8).capacity(2), one_lane(8).capacity_bytes(24)] {
            let stand = Stand::new(builder.when_full(when_full));
            let outputs = stand.infer_all((0..100).map(row));
            let outputs: Vec<i64> = outputs.flat_map(values).collect();
            assert_eq!(outputs, Vec::from_iter((0..100).map(|value| 2 * value)));
            assert_eq!(stand.statistics().requests.rejected, 0);
        }
    }
}

#[test]
fn no_more_are_under_way_than_the_queue_has_room_for() {
    let builders = [
        // A group runs, another waits.
        one_lane(usize::MAX).capacity(5),
        one_lane(8).capacity_bytes(80),
    ];
    for builder in builders {
        let stand = Stand::new(builder);
        let asked = Cell::new(0);
        let requests = (0..).inspect(|_| asked.set(asked.get() + 1)).map(row);
        let mut outputs = stand.infer_all(requests);
        for taken in 0..100 {
            assert_eq!(values(outputs.next().unwrap()), [2 * taken]);
            assert!(asked.get() <= taken + 10, "{} of {taken}", asked.get());
        }
    }
}

#[test]
fn a_queue_that_closes_midway_ends_what_is_left_with_errors() {
    let stand = Stand::new(one_lane(4));
    let mut outputs = stand.infer_all((0..100).map(row));
    for value in 0..10 {
        assert_eq!(values(outputs.next().unwrap()), [2 * value]);
    }
    stand.shutdown(Shutdown::Cancel);
    let left: Vec<_> = outputs.collect();
    assert_eq!(left.len(), 90);
    let last = left.last().unwrap();
    assert!(matches!(last, Err(Error::Closed)), "{last:?}");
}

#[test]
fn an_iterator_that_has_ended_is_not_asked_again() {
    let stand = Stand::new(one_lane(2));
    let mut asked = 0;
    let requests = std::iter::from_fn(|| {
        asked += 1;
        (asked != 4).then(|| row(asked))
    });
    let outputs: Vec<i64> = stand.infer_all(requests).flat_map(values).collect();
    assert_eq!(outputs, [2, 4, 6]);
}
