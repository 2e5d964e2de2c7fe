//! Sessions that many threads share, and what they hand to each other, without races.

#[path = "../../../crates/model/tests/support/onnx.rs"]
#[allow(dead_code, unused_imports, reason = "shared with other tests")]
mod onnx;

use std::time::Duration;

use onnx::{Graph, Load};
use streampool_host::{HostDevice, HostOptions};
use streampool_model::Session;
use streampool_model::testing::Random;
use streampool_races::Races;
use streampool_tensor::{DType, Pool};

const THREADS: usize = 8;
const TURNS: usize = 60;

fn session(pool: &Pool) -> Session {
    let mut random = Random::new(3);
    Graph::new()
        .input("x", DType::F32, "n 24")
        .constant("w", &random.reals(&[24, 24]))
        .constant("v", &random.reals(&[24, 24]))
        .node("MatMul x w = a", &[])
        .node("MatMul x v = b", &[])
        .node("Tanh a = c", &[])
        .node("Softmax b = d", &[])
        .node("Add c d = e", &[])
        .node("MatMul e w = y", &[])
        .outputs("y")
        .session(pool)
}

#[test]
fn threads_share_sessions_and_tensors() {
    let host = HostDevice::new(HostOptions::default().threads(4)).unwrap();
    host.injector().random_delays(5, Duration::from_micros(200));
    let device = Races::new(host);
    let pool = Pool::new(device.clone()).unwrap();
    let (one, other) = (session(&pool), session(&pool));
    let run = |case: usize| {
        let x = Random::new(case as u64).reals(&[1 + case % 4, 24]);
        let first = one.run([("x", &x)]).unwrap();
        let second = other.run([("x", &first["y"])]).unwrap();
        second["y"].clone()
    };
    let expected: Vec<_> = (0..12).map(run).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (run, expected) = (&run, &expected);
            scope.spawn(move || {
                for turn in 0..TURNS {
                    let case = (thread * 5 + turn) % expected.len();
                    assert_eq!(run(case), expected[case], "case {case}");
                }
            });
        }
    });
    assert!(device.commands() > (THREADS * TURNS) as u64);
}
