//! What the tests of the Metal device have in common: how they open it, and what goes wrong on request.
// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

#[cfg(metal_sim)]
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
#[cfg(metal_sim)]
use std::time::Duration;

use streampool_device::{DType, Device, Layout, Memory, Op, Queue, QueueOptions, View};
use streampool_metal::{MetalDevice, MetalOptions};
#[cfg(metal_sim)]
use streampool_metal_sim as imitation;

/// `MTLCommandBufferErrorPageFault`
pub const PAGE_FAULT: isize = 3;

/// Where this is set there is a GPU for sure, as on the imitation: a test that would be skipped for want of one fails instead.
const REQUIRED: &str = "REQUIRE_METAL";

/// A device of its own, or why there is none.
pub fn open(options: MetalOptions) -> Result<Arc<MetalDevice>, String> {
    let opened = MetalDevice::new(options).map_err(|error| error.to_string());
    let required = cfg!(metal_sim) || std::env::var_os(REQUIRED).is_some();
    assert!(!required || opened.is_ok(), "a GPU is needed: {opened:?}");
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

/// A queue of this label.
pub fn queue(device: &MetalDevice, label: &str) -> Box<dyn Queue> {
    let options = QueueOptions {
        label: label.to_owned(),
        ..QueueOptions::default()
    };
    device.create_queue(options).unwrap()
}

/// Fills all of this memory with floats of this value.
pub fn fill_op(memory: &Memory, value: f32) -> Op {
    let layout = Layout::contiguous(&[memory.bytes / 4]).unwrap();
    let dst = View::new(memory.span(), DType::F32, layout).unwrap();
    Op::Fill {
        dst,
        value: value.into(),
    }
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

/// Where Metal is imitated, one test has the imitation to itself: what it counts is the whole process's. Its GPU is late
/// by chance and in orders that a seed draws. At its end no rule was broken and no object is left.
#[cfg(metal_sim)]
pub struct Stage(pub imitation::Sim);

/// Set to a seed to draw again what it drew.
#[cfg(metal_sim)]
const SEED: &str = "METAL_SIM_SEED";
/// How late each step on the GPU and each handler may be.
#[cfg(metal_sim)]
const LATE: Duration = Duration::from_micros(100);

#[cfg(not(metal_sim))]
pub struct Stage;

impl Stage {
    /// A rule that is broken ends the process.
    #[cfg(metal_sim)]
    pub fn new() -> Stage {
        Stage::begin(imitation::Sim::strict())
    }

    /// A rule that is broken is noted.
    #[cfg(metal_sim)]
    pub fn recording() -> Stage {
        Stage::begin(imitation::Sim::recording())
    }

    #[cfg(metal_sim)]
    fn begin(sim: imitation::Sim) -> Stage {
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed.parse().expect("a seed is a number"),
            Err(_) => RandomState::new().hash_one(SEED),
        };
        // Shown if the test fails.
        eprintln!("drawn by {SEED}={seed}");
        sim.seed(seed);
        sim.delay(LATE);
        Stage(sim)
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
