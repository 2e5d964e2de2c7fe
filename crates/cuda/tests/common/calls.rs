//! Every kind of call that the device makes of the driver.

use std::sync::Arc;
use std::time::Duration;

use streampool_cuda::CudaDevice;
use streampool_device::{Device, Space};
use streampool_runtime::{Capture, DType, Op, Pool};

const N: usize = 64;
const FOREVER: Duration = Duration::from_secs(240);

/// Memory, copies, events, waits and a program, none of which may fail, on a stream of its own.
pub fn every_kind_of_call(pool: &Pool, device: &CudaDevice, value: f32) {
    let lease = pool.lease().unwrap();
    let memory = device.allocate(1 << 20, Space::Device).unwrap();
    // SAFETY: no command names it.
    unsafe { device.free(memory) };
    let mut values = lease.allocate(N * 4).unwrap();
    lease.upload(&mut values, &[value; N]).unwrap();
    let event = pool.timed_event().unwrap();
    lease.record(&event).unwrap();
    event.query().unwrap();
    event.wait().unwrap();
    let mut capture = Capture::new(&lease);
    let shared = capture.shared(N * 4).unwrap();
    let constant = Arc::new(values);
    let from = capture.constant(&constant).unwrap();
    let src = from.view(DType::F32, &[N]).unwrap();
    let dst = shared.view(DType::F32, &[N]).unwrap();
    capture.encode(Op::Copy { src, dst }).unwrap();
    let mut program = capture.finish().unwrap();
    for _ in 0..3 {
        lease.replay(&program, &[], &mut []).unwrap();
        lease.synchronize_timeout(FOREVER).unwrap();
    }
    let bytes = program.shared().next().unwrap().unwrap();
    assert_eq!(bytes[..4], value.to_ne_bytes());
    assert_eq!(lease.download::<f32>(&constant).unwrap(), [value; N]);
    pool.trim().unwrap();
}
