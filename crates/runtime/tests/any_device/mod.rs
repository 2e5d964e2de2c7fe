//! What the runtime keeps on any device. The runtime's tests include this for the host, those of each kind of GPU by way of
//! `../gpu`. They say at their root which type the device is (`Tested`), how a test gets one (`with_device`), what keeps it
//! busy (`busy`), and how far its clock is off (`CLOCK_SLACK`).

#[path = "../common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

mod events;
mod lifecycle;
mod memory;
mod mixed;
mod profile;
mod sharing;
mod transfers;

use std::sync::Arc;

use streampool_device::Device;
use streampool_runtime::{DType, Op, Stream};

use crate::{Tested, busy};
pub use work::*;

/// Runs `test` with a device of its own, where there is one.
pub fn with_device(test: impl FnOnce(Arc<Tested>)) {
    crate::with_device(None, |device| within(FOREVER, || test(device)));
}

/// As [`with_device`], with one that gives at most `capacity` bytes.
pub fn with_device_of(capacity: usize, test: impl FnOnce(Arc<Tested>)) {
    crate::with_device(Some(capacity), |device| within(FOREVER, || test(device)));
}

/// Keeps `stream` busy for some milliseconds, so that whatever is encoded on it next is late.
pub fn keep_busy(stream: &Stream) {
    let (floats, copies) = busy();
    let src = stream.allocate(floats * 4).unwrap();
    let mut dst = stream.allocate(floats * 4).unwrap();
    for _ in 0..copies {
        let src = src.read(DType::F32, &[floats]).unwrap();
        let dst = dst.write(DType::F32, &[floats]).unwrap();
        stream.encode(Op::Copy { src, dst }).unwrap();
    }
}

/// Asserts that the device has all its memory back.
pub fn assert_all_freed(device: &Tested) {
    let left = device.memory_use();
    assert_eq!((left.in_use, left.allocations), (0, 0), "memory is left");
}
