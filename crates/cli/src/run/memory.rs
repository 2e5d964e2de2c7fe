//! What the process takes.

/// The most bytes of memory that this process ever had at once, where the system tells.
pub fn peak() -> Option<usize> {
    told("VmHWM:")
}

/// The bytes of memory that this process has now.
pub fn now() -> Option<usize> {
    told("VmRSS:")
}

fn told(what: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_process_takes_memory() {
        let (now, peak) = (super::now().unwrap(), super::peak().unwrap());
        assert!(now > 1 << 20 && peak >= now);
    }
}
