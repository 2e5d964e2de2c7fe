//! The machine that this process runs on.

use std::sync::OnceLock;

/// The bytes of its memory, if it says.
pub fn memory() -> Option<usize> {
    static MEMORY: OnceLock<Option<usize>> = OnceLock::new();
    *MEMORY.get_or_init(|| from_meminfo().or_else(from_sysctl))
}

/// Whether it may have so many bytes at all. Systems may promise more than there is, and end whoever writes to it.
pub fn may_hold(bytes: usize) -> bool {
    memory().is_none_or(|all| bytes <= all)
}

fn from_meminfo() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn from_sysctl() -> Option<usize> {
    if !cfg!(target_vendor = "apple") {
        return None;
    }
    let output = std::process::Command::new("/usr/sbin/sysctl")
        .args(["-n", "hw.memsize"])
        .output()
        .ok()?;
    std::str::from_utf8(&output.stdout)
        .ok()?
        .trim()
        .parse()
        .ok()
}
