//! What goes together, and what never does.

use std::sync::{Arc, Mutex};

use crate::common::*;
use streampool_batch::{Batch, BatchQueue, BatchQueueBuilder, Padding, Request, Shutdown};
use streampool_tensor::{Array, DType};

/// What each call was given: key words, and the shape of each input.
type Seen = Arc<Mutex<Vec<Vec<(DType, Vec<usize>)>>>>;

/// Gives back what it gets.
fn echo(builder: BatchQueueBuilder) -> (BatchQueue, Seen) {
    let seen = Seen::default();
    let calls = seen.clone();
    let queue = builder.build(move |batch: Batch| {
        let arrays = batch.clone().into_arrays()?;
        let shapes = arrays
            .iter()
            .map(|array| (array.dtype(), array.shape().to_vec()));
        calls.lock().unwrap().push(shapes.collect());
        Ok::<_, streampool_batch::Error>(batch)
    });
    (queue.unwrap(), seen)
}

fn filled(value: f32, shape: &[usize]) -> Array {
    let values = vec![value; shape.iter().product()];
    Array::new(&values, shape).unwrap()
}

#[test]
fn another_shape_between_does_not_cut_a_batch() {
    let _watch = watch();
    let (queue, seen) = echo(one_lane(8));
    let shapes: [&[usize]; 3] = [&[1, 3], &[1, 5], &[1, 3, 1]];
    let requests: Vec<Array> = (0..12)
        .map(|at| filled(at as f32, shapes[at % 3]))
        .collect();
    let tickets = queue.submit_many(requests.clone());
    for (ticket, request) in tickets.into_iter().zip(requests) {
        let outputs = ticket.unwrap().wait().unwrap();
        assert_eq!(outputs[0].shape(), request.shape());
        assert_eq!(outputs[0].bytes(), request.bytes(), "each got its own");
    }
    let seen: Vec<Vec<usize>> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|call| call[0].1.clone())
        .collect();
    assert_eq!(seen, [vec![4, 3], vec![4, 5], vec![4, 3, 1]]);
}

#[test]
fn types_keys_and_numbers_of_inputs_are_told_apart() {
    let _watch = watch();
    let (queue, seen) = echo(one_lane(8));
    let ints = Array::new(&[7i32], &[1, 1]).unwrap();
    let floats = filled(1.0, &[1, 1]);
    let kinds = [
        Request::new(vec![floats.clone()]),
        Request::new(vec![ints.clone()]),
        Request::new(vec![floats.clone()]).key(1),
        Request::new(vec![floats.clone(), ints.clone()]),
        Request::new(vec![ints, floats]),
    ];
    let requests: Vec<Request> = kinds.iter().cycle().take(15).cloned().collect();
    for ticket in queue.submit_many(requests) {
        ticket.unwrap().wait().unwrap();
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), kinds.len());
    assert!(
        seen.iter().flatten().all(|(_, shape)| *shape == [3, 1]),
        "{seen:?}"
    );
}

/// Twice each element, and the sum of each row's own elements by the mask or the lengths.
fn sums(batch: &Batch) -> Result<Batch, Box<dyn std::error::Error + Send + Sync>> {
    let (numbers, extra) = (batch.array(0)?, batch.array(1)?);
    let width = numbers.shape()[1];
    let values = numbers.values::<f32>()?;
    let own = extra.values::<i64>()?;
    let sum = |(row, values): (usize, &[f32])| -> f32 {
        let is_own = |at: usize| match extra.shape().len() {
            1 => (at as i64) < own[row],
            _ => own[row * width + at] == 1,
        };
        values
            .iter()
            .enumerate()
            .filter(|(at, _)| is_own(*at))
            .map(|(_, value)| value)
            .sum()
    };
    let sums: Vec<f32> = values.chunks(width).enumerate().map(sum).collect();
    let doubled: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
    Ok(Batch::new(vec![
        Array::new(&doubled, numbers.shape())?,
        Array::new(&sums, &[batch.rows()])?,
    ])?)
}

#[test]
fn requests_of_about_the_same_size_go_together_and_get_their_own_size_back() {
    let _watch = watch();
    for padding in [
        Padding::to_edges(1, [4, 8]).with_mask(),
        Padding::to_multiples(1, 4).with_lengths(),
    ] {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = sizes.clone();
        let queue = one_lane(16)
            .padding(padding.outputs(&[0]))
            .build(move |batch: Batch| {
                seen.lock().unwrap().push(batch.array(0)?.shape().to_vec());
                sums(&batch)
            });
        let queue = queue.unwrap();
        let widths = [3, 8, 4, 5, 1, 7];
        // One more than its rows is what all elements of a row are.
        let requests = widths.map(|width| filled(width as f32, &[2, width]));
        let tickets = queue.submit_many(requests);
        for (ticket, width) in tickets.into_iter().zip(widths) {
            let outputs = ticket.unwrap().wait().unwrap();
            assert_eq!(outputs[0].shape(), [2, width]);
            assert!(
                outputs[0]
                    .values::<f32>()
                    .unwrap()
                    .iter()
                    .all(|value| *value == 2.0 * width as f32)
            );
            assert_eq!(
                outputs[1].values::<f32>().unwrap(),
                [(width * width) as f32; 2]
            );
        }
        assert_eq!(*sizes.lock().unwrap(), [[6, 4], [6, 8]]);
        let own: usize = widths.iter().sum();
        let waste = queue.statistics().padding_waste;
        assert!((waste - (36 - own) as f64 / 36.0).abs() < 1e-9, "{waste}");
    }
}

#[test]
fn an_output_without_the_axis_that_padding_names_is_told() {
    let _watch = watch();
    let padding = Padding::to_multiples(1, 4).outputs(&[0]);
    let queue = one_lane(4).padding(padding).build(|batch: Batch| {
        let rows = Array::new(&vec![0f32; batch.rows()], &[batch.rows()]).unwrap();
        Batch::new(vec![rows])
    });
    let error = told(queue.unwrap().infer(filled(1.0, &[1, 3])));
    assert!(
        error.contains("output 0") && error.contains("`padding`"),
        "{error}"
    );
}

/// More kinds than are remembered wait at once. The bucket of a batch was forgotten while the batch was being taken.
#[test]
fn more_kinds_than_are_remembered_wait_at_once() {
    let stand = Stand::new(one_lane(8));
    let first = stand.occupied();
    let kind = |key| Request::from(row(key)).key(key as u64);
    let tickets = stand.submit_many((1..=300).map(kind));
    stand.stage.open();
    assert_eq!(values(first.wait()), [0]);
    for (ticket, key) in tickets.into_iter().zip(1..) {
        assert_eq!(values(block_on(ticket.unwrap())), [2 * key]);
    }
    stand.shutdown(Shutdown::Drain);
    assert_eq!(stand.statistics().requests.completed, 301);
}
