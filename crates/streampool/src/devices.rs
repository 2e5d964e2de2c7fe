//! The devices of this machine, and why any of them cannot be used.

use std::sync::Arc;

use streampool_device::{Device, DeviceKind};
use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Pool, Result};

/// One kind of device, as this build finds it on this machine.
#[derive(Debug, Clone)]
pub struct DeviceStatus {
    /// The kind.
    pub kind: DeviceKind,
    /// The device, or why there is none to use.
    pub device: Result<Arc<dyn Device>, String>,
}

/// Every kind of device that Streampool knows, usable or not.
pub fn devices() -> Vec<DeviceStatus> {
    let not_built = |kind: DeviceKind| DeviceStatus {
        kind,
        device: Err(format!("this version has no {} device yet", kind.name())),
    };
    vec![
        DeviceStatus {
            kind: DeviceKind::Host,
            device: open_host().map_err(|error| error.to_string()),
        },
        not_built(DeviceKind::Cuda),
        not_built(DeviceKind::Metal),
    ]
}

/// A pool on the host CPU, set up by the environment.
pub fn host_pool() -> Result<Pool> {
    Pool::new(open_host()?)
}

fn open_host() -> Result<Arc<dyn Device>> {
    Ok(HostDevice::new(HostOptions::from_env()?)?)
}
