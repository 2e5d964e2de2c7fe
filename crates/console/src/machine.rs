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
            cores: processors(),
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

/// Processors this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The most bytes of memory that this process ever had at once, where the system tells.
pub fn peak_memory() -> Option<usize> {
    status("VmHWM:")
}

/// The bytes of memory that this process has now, where the system tells.
pub fn memory() -> Option<usize> {
    status("VmRSS:")
}

fn status(what: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_process_takes_memory() {
        let (now, peak) = (super::memory().unwrap(), super::peak_memory().unwrap());
        // Linux counts pages on each processor by itself, and adds them up late: the peak that it tells may lie below what it
        // told a moment before.
        assert!(now > 1 << 20 && peak > now / 2, "{peak} of {now}");
    }
}
