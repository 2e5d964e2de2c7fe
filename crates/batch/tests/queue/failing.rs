//! What fails fails for those that are guilty, and the queue goes on.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use streampool_batch::{Batch, Error, Shutdown, Ticket};
use streampool_tensor::Array;

/// Has these go in one batch.
fn together(stand: &Stand, values: &[i64]) -> Vec<Ticket> {
    let first = stand.occupied();
    let tickets = stand.submit_many(values.iter().copied().map(row));
    stand.stage.open();
    drop(first.wait());
    tickets.into_iter().map(Result::unwrap).collect()
}

#[test]
fn only_the_guilty_fail() {
    let guilty: [&[usize]; 5] = [&[0], &[15], &[3, 4], &[0, 7, 8, 15], &[2, 3, 5, 7, 11, 13]];
    for guilty in guilty {
        let stand = Stand::new(one_lane(16));
        let mut requests = Vec::from_iter(1..=16);
        guilty.iter().for_each(|&at| requests[at] *= -1);
        let tickets = together(&stand, &requests);
        for (ticket, value) in tickets.into_iter().zip(requests) {
            match value < 0 {
                true => assert_eq!(told(ticket.wait()), format!("no {value}")),
                false => assert_eq!(values(ticket.wait()), [2 * value]),
            }
        }
        stand.shutdown(Shutdown::Drain);
        let statistics = stand.statistics();
        assert_eq!(statistics.requests.failed, guilty.len() as u64);
        assert_eq!(statistics.requests.over(), 17);
        // Each guilty one is looked for in halves, with a few calls more for those behind it.
        assert_eq!(statistics.retries as usize, stand.stage.calls().len() - 2);
        assert!(
            statistics.retries as usize <= 9 * guilty.len(),
            "{}",
            statistics.retries
        );
    }
}

#[test]
fn all_fail_if_all_are_guilty() {
    let stand = Stand::new(one_lane(16));
    for (ticket, value) in together(&stand, &[-1, -2, -3, -4, -5]).into_iter().zip(1..) {
        assert_eq!(told(ticket.wait()), format!("no -{value}"));
    }
    assert_eq!(values(stand.infer(row(7))), [14]);
}

/// Where nothing goes well, requests are soon tried one by one: the batch, its half, and so on down to one, and then each.
#[test]
fn a_function_that_always_fails_is_called_little_more_than_once_for_each() {
    let stand = Stand::new(one_lane(32));
    let all: Vec<i64> = (1..=32).map(|value| -value).collect();
    for (ticket, value) in together(&stand, &all).into_iter().zip(1..) {
        assert_eq!(told(ticket.wait()), format!("no -{value}"));
    }
    // The first call was to have them come together.
    assert_eq!(stand.stage.calls().len(), 1 + (1 + 4 + 32));
}

/// What the function says is not a request's own is not looked for.
#[test]
fn a_function_that_cannot_run_anything_is_not_called_again() {
    let _watch = watch();
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let queue = one_lane(16).build(move |_: Batch| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err::<Batch, _>(Error::unavailable("the device is gone"))
    });
    let queue = queue.unwrap();
    for ticket in queue.submit_many((0..16).map(row)) {
        let error = ticket.unwrap().wait().unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        assert!(error.to_string().ends_with("the device is gone"), "{error}");
    }
    queue.shutdown(Shutdown::Drain);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let statistics = queue.statistics();
    assert_eq!((statistics.retries, statistics.requests.failed), (0, 16));
}

#[test]
fn a_panic_is_an_error_and_the_queue_goes_on() {
    let stand = Stand::new(one_lane(16));
    for _ in 0..3 {
        // On the caller's thread, and on a worker's.
        assert!(told(stand.infer(row(PANIC))).contains("panicked: this one panics"));
        let error = stand.submit(row(PANIC)).unwrap().wait().unwrap_err();
        assert!(matches!(error, Error::Panicked(_)), "{error:?}");
    }
    let tickets = together(&stand, &[1, PANIC, 2, -3, 4]);
    let results: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
    let right: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(right, [true, false, true, false, true]);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.statistics().requests.failed, 8);
}

#[test]
fn a_panic_of_any_kind_is_told() {
    let _watch = watch();
    let queue = one_lane(4)
        .build(|batch: Batch| match batch.array(0)?.values::<i64>()?[0] {
            0 => std::panic::panic_any(7u8),
            1 => panic!("number {}", batch.rows()),
            _ => Ok::<_, Box<dyn std::error::Error + Send + Sync>>(batch),
        })
        .unwrap();
    assert!(told(queue.infer(row(0))).ends_with("it did not say why"));
    assert!(told(queue.infer(row(1))).ends_with("number 1"));
    assert_eq!(values(queue.infer(row(2))), [2]);
}

/// What a panic leaves is whatever the function pleases.
#[test]
fn a_panic_may_leave_what_panics_when_it_is_dropped() {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("what is left panics");
            }
        }
    }
    let _watch = watch();
    let queue = one_lane(4)
        .build(|batch: Batch| match batch.array(0)?.values::<i64>()?[0] {
            0 => std::panic::panic_any(Left),
            _ => Ok::<_, Box<dyn std::error::Error + Send + Sync>>(batch),
        })
        .unwrap();
    for _ in 0..2 {
        // On the caller's thread, and on a worker's.
        assert!(told(queue.infer(row(0))).ends_with("it did not say why"));
        let error = block_on(queue.submit(row(0)).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Panicked(_)), "{error:?}");
    }
    assert_eq!(values(block_on(queue.submit(row(1)).unwrap())), [1]);
    queue.shutdown(Shutdown::Drain);
    assert_eq!(queue.statistics().requests.failed, 4);
}

#[test]
fn the_error_of_the_function_is_handed_on_as_it_is() {
    let _watch = watch();
    let queue = one_lane(4)
        .build(|_: Batch| Err::<Batch, _>(std::io::Error::from(std::io::ErrorKind::NotFound)))
        .unwrap();
    let Err(Error::Failed(error)) = queue.infer(row(1)) else {
        panic!("it always fails");
    };
    let error = error.downcast_ref::<std::io::Error>();
    assert_eq!(
        error.map(|error| error.kind()),
        Some(std::io::ErrorKind::NotFound)
    );
}

#[test]
fn outputs_of_the_wrong_number_of_rows_are_an_error_that_tells_it() {
    let _watch = watch();
    type Outputs = fn(usize) -> Vec<Array>;
    let wrong: [(Outputs, &str); 4] = [
        (|rows| vec![zeros(&[rows + 1])], "2 rows for 1"),
        (|_| vec![zeros(&[0, 3])], "0 rows for 1"),
        (
            |rows| vec![zeros(&[rows + 2]), zeros(&[rows + 2])],
            "3 rows for 1",
        ),
        (|_| vec![], "0 rows for 1"),
    ];
    for (outputs, message) in wrong {
        let queue = one_lane(4).build(move |batch: Batch| Batch::new(outputs(batch.rows())));
        let queue = queue.unwrap();
        let error = told(queue.infer(row(1)));
        assert!(error.contains(message), "{error}");
        for ticket in queue.submit_many((0..3).map(row)) {
            let error = ticket.unwrap().wait().unwrap_err();
            assert!(matches!(error, Error::Rows { .. }), "{error:?}");
        }
        queue.shutdown(Shutdown::Drain);
        assert_eq!(queue.statistics().requests.failed, 4);
    }
}

fn zeros(shape: &[usize]) -> Array {
    Array::new(&vec![0i64; shape.iter().product()], shape).unwrap()
}

/// A batch that fails while somebody gives up: they are not run again.
#[test]
fn who_gave_up_is_not_run_again() {
    let stand = Stand::new(one_lane(8));
    let first = stand.occupied();
    let mut tickets = stand.submit_many([1, -2, 3, 4].map(row));
    stand.stage.let_one_out();
    stand.stage.until_called(2);
    drop(tickets.remove(3));
    drop(tickets.remove(2));
    stand.stage.open();
    let [one, two] = <[_; 2]>::try_from(tickets).unwrap();
    assert_eq!(values(one.unwrap().wait()), [2]);
    assert_eq!(told(two.unwrap().wait()), "no -2");
    drop(first);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(
        stand.stage.batches(),
        [vec![0], vec![1, -2, 3, 4], vec![1, -2], vec![1], vec![-2]]
    );
    let requests = stand.statistics().requests;
    assert_eq!(
        (requests.completed, requests.failed, requests.cancelled),
        (2, 1, 2)
    );
}

/// What the whole batch hurts and its parts do not is answered, and its cost is not learned from.
#[test]
fn a_batch_that_is_too_large_for_the_function_is_run_in_parts() {
    let _watch = watch();
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let queue = one_lane(16).build(move |batch: Batch| {
        counted.fetch_add(1, Ordering::Relaxed);
        match batch.rows() {
            0..=4 => Ok(batch),
            rows => Err(format!("{rows} are too many")),
        }
    });
    let queue = queue.unwrap();
    for (value, ticket) in queue.submit_many((0..16).map(row)).into_iter().enumerate() {
        assert_eq!(values(ticket.unwrap().wait()), [value as i64]);
    }
    queue.shutdown(Shutdown::Drain);
    assert_eq!(calls.load(Ordering::Relaxed), 9);
    let statistics = queue.statistics();
    assert_eq!((statistics.retries, statistics.requests.completed), (8, 16));
    assert_eq!(statistics.service_time.count(), 0);
}
