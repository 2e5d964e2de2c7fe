//! The device and the pool that the steps share.

use std::sync::Arc;

use streampool::Pool;
use streampool::host::{HostDevice, HostOptions};

use crate::Result;
use crate::story::setting;

/// Threads that work at once, each on a stream of its own: all the worker streams there are.
pub const THREADS: usize = setting::MOST_THREADS;

/// A host device that can be made slow and faulty, and a pool on it.
pub struct Stage {
    pub device: Arc<HostDevice>,
    pub pool: Pool,
}

impl Stage {
    /// A stage whose properties do not depend on the environment: the story is the same everywhere.
    pub fn new() -> Result<Self> {
        let device = HostDevice::new(HostOptions::default())?;
        let pool = setting::pool(device.clone())?;
        Ok(Stage { device, pool })
    }
}
