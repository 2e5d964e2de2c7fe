//! What a profiler is told.

use std::sync::Arc;
use std::time::Instant;

use crate::{OpKind, Tick};

/// One op as it was executed, on the host's clock as near as the device can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The index given to the queue.
    pub queue: u32,
    /// The op's place in it; ops inside one replay share its tick.
    pub tick: Tick,
    /// The op.
    pub op: OpKind,
    /// When it began.
    pub begin: Instant,
    /// When it was over.
    pub end: Instant,
}

/// One kernel of a replay as a GPU executed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInterval {
    /// The op that it is part of. The times are the kernel's own.
    pub interval: Interval,
    /// Its name. What a library launches for one op may be several kernels.
    pub name: Arc<str>,
    /// How many launches it took.
    pub launches: usize,
    /// The groups of threads that a launch has: CUDA's blocks.
    pub groups: u64,
    /// How many such groups fit one of the device's processors at a time.
    pub fit: u32,
}

/// Where a device sends intervals. Called from any thread, soon after the op; it must be quick.
pub trait Trace: Send + Sync {
    /// One op is over.
    fn op(&self, interval: Interval);

    /// One kernel is over. Not every device tells of kernels.
    fn kernel(&self, _kernel: KernelInterval) {}
}
