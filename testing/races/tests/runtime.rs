//! What the runtime keeps on any device, watched for races: buffers that many streams share, memory that is used again, programs.

#[path = "../../../crates/runtime/tests/any_device/mod.rs"]
mod any_device;

use std::sync::Arc;
use std::time::Duration;

use streampool_host::{HostDevice, HostOptions};
use streampool_races::Races as Tested;

/// So many floats, copied so often, take some milliseconds.
fn busy() -> (usize, usize) {
    (1 << 18, 20)
}
/// Its clock is the host's.
const CLOCK_SLACK: Duration = Duration::ZERO;

/// Runs `test` with a device of its own that gives at most `capacity` bytes.
fn with_device(capacity: Option<usize>, test: impl FnOnce(Arc<Tested>)) {
    let options = HostOptions::default()
        .threads(4)
        .capacity(capacity.unwrap_or(1 << 30));
    test(Tested::new(HostDevice::new(options).unwrap()));
}
