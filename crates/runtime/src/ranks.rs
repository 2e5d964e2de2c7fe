//! The order in which this crate's locks are taken: rising. Those of devices come after all of these.

use streampool_device::lock::Rank;

const fn rank(order: u16, name: &'static str) -> Rank {
    Rank { order, name }
}

/// A program's scratch, while it is replayed.
pub(crate) const PROGRAM: Rank = rank(100, "program");
/// The list of what is in flight, where a device limits it.
pub(crate) const IN_FLIGHT: Rank = rank(105, "in-flight");
/// The making of a stream.
pub(crate) const CREATION: Rank = rank(110, "stream-creation");
/// A stream: its queue and its clock. No thread ever holds two.
pub(crate) const STREAM: Rank = rank(120, "stream");
/// An event, while it is recorded or waited for on a stream.
pub(crate) const RECORDING: Rank = rank(125, "event-recording");
/// A driver call that is not safe under threads.
pub(crate) const DRIVER: Rank = rank(130, "driver");
/// Which ticks of a stream a fault hit.
pub(crate) const HISTORY: Rank = rank(140, "fault-history");
/// The free ranges of an arena.
pub(crate) const HEAP: Rank = rank(150, "heap");
/// The callbacks under memory pressure.
pub(crate) const PRESSURE: Rank = rank(160, "pressure-callbacks");
/// A profiler's intervals.
pub(crate) const PROFILER: Rank = rank(180, "profiler");
