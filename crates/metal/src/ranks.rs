//! The order in which the locks of this crate are taken. None is held while a handler or a trace runs, and none
//! while a kernel is compiled.

use streampool_device::lock::Rank;

const fn rank(order: u16, name: &'static str) -> Rank {
    Rank { order, name }
}

/// An event's latest recording.
pub(crate) const EVENT: Rank = rank(400, "metal event");
/// A lane: what is encoded, what is committed, what is over.
pub(crate) const LANE: Rank = rank(402, "metal lane");
/// The buffers that are committed on the whole device.
pub(crate) const IN_FLIGHT: Rank = rank(404, "metal buffers in flight");
/// The making and releasing of encoders on the whole device.
pub(crate) const ENCODERS: Rank = rank(406, "metal encoders");
/// The handlers of a lane that are not yet called.
pub(crate) const HANDLERS: Rank = rank(408, "metal handlers");
/// The lanes whose handlers are due.
pub(crate) const DUE: Rank = rank(410, "metal due lanes");
/// Where intervals are sent.
pub(crate) const TRACE: Rank = rank(412, "metal trace");
/// The staging blocks of a lane that wait for their next use.
pub(crate) const STAGING: Rank = rank(414, "metal staging blocks");
/// The allocations that are alive, and their residency.
pub(crate) const LEDGER: Rank = rank(416, "metal ledger");
/// The archive of compiled kernels.
pub(crate) const ARCHIVE: Rank = rank(418, "metal archive");
/// The pipelines that were made.
pub(crate) const PIPELINES: Rank = rank(420, "metal pipelines");
/// The names that devices have had.
pub(crate) const NAMES: Rank = rank(422, "metal names");
