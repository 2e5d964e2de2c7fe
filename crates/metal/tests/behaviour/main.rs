//! The runtime over a Metal device: events, faults, memory and the end of things, as users meet them.
#![cfg(any(target_vendor = "apple", metal_sim))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../runtime/tests/gpu/mod.rs"]
mod gpu;

mod archive;
#[cfg(metal_sim)]
mod faults;
#[cfg(metal_sim)]
mod instruments;
mod lifecycle;
mod memory;
#[cfg(metal_sim)]
mod products;
#[cfg(metal_sim)]
mod refusals;
#[cfg(metal_sim)]
mod stalls;
#[cfg(metal_sim)]
mod waits;
#[cfg(metal_sim)]
mod watchdog;

use std::sync::Arc;
use std::time::Duration;

use streampool_metal::{MetalDevice as Tested, MetalOptions};

/// It has no floats of 64 bits, and says so of ops on them.
const DOUBLES: bool = false;
/// So many floats, copied so often, take some milliseconds.
fn busy() -> (usize, usize) {
    (1 << 20, 20)
}
/// Its clock is laid upon the host's exactly.
const CLOCK_SLACK: Duration = Duration::ZERO;

/// Runs `test` with a device of its own that gives at most `capacity` bytes; without one, says why not. Where Metal is
/// imitated, no rule is broken meanwhile and no object is left.
fn with_device(capacity: Option<usize>, test: impl FnOnce(Arc<Tested>)) {
    let _stage = common::Stage::new();
    let options = MetalOptions {
        capacity,
        ..MetalOptions::default()
    };
    if let Some(device) = common::device_with(options) {
        test(device);
    }
}
