//! What models and requests ask for beyond all measure ends: at the deadline, or when the budget is spent.

use std::sync::mpsc::channel;
use std::time::Duration;

use streampool_host::{HostDevice, HostOptions};
use streampool_model::{Array, Error, NodeError, Result, RunOptions, Session};
use streampool_runtime::{Error as RuntimeError, Settings};
use streampool_tensor::{DType, Pool, Tensor};

use super::{first, floats, longs};
use crate::onnx::{Graph, Load, graph};

/// What `work` gives, which has to come long before a test is thought to hang.
fn soon<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // Who waited too long is not there any more.
        let _ = sender.send(work());
    });
    let given = receiver.recv_timeout(Duration::from_secs(40));
    given.expect("it ends")
}

/// A pool that takes so many MiB at most.
pub fn limited(mebibytes: usize) -> Pool {
    let device = HostDevice::new(HostOptions::default()).unwrap();
    let settings = Settings::builder()
        .without_environment()
        .memory_limit(Some(mebibytes << 20))
        .build()
        .unwrap();
    Pool::with_settings(device, settings).unwrap()
}

/// Adds `x` to itself as often as `turns` says, and lists the sums if asked.
fn adding(turns: Graph, listing: bool) -> Graph {
    let body = Graph::new()
        .input("turn", DType::I64, "")
        .input("go", DType::Bool, "")
        .untyped("before")
        .node("Add before x = after", &[])
        .node("Identity go = on", &[])
        .node("Identity after = listed", &[]);
    let (body, loop_of) = match listing {
        true => (body.outputs("on after listed"), "Loop turns yes x = y all"),
        false => (body.outputs("on after"), "Loop turns yes x = y"),
    };
    turns
        .input("x", DType::F32, "n")
        .constant("yes", &Array::scalar(true))
        .node(loop_of, &[graph("body", body)])
        .outputs(if listing { "y all" } else { "y" })
}

fn given() -> Graph {
    Graph::new().input("turns", DType::I64, "")
}

fn run(session: &Session, turns: i64, options: &RunOptions) -> Result<Array> {
    let (turns, x) = (Array::scalar(turns), floats(&[1.0, 2.0], &[2]));
    let outputs = session.run_with([("turns", &turns), ("x", &x)], options)?;
    Ok(outputs.at(0).unwrap().clone())
}

fn within(milliseconds: u64) -> RunOptions {
    RunOptions::within(Duration::from_millis(milliseconds))
}

#[test]
fn a_loop_as_long_as_a_request_says_ends_at_the_deadline() {
    for listing in [false, true] {
        soon(move || {
            let session = adding(given(), listing).session(&limited(256));
            for turns in [3_000_000, 1 << 40, i64::MAX] {
                let late = run(&session, turns, &within(200));
                assert!(matches!(late, Err(Error::Deadline)), "{late:?}");
            }
            let few = run(&session, 3, &within(30_000)).unwrap();
            assert_eq!(few, floats(&[4.0, 8.0], &[2]));
        });
    }
}

#[test]
fn a_loop_that_data_ends_ends_at_the_deadline() {
    soon(|| {
        let body = Graph::new()
            .input("turn", DType::I64, "")
            .input("go", DType::Bool, "")
            .untyped("before")
            .node("Add before step = after", &[])
            .node("Less after limit = on", &[])
            .outputs("on after");
        let session = Graph::new()
            .input("x", DType::F32, "")
            .input("step", DType::F32, "")
            .constant("limit", &Array::scalar(10f32))
            .constant("yes", &Array::scalar(true))
            .node("Loop - yes x = y", &[graph("body", body)])
            .outputs("y")
            .session(&limited(256));
        let zero = Array::scalar(0f32);
        for _ in 0..3 {
            let late = session.run_with([("x", &zero), ("step", &zero)], &within(200));
            assert!(matches!(late, Err(Error::Deadline)), "{:?}", late.err());
        }
        let y = first(&session, &[&zero, &Array::scalar(3f32)]);
        assert_eq!(y, Array::scalar(12f32));
    });
}

#[test]
fn a_long_loop_in_a_file_is_loaded_and_looked_at() {
    soon(|| {
        let turns = Graph::new().constant("turns", &longs(&[1 << 40], &[]));
        let session = adding(turns, true).session(&limited(256));
        let outputs = session.infer_output_shapes();
        assert_eq!(outputs[0].name, "y");
        let x = floats(&[1.0], &[1]);
        let late = session.run_with([("x", &x)], &within(200));
        assert!(matches!(late, Err(Error::Deadline)), "{:?}", late.err());
    });
}

#[test]
fn loops_within_loops_are_not_unrolled_either() {
    soon(|| {
        let mut body = Graph::new()
            .untyped("turn")
            .untyped("go")
            .untyped("before")
            .node("Add before x = after", &[])
            .node("Identity go = on", &[])
            .outputs("on after");
        for _ in 0..9 {
            body = Graph::new()
                .untyped("turn")
                .untyped("go")
                .untyped("before")
                .node("Loop turns go before = after", &[graph("body", body)])
                .node("Identity go = on", &[])
                .outputs("on after");
        }
        let session = Graph::new()
            .input("x", DType::F32, "n")
            .constant("turns", &longs(&[100], &[]))
            .constant("yes", &Array::scalar(true))
            .node("Loop turns yes x = y", &[graph("body", body)])
            .outputs("y")
            .session(&limited(256));
        session.infer_output_shapes();
        let late = session.run_with([("x", &floats(&[1.0], &[1]))], &within(200));
        assert!(matches!(late, Err(Error::Deadline)), "{:?}", late.err());
    });
}

fn limit_of(error: &Error) -> Option<u64> {
    let mut error: &(dyn std::error::Error + 'static) = error;
    loop {
        let over = match error.downcast_ref::<streampool_tensor::Error>() {
            Some(streampool_tensor::Error::Runtime(error)) => Some(error),
            _ => error.downcast_ref::<RuntimeError>(),
        };
        if let Some(RuntimeError::OverBudget { limit, .. }) = over {
            return Some(*limit);
        }
        error = match error.downcast_ref::<Error>() {
            Some(Error::Node { why, .. }) => match &**why {
                NodeError::Inner(error) => &**error,
                NodeError::Tensor(error) => error,
                _ => return None,
            },
            Some(Error::Runtime(error)) => error,
            _ => return None,
        };
    }
}

#[test]
fn a_run_takes_no_more_steps_than_it_may() {
    soon(|| {
        let session = adding(given(), false).session(&limited(256));
        let options = RunOptions {
            steps: Some(10_000),
            ..RunOptions::default()
        };
        let over = run(&session, 1 << 40, &options).unwrap_err();
        assert_eq!(limit_of(&over), Some(10_000), "{over}");
        assert!(over.to_string().contains("STREAMPOOL_RUN_STEPS"), "{over}");
        run(&session, 2_000, &options).unwrap();
    });
}

#[test]
fn what_a_loop_lists_counts_in_the_limit_of_the_pool() {
    soon(|| {
        let session = adding(given(), true).session(&limited(16));
        let x = floats(&[1.0; 64], &[64]);
        let run = |turns: i64| session.run([("turns", &Array::scalar(turns)), ("x", &x)]);
        let error = run(1 << 40).unwrap_err();
        assert!(error.to_string().contains("out of memory"), "{error}");
        // 2.5 MB of sums.
        let many = run(10_000).unwrap();
        assert_eq!(many.at(0), Some(&floats(&[10_001.0; 64], &[64])));
    });
}

#[test]
fn lists_of_long_loops_are_in_order() {
    soon(|| {
        let session = adding(given(), true).session(&limited(64));
        let (turns, x) = (Array::scalar(6000i64), floats(&[1.0, 2.0], &[2]));
        let outputs = session.run([("turns", &turns), ("x", &x)]).unwrap();
        let all: Vec<f32> = (2..6002u16)
            .flat_map(|sum| [f32::from(sum), 2.0 * f32::from(sum)])
            .collect();
        assert_eq!(outputs.at(1), Some(&floats(&all, &[6000, 2])));
        assert!(session.statistics().nodes_alone > 0);
    });
}

/// Puts `x` as often as `count` says where it belongs.
fn putting(pool: &Pool) -> Session {
    Graph::new()
        .input("count", DType::I64, "1")
        .input("x", DType::F32, "")
        .constant("none", &floats(&[0.0; 4], &[4]))
        .constant("place", &longs(&[2], &[]))
        .node("Expand x count = updates", &[])
        .node("Expand place count = places", &[])
        .node("ScatterElements none places updates = y", &[])
        .outputs("y")
        .session(pool)
}

#[test]
fn an_op_that_goes_over_more_than_it_may_is_refused_or_stopped() {
    soon(|| {
        let session = putting(&limited(256));
        let x = Array::scalar(0.5f32);
        let run = |count: i64, options: &RunOptions| {
            session.run_with([("count", &longs(&[count], &[1])), ("x", &x)], options)
        };
        let work = |most| RunOptions {
            work: Some(most),
            ..RunOptions::default()
        };
        let error = run(1 << 45, &work(1 << 40)).unwrap_err();
        assert_eq!(limit_of(&error), Some(1 << 40), "{error}");
        let y = run(1000, &work(100_000)).unwrap();
        assert_eq!(y.at(0), Some(&floats(&[0.0, 0.0, 0.5, 0.0], &[4])));
        // What a plan goes over counts in each run.
        for _ in 0..2 {
            let error = run(1000, &work(999)).unwrap_err();
            assert_eq!(limit_of(&error), Some(999), "{error}");
        }
        let late = run(1 << 42, &within(200));
        assert!(matches!(late, Err(Error::Deadline)), "{:?}", late.err());
        run(1000, &within(30_000)).unwrap();
        // The stream is free again, for who encodes by hand, too.
        let one = Tensor::scalar(session.pool(), 1f32).unwrap();
        assert_eq!(one.add(&one).unwrap().item::<f32>(), Ok(2.0));
    });
}

#[test]
fn a_plan_without_room_names_the_node_that_takes_most() {
    let session = Graph::new()
        .input("x", DType::F32, "n 1")
        .node("Mul x x = squares", &[])
        .node("Transpose squares = across", &[])
        .node("MatMul squares across = products", &[])
        .node("Softmax products = y", &[])
        .outputs("y")
        .session(&limited(64));
    let x = Array::zeros(DType::F32, &[6000, 1]).unwrap();
    let error = super::run(&session, &[&x]).unwrap_err().to_string();
    assert!(error.contains("144000000 bytes"), "{error}");
    assert!(
        error.contains("(MatMul)") || error.contains("(Softmax)"),
        "{error}"
    );
}
