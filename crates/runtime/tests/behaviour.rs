//! What the runtime keeps on any device, on the host.
#![cfg(not(loom))]

mod any_device;

use std::sync::Arc;
use std::time::Duration;

use streampool_host::{HostDevice as Tested, HostOptions};

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
    test(Tested::new(options).unwrap());
}
