//! The order in which the locks of this crate are taken. None is held while a handler or a trace runs, and none that
//! who compiles a kernel takes is held while one is compiled.

use streampool_device::lock::Rank;

const fn rank(order: u16, name: &'static str) -> Rank {
    Rank { order, name }
}

/// An event's latest recording.
pub(crate) const EVENT: Rank = rank(400, "metal event");
/// A lane: what is encoded, what is committed, what is over.
pub(crate) const LANE: Rank = rank(402, "metal lane");
/// Which queue of Metal's a lane has now.
pub(crate) const COMMANDS: Rank = rank(405, "metal command queue");
/// The lanes that wait for one.
pub(crate) const TOLD: Rank = rank(403, "metal waiting lanes");
/// The buffers that are committed on the whole device.
pub(crate) const IN_FLIGHT: Rank = rank(404, "metal buffers in flight");
/// The making and releasing of encoders on the whole device, and the commits.
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
/// The file of the archive. Who has it compiles kernels again to write them there; nobody waits for it but to write.
pub(crate) const ARCHIVE_FILE: Rank = rank(418, "metal archive file");
/// What was compiled and is not in the archive yet.
pub(crate) const ARCHIVE: Rank = rank(420, "metal archive");
/// The pipelines that were made.
pub(crate) const PIPELINES: Rank = rank(422, "metal pipelines");
/// The frames of the capture scope.
pub(crate) const CAPTURE: Rank = rank(424, "metal capture scope");
/// The names that devices have had.
pub(crate) const NAMES: Rank = rank(426, "metal names");
