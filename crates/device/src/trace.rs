//! What a profiler is told.

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

/// Where a device sends intervals. Called from any thread, soon after the op; it must be quick.
pub trait Trace: Send + Sync {
    /// One op is over.
    fn op(&self, interval: Interval);
}
