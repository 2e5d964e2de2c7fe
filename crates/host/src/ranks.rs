//! The order in which the locks of this crate are taken. None is held while a kernel, a handler, a trace
//! or an allocation runs, and hardly ever two at a time.

use streampool_device::lock::Rank;

const fn rank(order: u16, name: &'static str) -> Rank {
    Rank { order, name }
}

/// What waits on a strand, and who runs it.
pub(crate) const INBOX: Rank = rank(200, "host strand inbox");
/// An event's latest recording.
pub(crate) const EVENT: Rank = rank(205, "host event");
/// The strands that wait for a recording.
pub(crate) const RECORDING: Rank = rank(210, "host recording");
/// The handlers of a strand that are due.
pub(crate) const HANDLERS: Rank = rank(215, "host handlers");
/// The fault of a strand.
pub(crate) const FAULT: Rank = rank(220, "host fault");
/// Where intervals are sent.
pub(crate) const TRACE: Rank = rank(225, "host trace");
/// What the injector was told to do.
pub(crate) const RULES: Rank = rank(230, "host injector");
/// The packed constants that programs share.
pub(crate) const PACKS: Rank = rank(238, "host packed constants");
/// The allocations that debug builds remember.
#[cfg(debug_assertions)]
pub(crate) const LEDGER: Rank = rank(240, "host memory ledger");
/// The panic of a parallel region.
pub(crate) const REGION: Rank = rank(245, "host parallel region");
/// Idle workers.
pub(crate) const SLEEP: Rank = rank(250, "host pool sleep");
/// A slot of the large expressions used last: nothing is locked or dropped while it is held.
pub(crate) const RECENT: Rank = rank(255, "host recent expressions");
