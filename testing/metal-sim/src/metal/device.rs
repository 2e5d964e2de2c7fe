//! The one device, as on a Mac: what its buffers and queues know of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use super::hazards::Hazards;
use crate::runtime::Body;

pub(super) const MOST_THREADS: usize = 1024;
pub(super) const THREADGROUP_MEMORY: usize = 32 * 1024;
/// Its number in the registry of devices.
pub(crate) const REGISTRY_ID: u64 = 0x1_0000_0001;

pub(super) struct Device {
    pub allocated: AtomicU64,
    /// Committed command buffers that are not completed.
    pub in_flight: AtomicUsize,
    /// How often the GPU was set up anew.
    pub resets: AtomicUsize,
    pub hazards: Arc<Hazards>,
    pub started: Instant,
}

impl Body for Device {}

impl Device {
    /// Seconds, as the GPU counts them.
    pub fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
