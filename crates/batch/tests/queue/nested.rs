//! Functions that call their own queue.

use std::sync::{Arc, OnceLock};

use crate::common::*;
use streampool_batch::{
    Batch, BatchQueue, BatchQueueBuilder, Error, Request, Result, Shutdown, WhenFull,
};

/// A queue whose function does something with the queue, and with the number that it got.
fn queue(
    builder: BatchQueueBuilder,
    act: impl Fn(&BatchQueue, i64) -> Result<i64> + Send + Sync + 'static,
) -> Arc<OnceLock<BatchQueue>> {
    let place: Arc<OnceLock<BatchQueue>> = Arc::default();
    // Else the queue would keep itself.
    let own = Arc::downgrade(&place);
    let function = move |batch: Batch| -> Result<Batch> {
        let number = batch.array(0)?.values::<i64>().unwrap()[0];
        let own = own.upgrade().expect("the queue is there");
        let given = act(own.get().expect("the queue is made"), number)?;
        Batch::new(vec![row(given)])
    };
    place.set(builder.build(function).unwrap()).unwrap();
    place
}

/// Each asks for what is one less, and adds one.
fn counts_down(lanes: usize) -> Arc<OnceLock<BatchQueue>> {
    queue(one_lane(1).max_in_flight(lanes), |queue, number| {
        Ok(match number {
            0 => 0,
            more => values(Ok(queue.infer(row(more - 1))?))[0] + 1,
        })
    })
}

fn is_told(error: &Error, call: &str) {
    assert!(matches!(error, Error::Inside { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("`{call}`")), "{text}");
}

#[test]
fn who_would_wait_for_itself_is_told() {
    let _watch = watch();
    for lanes in [1, 2, 3] {
        let queue = counts_down(lanes);
        let queue = queue.get().unwrap();
        let deep = lanes as i64;
        is_told(&queue.infer(row(deep)).unwrap_err(), "infer");
        assert_eq!(values(queue.infer(row(0))), [0]);
        assert_eq!(values(queue.infer(row(deep - 1))), [deep - 1]);
        // On a worker, too.
        is_told(
            &block_on(queue.submit(row(deep)).unwrap()).unwrap_err(),
            "infer",
        );
    }
}

#[test]
fn who_would_wait_for_each_other_are_told() {
    let _watch = watch();
    let lanes = 3;
    let all_inside = std::sync::Barrier::new(lanes);
    let queue = queue(one_lane(1).max_in_flight(lanes), move |queue, number| {
        Ok(match number {
            0 => 0,
            _ => {
                all_inside.wait();
                values(Ok(queue.infer(row(0))?))[0] + 1
            }
        })
    });
    let queue = queue.get().unwrap();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..lanes)
            .map(|_| scope.spawn(|| queue.infer(row(1))))
            .collect();
        let ended = callers.into_iter().map(|caller| caller.join().unwrap());
        ended.collect()
    });
    // Whoever would have kept the last lane gives it to the others.
    let (right, told): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((right.len(), told.len()), (lanes - 1, 1));
    for outputs in right {
        assert_eq!(values(outputs), [1]);
    }
    is_told(told[0].as_ref().unwrap_err(), "infer");
}

#[test]
fn a_ticket_of_the_own_queue_is_not_waited_for_in_vain() {
    let _watch = watch();
    let queue = queue(one_lane(1), |queue, number| match number {
        0 => Ok(0),
        more => queue.submit(row(more - 1))?.wait().map(|_| more),
    });
    let queue = queue.get().unwrap();
    is_told(&queue.infer(row(1)).unwrap_err(), "wait");
    queue.shutdown(Shutdown::Drain);
    let requests = queue.statistics().requests;
    assert_eq!((requests.failed, requests.cancelled), (1, 1));
}

/// The only lane is of the call that would wait for room, which only the lane can make.
#[test]
fn room_that_only_the_own_call_can_make_is_not_waited_for_in_vain() {
    let _watch = watch();
    type Brings = fn(&BatchQueue) -> Result<()>;
    fn two() -> [Request; 2] {
        [row(0), row(0)].map(Request::from)
    }
    let brings: [(&str, Brings); 3] = [
        ("submit", |queue| {
            let _first = queue.submit(row(0))?;
            queue.submit(row(0)).map(drop)
        }),
        ("submit_many", |queue| {
            queue
                .submit_many(two())
                .into_iter()
                .try_for_each(|one| one.map(drop))
        }),
        ("infer_all", |queue| {
            let _first = queue.submit(row(0))?;
            queue.infer_all(two()).try_for_each(|one| one.map(drop))
        }),
    ];
    for (call, bring) in brings {
        let builder = one_lane(1).capacity(1).when_full(WhenFull::Block);
        let queue = queue(builder, move |queue, number| match number {
            0 => Ok(0),
            _ => bring(queue).map(|()| 1),
        });
        let queue = queue.get().unwrap();
        is_told(&queue.infer(row(1)).unwrap_err(), call);
        // Nothing of it is left outside.
        assert_eq!(values(queue.infer(row(0))), [0]);
        queue.shutdown(Shutdown::Drain);
        let requests = queue.statistics().requests;
        assert_eq!(requests.over(), requests.submitted);
    }
}

/// With a lane to spare, another batch makes room.
#[test]
fn room_that_another_lane_makes_is_waited_for() {
    let _watch = watch();
    let builder = one_lane(1)
        .max_in_flight(2)
        .capacity(1)
        .when_full(WhenFull::Block);
    let queue = queue(builder, |queue, number| match number {
        0 => Ok(0),
        _ => {
            let tickets = queue.submit_many((0..5).map(|_| row(0)));
            tickets
                .into_iter()
                .try_for_each(|one| block_on(one?).map(drop))?;
            Ok(1)
        }
    });
    let queue = queue.get().unwrap();
    assert_eq!(values(queue.infer(row(1))), [1]);
}
