//! What happens when a rule is broken whose breach the driver does not answer: the process ends, and says why.

use std::io::Write;

/// A rule that programs keep to of themselves. Breaking it is undefined with the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A handle is used that was destroyed or never made.
    Handle,
    /// Memory is freed once, and used while it is there.
    Memory,
    /// What a command under way needs is neither freed nor unloaded.
    InFlight,
    /// A copy's two ranges do not overlap.
    Overlap,
    /// A stream that captures is not destroyed.
    Capture,
    /// The threads of a kernel keep to the rules.
    Kernel,
    /// What the imitation does not have is not asked for.
    Imitated,
}

/// A rule is broken: prints which, and aborts.
pub fn breach(rule: Rule, what: &str) -> ! {
    let thread = std::thread::current();
    // Not by `eprintln`, which a test keeps to itself until it ends.
    let _ = writeln!(
        std::io::stderr(),
        "\nthread '{}' broke a rule of CUDA, as imitated: {rule:?}: {what}\n{}",
        thread.name().unwrap_or("without a name"),
        std::backtrace::Backtrace::force_capture(),
    );
    std::process::abort();
}
