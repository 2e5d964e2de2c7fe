//! What the figures were taken on.

use serde::Serialize;
use streampool::device::Properties;

use crate::text;

/// The processors that threads and kernels share.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Processors this process may use.
    pub cores: usize,
    /// What the device calls its hardware.
    pub cpu: String,
    /// Threads that run kernels.
    pub threads: usize,
    /// Which system, and for which processors the program was built.
    pub platform: String,
}

impl Machine {
    /// The machine that a device is part of.
    pub fn with(device: &Properties) -> Self {
        Machine {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            cpu: device.hardware.clone(),
            threads: device.compute_units,
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }

    /// It in one line.
    pub fn line(&self) -> String {
        format!("{}, {}", self.cpu, text::counted(self.cores as u64, "core"))
    }
}
