//! How many calls of the driver a run takes. Only the imitation of the driver counts them.

use std::time::{Duration, Instant};

use streampool_device::Device;
use streampool_runtime::{Capture, DType, Op};

use crate::common::is_imitated;
use crate::gpu::*;

/// How many calls of the driver this thread has made.
fn calls() -> u64 {
    // SAFETY: it is loaded already, as the driver.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    // SAFETY: it is a function without arguments that returns such a number.
    let calls = unsafe { driver.get::<extern "C" fn() -> u64>(b"cudaSimCalls") }.unwrap();
    calls()
}

#[test]
fn a_replay_that_is_waited_for_takes_few_calls_of_the_driver() {
    const RUNS: u64 = 640;
    const PATIENCE: Duration = Duration::from_secs(60);
    with_device(|device| {
        if !is_imitated() {
            return crate::common::skip("the driver does not count its calls");
        }
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let mut capture = Capture::new(stream);
        let shared = capture.shared(2 * N * 4).unwrap();
        let [src, dst] = [0, N * 4].map(|at| {
            let part = shared.part(at, N * 4).unwrap();
            part.view(DType::F32, &[N]).unwrap()
        });
        capture.encode(Op::Copy { src, dst }).unwrap();
        let program = capture.finish().unwrap();
        let run = || {
            stream.replay(&program, &[], &mut []).unwrap();
            stream.synchronize().unwrap();
        };
        for _ in 0..4 {
            run();
        }
        // Which context is current, the launch; the same, to wait, and the mode of captures there and back. Now and then a mark.
        // While threads of other tests wait, too, this one asks more often.
        let mut taken = f64::MAX;
        let begun = Instant::now();
        while taken >= 6.5 && begun.elapsed() < PATIENCE {
            let before = calls();
            for _ in 0..RUNS {
                run();
            }
            taken = (calls() - before) as f64 / RUNS as f64;
        }
        assert!(
            taken < 6.5,
            "{taken} calls for each run on {}",
            device.properties().name
        );
    });
}
