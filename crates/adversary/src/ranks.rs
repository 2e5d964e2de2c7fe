//! The order in which this crate's locks are taken: after those of the runtime, before those of the device it wraps.

use streampool_device::lock::Rank;

const fn rank(order: u16, name: &'static str) -> Rank {
    Rank { order, name }
}

/// What the bugs count as under way.
pub(crate) const UNDER_WAY: Rank = rank(190, "adversary's work under way");
/// The fault of a queue that met a bug.
pub(crate) const FAULT: Rank = rank(191, "adversary's fault");
