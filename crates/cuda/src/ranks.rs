//! The order in which the locks of this crate are taken. None is held while a handler or a trace runs.

use streampool_device::lock::Rank;

const fn rank(order: u16, name: &'static str) -> Rank {
    Rank { order, name }
}

/// The handlers of a lane that are not yet called.
pub(crate) const HANDLERS: Rank = rank(260, "cuda handlers");
/// The lanes that are watched.
pub(crate) const WATCHED: Rank = rank(262, "cuda watched lanes");
/// The lanes whose handlers are due.
pub(crate) const DUE: Rank = rank(264, "cuda due lanes");
/// An event's latest recording.
pub(crate) const EVENT: Rank = rank(266, "cuda event");
/// The graphs of a program.
pub(crate) const PROGRAM: Rank = rank(268, "cuda program");
/// The device's account of graphs.
pub(crate) const BUDGET: Rank = rank(269, "cuda program budget");
/// What is known of a lane's progress.
pub(crate) const LANE: Rank = rank(270, "cuda lane");
/// Where intervals are sent.
pub(crate) const TRACE: Rank = rank(272, "cuda trace");
/// The pinned blocks of a lane that wait for their next use.
pub(crate) const PINNED: Rank = rank(276, "cuda pinned blocks");
/// The pinned memory of the device that waits for its next use.
pub(crate) const PINNED_STOCK: Rank = rank(277, "cuda pinned memory");
/// The events of a lane that wait for their next use.
pub(crate) const SHELF: Rank = rank(278, "cuda event shelf");
/// The streams and events of the device that wait for their next use.
pub(crate) const STOCK: Rank = rank(279, "cuda stock");
/// What the injector was told to do.
pub(crate) const INJECTOR: Rank = rank(280, "cuda injector");
/// The names that devices have had.
pub(crate) const NAMES: Rank = rank(284, "cuda names");
/// The sessions of cuDNN that nobody uses.
pub(crate) const DNN: Rank = rank(288, "cuda dnn sessions");
/// The modules that are loaded.
pub(crate) const MODULES: Rank = rank(286, "cuda modules");
