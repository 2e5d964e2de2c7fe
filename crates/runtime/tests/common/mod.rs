//! What the behaviour tests have in common: devices that can be slowed and stopped, pools, and small ops.
// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code, unused_imports)]

mod gate;
mod work;

use std::sync::Arc;

use streampool_device::Device;
use streampool_host::{HostDevice, HostOptions};

pub use gate::Gate;
pub use work::*;

/// A device with a few workers.
pub fn device() -> Arc<HostDevice> {
    device_of(4, 1 << 30)
}

/// A device with so many workers and so many bytes.
pub fn device_of(workers: usize, capacity: usize) -> Arc<HostDevice> {
    HostDevice::new(HostOptions::default().threads(workers).capacity(capacity)).unwrap()
}

/// Bytes that the device has given out.
pub fn in_use(device: &HostDevice) -> usize {
    device.memory_use().in_use
}
