//! What a queue fills up, and what it says of it.

use crate::common::*;
use streampool_batch::{Batch, Error, Padding, Shutdown};
use streampool_tensor::{Array, DType};

fn wide(width: usize) -> Array {
    Array::zeros(DType::I64, &[1, width]).unwrap()
}

#[test]
fn what_was_refused_is_no_waste() {
    let builder = one_lane(1).capacity(1).padding(Padding::to_edges(1, [16]));
    let stand = Stand::new(builder);
    stand.stage.shut();
    let running = stand.submit(wide(16)).unwrap();
    stand.stage.until_inside(1);
    let queued = stand.submit(wide(16)).unwrap();
    for _ in 0..20 {
        assert!(matches!(stand.submit(wide(2)), Err(Error::Full { .. })));
    }
    assert_eq!(stand.statistics().padding_waste, 0.0);
    stand.stage.open();
    drop((running, queued));
    stand.shutdown(Shutdown::Drain);
    stand.restart().unwrap();
    stand.infer(wide(8)).unwrap();
    assert_eq!(stand.statistics().padding_waste, 8.0 / 48.0);
}

#[test]
fn inputs_that_are_named_are_filled_up_whatever_their_sizes() {
    let _watch = watch();
    let padding = Padding::to_edges(1, [16]).inputs(&[0]);
    let queue = one_lane(4).padding(padding).build(|batch: Batch| {
        let widths = batch.requests().next().unwrap().iter();
        let widths: Vec<i64> = widths.map(|array| array.shape()[1] as i64).collect();
        Batch::new(vec![Array::new(&widths, &[1, 2]).unwrap()])
    });
    let queue = queue.unwrap();
    // Beside a sequence is an input that is always 8 wide.
    for length in [7, 8, 9] {
        let outputs = queue.infer(vec![wide(length), wide(8)]);
        assert_eq!(values(outputs), [16, 8], "{length}");
    }
}

#[test]
fn what_padding_names_and_is_not_there_is_told() {
    let _watch = watch();
    let built = |padding| {
        one_lane(4)
            .padding(padding)
            .build(Ok::<Batch, Error>)
            .unwrap()
    };
    let queue = built(Padding::to_edges(1, [16]).outputs(&[5]));
    for width in [3, 16] {
        let error = told(queue.infer(wide(width)));
        assert!(
            error.contains("output 5 of the batch is not there"),
            "{error}"
        );
    }
    let queue = built(Padding::to_edges(1, [16]).inputs(&[1]));
    let error = told(queue.infer(wide(3)));
    assert!(error.contains("input 1 is not there"), "{error}");
}
