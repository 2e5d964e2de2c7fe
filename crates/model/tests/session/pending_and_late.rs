//! Runs that are not waited for, runs that come too late, and runs in half precision.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use streampool_host::{HostDevice, HostOptions};
use streampool_model::{Array, Error, RunOptions, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::{first, floats, pool};
use crate::onnx::{Graph, Load};
use streampool_model::testing::Random;

pub fn product() -> Graph {
    Graph::new()
        .input("x", DType::F32, "n 64")
        .constant("w", &Random::new(7).reals(&[64, 64]))
        .node("MatMul x w = xw", &[])
        .node("Tanh xw = y", &[])
        .outputs("y")
}

fn xs(count: usize) -> Vec<Array> {
    let mut random = Random::new(8);
    (0..count)
        .map(|rows| random.reals(&[rows % 5 + 1, 64]))
        .collect()
}

/// Wakes who polls.
struct Bell(Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Who no longer polls has heard enough.
        let _ = self.0.send(());
    }
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    let (sender, receiver): (_, Receiver<()>) = channel();
    let waker = Arc::new(Bell(sender)).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => receiver
                .recv_timeout(Duration::from_secs(20))
                .expect("it wakes"),
        }
    }
}

#[test]
fn many_are_under_way_on_one_stream() {
    let Some(pool) = pool() else { return };
    let session = product().session(&pool);
    let xs = xs(20);
    let expected: Vec<Array> = xs.iter().map(|x| first(&session, &[x])).collect();
    let pending: Vec<_> = xs
        .iter()
        .map(|x| session.submit([("x", x)]).unwrap())
        .collect();
    for (pending, expected) in pending.into_iter().zip(&expected).rev() {
        assert_eq!(pending.wait().unwrap().at(0), Some(expected));
    }
}

#[test]
fn a_run_is_a_future() {
    let Some(pool) = pool() else { return };
    let session = product().session(&pool);
    let xs = xs(8);
    std::thread::scope(|scope| {
        for x in &xs {
            let session = &session;
            scope.spawn(move || {
                let expected = first(session, &[x]);
                for _ in 0..20 {
                    let pending = session.submit([("x", x)]).unwrap();
                    assert_eq!(block_on(pending).unwrap().at(0), Some(&expected));
                }
            });
        }
    });
}

#[test]
fn a_dropped_run_disturbs_nobody() {
    let Some(pool) = pool() else { return };
    let session = product().session(&pool);
    let xs = xs(30);
    let expected: Vec<Array> = xs.iter().map(|x| first(&session, &[x])).collect();
    for (x, expected) in xs.iter().zip(&expected) {
        drop(session.submit([("x", x)]).unwrap());
        assert_eq!(&first(&session, &[x]), expected);
    }
    let captures = session.statistics().captures;
    drop(session.submit([("x", &xs[0])]).unwrap());
    assert_eq!(first(&session, &[&xs[0]]), expected[0]);
    assert_eq!(session.statistics().captures, captures);
}

#[test]
fn a_model_of_parts_can_be_submitted() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("NonZero x = places", &[])
        .node("Neg places = y", &[])
        .outputs("y")
        .session(&pool);
    for first_one in [0.0f32, 1.0] {
        let x = floats(&[first_one, 2.0], &[2]);
        let pending = session.submit([("x", &x)]).unwrap();
        assert_eq!(pending.wait().unwrap().at(0), Some(&first(&session, &[&x])));
    }
}

#[test]
fn what_is_late_already_does_not_run() {
    let Some(pool) = pool() else { return };
    let session = product().session(&pool);
    let x = &xs(1)[0];
    let before = session.statistics().replays;
    let late = RunOptions {
        deadline: Some(Instant::now()),
        ..RunOptions::default()
    };
    assert!(matches!(
        session.run_with([("x", x)], &late),
        Err(Error::Deadline)
    ));
    assert_eq!(session.statistics().replays, before);
    let soon = RunOptions::within(Duration::from_secs(60));
    let outputs = session.run_with([("x", x)], &soon).unwrap();
    assert_eq!(outputs.at(0), Some(&first(&session, &[x])));
}

/// A pool on the host, and what makes each of its ops take at least so long from then on.
fn slow(delay: Duration) -> (Pool, impl Fn()) {
    let device = HostDevice::new(HostOptions::default()).unwrap();
    let pool = Pool::new(device.clone()).unwrap();
    let begin = move || {
        for queue in 0..40 {
            device.injector().delay_queue(queue, delay);
        }
    };
    (pool, begin)
}

#[test]
fn a_model_of_parts_keeps_its_deadline() {
    let (pool, begin) = slow(Duration::from_millis(150));
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("NonZero x = places", &[])
        .node("Transpose places = turned", &[])
        .node("GatherND x turned = found", &[])
        .node("NonZero found = again", &[])
        .node("Neg again = y", &[])
        .outputs("y")
        .session(&pool);
    let x = floats(&[0.0, 2.0, 3.0], &[3]);
    let y = first(&session, &[&x]);
    let before = session.statistics();
    assert!(before.nodes_alone > 1, "{before:?}");
    begin();
    let soon = RunOptions::within(Duration::from_millis(50));
    let late = session.run_with([("x", &x)], &soon);
    assert!(matches!(late, Err(Error::Deadline)));
    let after = session.statistics();
    assert!(after.replays - before.replays < before.replays);
    let later = RunOptions::within(Duration::from_secs(600));
    let outputs = session.run_with([("x", &x)], &later).unwrap();
    assert_eq!(outputs.at(0), Some(&y));
}

#[test]
fn who_comes_after_a_late_run_keeps_a_deadline_of_its_own() {
    let (pool, begin) = slow(Duration::from_millis(400));
    let session = product().session(&pool);
    let large = Random::new(3).reals(&[2048, 64]);
    for x in [&xs(1)[0], &large] {
        first(&session, &[x]);
    }
    begin();
    for x in [&xs(1)[0], &large] {
        let expected = session.submit([("x", x)]).unwrap();
        let soon = || RunOptions::within(Duration::from_millis(20));
        drop(session.submit([("x", x)]).unwrap());
        let before = session.statistics();
        for _ in 0..3 {
            let late = session.run_with([("x", x)], &soon());
            assert!(matches!(late, Err(Error::Deadline)));
        }
        // What is at work is not waited for any longer than that: nothing was begun.
        let after = session.statistics();
        assert!(after.replays - before.replays <= 1, "{after:?}");
        let expected = expected.wait().unwrap();
        assert_eq!(Some(&first(&session, &[x])), expected.at(0));
        assert_eq!(session.statistics().captures, after.captures);
    }
}

#[test]
fn after_warming_up_nothing_is_made() {
    let Some(pool) = pool() else { return };
    let session = product().session(&pool);
    session.warm_up(&[&[3, 64]]).unwrap();
    let warm = session.statistics();
    first(&session, &[&Random::new(1).reals(&[3, 64])]);
    let after = session.statistics();
    assert_eq!((after.captures, after.plans), (warm.captures, warm.plans));
}

fn in_precision(pool: &Pool, precision: DType) -> Session {
    let options = SessionOptions {
        precision: Some(precision),
        ..SessionOptions::default()
    };
    product().load(pool, &options).unwrap()
}

#[test]
fn half_precision_is_near() {
    let Some(pool) = pool() else { return };
    let exact = product().session(&pool);
    for (precision, room) in [(DType::F16, 0.02), (DType::BF16, 0.15)] {
        let session = in_precision(&pool, precision);
        for x in &xs(5) {
            let (wanted, got) = (first(&exact, &[x]), first(&session, &[x]));
            assert_eq!(got.dtype(), DType::F32);
            let pairs = got
                .values::<f32>()
                .unwrap()
                .iter()
                .zip(wanted.values::<f32>().unwrap());
            let worst = pairs
                .map(|(got, wanted)| (got - wanted).abs())
                .fold(0.0, f32::max);
            assert!(worst > 0.0 && worst < room, "{precision}: {worst}");
        }
    }
    let options = SessionOptions {
        precision: Some(DType::I8),
        ..SessionOptions::default()
    };
    let refused = product()
        .load(&pool, &options)
        .err()
        .map(|error| error.to_string());
    assert!(refused.is_some_and(|error| error.contains("f16 or bf16")));
}
