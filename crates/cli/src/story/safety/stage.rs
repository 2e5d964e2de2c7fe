//! The device and the pool that the steps share.

use std::sync::Arc;

use streampool::host::{HostDevice, HostOptions};
use streampool::{Pool, Settings};

use crate::Result;

/// Threads that work at once, each on a stream of its own: all the worker streams there are.
pub const THREADS: usize = 31;

/// A host device that can be made slow and faulty, and a pool on it.
pub struct Stage {
    pub device: Arc<HostDevice>,
    pub pool: Pool,
}

impl Stage {
    /// A stage whose properties do not depend on the environment: the story is the same everywhere.
    pub fn new() -> Result<Self> {
        let device = HostDevice::new(HostOptions::default())?;
        let settings = Settings::builder()
            .without_environment()
            .streams(THREADS + 1)
            .build()?;
        let pool = Pool::with_settings(device.clone(), settings)?;
        Ok(Stage { device, pool })
    }
}
