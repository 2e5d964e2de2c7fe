//! What the tests of the Metal device have in common: how they open it, and what goes wrong on request.
// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

use std::sync::Arc;

use streampool_device::Device;
use streampool_metal::{MetalDevice, MetalOptions};
#[cfg(metal_sim)]
use streampool_metal_sim as imitation;

/// `MTLCommandBufferErrorPageFault`
pub const PAGE_FAULT: isize = 3;

/// A device of its own, or why there is none.
pub fn open(options: MetalOptions) -> Result<Arc<MetalDevice>, String> {
    let opened = MetalDevice::new(options).map_err(|error| error.to_string());
    #[cfg(metal_sim)]
    assert!(opened.is_ok(), "the imitation has a GPU: {opened:?}");
    opened
}

/// A device of its own; without one, says why the test is skipped.
pub fn device() -> Option<Arc<MetalDevice>> {
    device_with(MetalOptions::default())
}

/// As [`device`], with these options.
pub fn device_with(options: MetalOptions) -> Option<Arc<MetalDevice>> {
    let why = |why: &String| eprintln!("skipped: {why}");
    open(options).inspect_err(why).ok()
}

/// What Metal calls the queue of this label.
pub fn metal_label(device: &dyn Device, label: &str) -> String {
    format!("{} {label}", device.properties().name)
}

/// Makes the next buffer of the queue of this label fail. Only the imitation does so on request.
#[cfg(metal_sim)]
pub fn fail_next(device: &dyn Device, label: &str) {
    imitation::fail_next(&metal_label(device, label), PAGE_FAULT);
}

/// Where Metal is imitated, one test has the imitation to itself: what it counts is the whole process's. At its end no
/// rule was broken and no object is left.
#[cfg(metal_sim)]
pub struct Stage(pub imitation::Sim);

#[cfg(not(metal_sim))]
pub struct Stage;

impl Stage {
    /// A rule that is broken ends the process.
    #[cfg(metal_sim)]
    pub fn new() -> Stage {
        Stage(imitation::Sim::strict())
    }

    /// A rule that is broken is noted.
    #[cfg(metal_sim)]
    pub fn recording() -> Stage {
        Stage(imitation::Sim::recording())
    }

    #[cfg(not(metal_sim))]
    pub fn new() -> Stage {
        Stage
    }
}

#[cfg(metal_sim)]
impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // Threads that called handlers let go of their lanes soon after.
        let begun = std::time::Instant::now();
        while !self.0.live_objects().is_empty() && begun.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
    }
}
