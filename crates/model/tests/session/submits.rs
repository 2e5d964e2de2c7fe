//! Runs submitted without end: few programs serve them, and who must not block need not.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use streampool_host::{HostDevice, HostOptions, OpMatcher};
use streampool_model::{Array, Error, Pending, RunOptions, Session, SessionOptions};
use streampool_tensor::Pool;

use super::pending_and_late::{block_on, product};
use super::{first, pool};
use crate::onnx::Load;
use streampool_model::testing::Random;

fn with_bound(pool: &Pool, in_flight: usize) -> Session {
    let options = SessionOptions {
        max_in_flight: in_flight,
        ..SessionOptions::default()
    };
    product().load(pool, &options).expect("a good model")
}

fn x(number: usize) -> Array {
    Random::new(number as u64).reals(&[1, 64])
}

#[test]
fn thousands_are_pending_in_few_programs() {
    let Some(pool) = pool() else { return };
    let session = with_bound(&pool, 16);
    let expected: Vec<Array> = (0..50)
        .map(|number| first(&session, &[&x(number)]))
        .collect();
    let pending: Vec<Pending> = (0..5000)
        .map(|number| session.submit([("x", &x(number % 50))]).unwrap())
        .collect();
    let statistics = session.statistics();
    assert!(statistics.captures <= 18, "{statistics:?}");
    // From both ends, as if they were waited for in no order.
    let mut both_ends: Vec<(usize, Pending)> = pending.into_iter().enumerate().collect();
    while let Some((number, one)) = match both_ends.len() % 2 {
        0 => both_ends.pop(),
        _ => (!both_ends.is_empty()).then(|| both_ends.swap_remove(0)),
    } {
        assert_eq!(one.wait().unwrap().at(0), Some(&expected[number % 50]));
    }
}

#[test]
fn what_is_dropped_or_forgotten_costs_no_program() {
    let Some(pool) = pool() else { return };
    let session = with_bound(&pool, 4);
    for number in 0..200 {
        match number % 2 {
            0 => drop(session.submit([("x", &x(number))]).unwrap()),
            _ => std::mem::forget(session.submit([("x", &x(number))]).unwrap()),
        }
    }
    let statistics = session.statistics();
    assert!(statistics.captures <= 6, "{statistics:?}");
    let last = session.submit([("x", &x(3))]).unwrap();
    assert_eq!(last.wait().unwrap().at(0), Some(&first(&session, &[&x(3)])));
}

/// A pool whose products take long.
fn slow_pool() -> (Arc<HostDevice>, Pool) {
    let device = HostDevice::new(HostOptions::default()).unwrap();
    let pool = Pool::new(device.clone()).unwrap();
    (device, pool)
}

#[test]
fn who_must_not_wait_is_told_and_a_future_waits_for_room() {
    let (device, pool) = slow_pool();
    let session = with_bound(&pool, 2);
    let expected = first(&session, &[&x(1)]);
    // Both are under way for longer than this thread may have to wait for a processor.
    let delay = Duration::from_millis(600);
    let stream = pool.current().unwrap();
    device.injector().delay_queue(stream.index().into(), delay);
    let under_way: Vec<Pending> = (0..2)
        .map(|_| session.try_submit([("x", &x(1))]).unwrap())
        .collect();
    stream.flush().unwrap();
    let refused = session.try_submit([("x", &x(1))]);
    assert!(matches!(refused, Err(Error::Busy { limit: 2 })));
    let input = x(1);
    let mut waits = Box::pin(session.submit_when_room([("x", &input)]));
    let polled = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "it does not block");
    let later = block_on(waits).unwrap();
    for pending in under_way.into_iter().chain([later]) {
        assert_eq!(pending.wait().unwrap().at(0), Some(&expected));
    }
}

#[test]
fn a_run_begins_by_its_deadline_or_never() {
    let (device, pool) = slow_pool();
    let session = with_bound(&pool, 2);
    let expected = first(&session, &[&x(1)]);
    let delay = Duration::from_millis(600);
    let stream = pool.current().unwrap();
    device.injector().delay_queue(stream.index().into(), delay);
    let soon = || RunOptions::within(Duration::from_millis(40));
    let under_way: Vec<Pending> = (0..2)
        .map(|_| session.submit_with([("x", &x(1))], &soon()).unwrap())
        .collect();
    stream.flush().unwrap();
    // There is no room by then.
    let late = session.submit_with([("x", &x(1))], &soon());
    assert!(matches!(late, Err(Error::Deadline)));
    let late = session.try_submit_with([("x", &x(1))], &RunOptions::within(Duration::ZERO));
    assert!(matches!(late, Err(Error::Deadline)));
    // One that is urgent goes to a stream of its own, where there is.
    let urgent = RunOptions {
        urgent: true,
        ..soon()
    };
    let first_of_all = session.submit_with([("x", &x(1))], &urgent).unwrap();
    assert_eq!(first_of_all.wait().unwrap().at(0), Some(&expected));
    // What began in time may end later.
    for pending in under_way {
        assert_eq!(pending.wait().unwrap().at(0), Some(&expected));
    }
}

#[test]
fn a_good_result_is_kept_though_a_later_run_on_its_stream_fails() {
    let (device, pool) = slow_pool();
    let session = with_bound(&pool, 8);
    let expected = first(&session, &[&x(1)]);
    let good = session.submit([("x", &x(1))]).unwrap();
    let stream = pool.current().unwrap();
    stream.synchronize().unwrap();
    let which = OpMatcher::any().on_queue(stream.index().into());
    device.injector().fail_op(which, 1, "broken on purpose");
    let bad = session.submit([("x", &x(2))]).unwrap();
    assert!(stream.synchronize().is_err());
    assert_eq!(block_on(good).unwrap().at(0), Some(&expected));
    assert!(block_on(bad).is_err());
    stream.recover().unwrap();
    let again = session.submit([("x", &x(1))]).unwrap();
    assert_eq!(again.wait().unwrap().at(0), Some(&expected));
}

#[test]
fn threads_that_share_streams_submit_without_end() {
    let Some(pool) = pool() else { return };
    let session = with_bound(&pool, 4);
    let expected: Vec<Array> = (0..8)
        .map(|number| first(&session, &[&x(number)]))
        .collect();
    std::thread::scope(|scope| {
        for number in 0..40 {
            let (session, expected) = (&session, &expected[number % 8]);
            scope.spawn(move || {
                let x = x(number % 8);
                let pending: Vec<Pending> = (0..30)
                    .map(|_| session.submit([("x", &x)]).unwrap())
                    .collect();
                for one in pending {
                    assert_eq!(one.wait().unwrap().at(0), Some(expected));
                }
            });
        }
    });
}
