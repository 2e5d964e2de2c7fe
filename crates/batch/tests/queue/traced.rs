//! What whoever traces requests learns of their batches.

use std::sync::Arc;

use crate::common::*;
use streampool_batch::{Mark, Request, Traced};

fn traced(span: u64) -> (Request, Arc<Traced>) {
    let traced = Arc::new(Traced::new(Mark { trace: 7, span }));
    let request = Request::from(row(i64::try_from(span).unwrap()));
    (request.traced(traced.clone()), traced)
}

#[test]
fn those_of_one_batch_know_each_other() {
    let stand = Stand::new(one_lane(8));
    let first = stand.occupied();
    let ((one, seen), (other, also)) = (traced(1), traced(2));
    let tickets = stand.submit_many([one, Request::from(row(5)), other]);
    let (late, never) = traced(3);
    drop(stand.submit(late).unwrap());
    assert!(seen.came().is_some() && seen.run().is_none());
    stand.stage.open();
    drop(first.wait());
    for ticket in tickets {
        ticket.unwrap().wait().unwrap();
    }
    let run = seen.run().unwrap();
    assert_eq!((run.rows, run.succeeded), (3, true));
    let marks: Vec<u64> = run.marks.iter().map(|mark| mark.span).collect();
    assert_eq!(marks, [1, 2], "of those that are traced");
    assert!(Arc::ptr_eq(run, also.run().unwrap()));
    assert!(seen.came().unwrap() <= run.begun && run.begun <= run.ended);
    assert!(run.is_untold() && !also.run().unwrap().is_untold());
    assert!(never.run().is_none(), "it was withdrawn");
}

#[test]
fn one_that_is_divided_or_fails_has_a_batch_too() {
    let stand = Stand::new(one_lane(2));
    let seen = Arc::new(Traced::new(Mark { trace: 1, span: 1 }));
    let request = Request::from(rows(&[1, 2, 3, 4, 5])).traced(seen.clone());
    stand.infer(request).unwrap();
    assert_eq!(seen.run().unwrap().rows, 2);
    let failed = Arc::new(Traced::new(Mark { trace: 1, span: 2 }));
    let request = Request::from(row(-1)).traced(failed.clone());
    assert!(stand.infer(request).is_err());
    assert!(!failed.run().unwrap().succeeded);
    assert_ne!(failed.run().unwrap().number, seen.run().unwrap().number);
}
