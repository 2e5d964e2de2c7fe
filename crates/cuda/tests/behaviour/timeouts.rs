//! Time limits while another thread has a stream for long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use streampool_device::Error as DeviceError;
use streampool_runtime::{DType, Error, Op};

use crate::common::{is_child, is_imitated, run_as_child, skip};
use crate::gpu::*;

#[test]
fn a_timeout_bounds_the_wait_for_who_launches_for_long() {
    const TEST: &str = "timeouts::a_timeout_bounds_the_wait_for_who_launches_for_long";
    const LAUNCH: Duration = Duration::from_millis(600);
    const PATIENCE: Duration = Duration::from_secs(60);
    if !is_child(TEST) {
        return match is_imitated() {
            true => run_as_child(TEST, |command| {
                command.env("CUDA_SIM_LAUNCH_US", LAUNCH.as_micros().to_string());
            }),
            false => skip("only the imitation of the driver launches so slowly"),
        };
    }
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let mut buffer = filled(stream, 1.0);
        let (begun, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let dst = buffer.write(DType::F32, &[N]).unwrap();
                    let value = 2.0.into();
                    begun.store(true, Ordering::Relaxed);
                    stream.encode(Op::Fill { dst, value }).unwrap();
                }
            });
            until("a launch begins", || begun.load(Ordering::Relaxed));
            std::thread::sleep(LAUNCH / 10);
            // How long those waits took that met a launch. Now and then one takes long since no processor is free.
            let (mut late, all) = (Vec::new(), Instant::now());
            while late.len() < 9 && all.elapsed() < PATIENCE {
                let since = Instant::now();
                let waited = stream.synchronize_timeout(Duration::from_millis(1));
                let took = since.elapsed();
                let is_late = matches!(waited, Err(Error::Device(DeviceError::Timeout(_))));
                if is_late || took >= LAUNCH / 3 {
                    late.push(took);
                }
            }
            is_over.store(true, Ordering::Relaxed);
            late.sort_unstable();
            let median = late.get(late.len() / 2).expect("somebody launches");
            assert!(*median < LAUNCH / 3, "{late:?}");
        });
        stream.synchronize().unwrap();
    });
}
