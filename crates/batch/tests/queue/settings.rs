//! Settings and requests that make no sense are refused by name.

use std::time::Duration;

use crate::common::*;
use streampool_batch::{Batch, BatchQueue, BatchQueueBuilder, Error, Padding};
use streampool_tensor::{Array, DType};

fn built(builder: BatchQueueBuilder) -> Result<BatchQueue, Error> {
    builder.build(Ok::<Batch, Error>)
}

#[test]
fn a_setting_that_makes_no_sense_is_named() {
    let builder = BatchQueue::builder;
    let cases = [
        ("max_batch_size", builder().max_batch_size(0)),
        ("max_in_flight", builder().max_in_flight(0)),
        // So many lanes would take gigabytes.
        ("max_in_flight", builder().max_in_flight(38_831_398)),
        ("capacity", builder().capacity(0)),
        ("capacity_bytes", builder().capacity_bytes(0)),
        (
            "latency_objective",
            builder().latency_objective(Duration::ZERO),
        ),
        ("tenant", builder().tenant("a", 0.0)),
        ("tenant", builder().tenant("a", 1.0).tenant("b", -1.0)),
        ("tenant", builder().tenant("a", f64::NAN)),
        ("tenant", builder().tenant("a", f64::INFINITY)),
        ("padding", builder().padding(Padding::to_multiples(0, 4))),
        ("padding", builder().padding(Padding::to_multiples(1, 0))),
        ("padding", builder().padding(Padding::to_edges(1, []))),
        ("padding", builder().padding(Padding::to_edges(1, [0, 4]))),
    ];
    for (name, builder) in cases {
        let error = built(builder).map(drop).unwrap_err();
        assert!(
            matches!(error, Error::Setting { setting, .. } if setting == name),
            "{name}: {error:?}"
        );
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("`{name}` is ")) && text.contains("expected"),
            "{text}"
        );
    }
}

#[test]
fn settings_at_their_edges_work() {
    let builder = BatchQueue::builder()
        .max_batch_size(1)
        .max_in_flight(1)
        .capacity(1)
        .capacity_bytes(8)
        .max_overtakes(0)
        .latency_objective(Duration::from_nanos(1))
        .tenant("a", 0.001)
        .tenant("b", 1000.0)
        .padding(Padding::to_edges(1, [4]));
    assert_eq!((builder.lanes(), builder.most_rows()), (1, 1));
    let queue = built(builder).unwrap();
    for tenant in ["a", "b", "c"].into_iter().cycle().take(30) {
        let request = streampool_batch::Request::from(row(1)).tenant(tenant);
        assert_eq!(values(queue.infer(request)), [1]);
    }
    let huge = BatchQueue::builder()
        .max_batch_size(usize::MAX)
        .capacity(usize::MAX)
        .capacity_bytes(usize::MAX);
    let queue = built(huge).unwrap();
    assert_eq!(values(queue.infer(rows(&[1, 2]))), [1, 2]);
    assert_eq!(queue.infer_all((0..5).map(row)).flat_map(values).count(), 5);
}

#[test]
fn a_queue_shows_its_settings() {
    let queue = built(one_lane(7)).unwrap();
    let shown = format!("{queue:?}");
    for part in ["BatchQueue", "open: true", "rows: 7"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_request_that_is_none_is_told_what_is_wrong_with_it() {
    let _watch = watch();
    let queue = built(one_lane(4)).unwrap();
    let zeros = |shape: &[usize]| Array::zeros(DType::F32, shape).unwrap();
    let cases = [
        (vec![], "input 0 is not there, expected at least one array"),
        (
            vec![zeros(&[])],
            "input 0 is f32 [], expected rows along a first axis",
        ),
        (
            vec![zeros(&[0, 3])],
            "input 0 is f32 [0, 3], expected at least one row",
        ),
        (
            vec![zeros(&[2, 3]), zeros(&[1])],
            "input 1 is f32 [1], expected 2 rows",
        ),
    ];
    for (inputs, expected) in cases {
        let error = queue.submit(inputs.clone()).unwrap_err();
        assert!(matches!(error, Error::Request { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(queue.infer(inputs).is_err());
    }
    assert_eq!(queue.statistics().requests.submitted, 0, "they never came");
}
