//! The runtime over a CUDA device: sharing, memory, faults and the end of things, as users meet them.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../runtime/tests/gpu/mod.rs"]
mod gpu;

mod calls;
mod faults;
mod lifecycle;
mod memory;
mod timeouts;

use std::sync::Arc;
use std::time::Duration;

use streampool_cuda::{CudaDevice as Tested, CudaOptions};

/// It has floats of 64 bits.
const DOUBLES: bool = true;
/// So many floats, copied so often, take some milliseconds.
fn busy() -> (usize, usize) {
    match common::is_imitated() {
        true => (1 << 20, 20),
        false => (16 << 20, 200),
    }
}
/// Its clock is laid upon the host's, not quite exactly.
const CLOCK_SLACK: Duration = Duration::from_millis(1);

/// Runs `test` with a device of its own that gives at most `capacity` bytes; without one, says why not.
fn with_device(capacity: Option<usize>, test: impl FnOnce(Arc<Tested>)) {
    let options = CudaOptions {
        capacity,
        ..common::options()
    };
    if let Some(device) = common::device_with(options) {
        test(device);
    }
}
