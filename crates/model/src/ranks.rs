//! The ranks of this crate's locks: see `streampool_device::lock`.

use streampool_device::lock::Rank;

const fn rank(order: u16, name: &'static str) -> Rank {
    Rank { order, name }
}

/// The choices of inputs that need not be given.
pub(crate) const OPTIONAL_INPUTS: Rank = rank(88, "model defaults");
/// The runs under way on one stream.
pub(crate) const UNDER_WAY: Rank = rank(84, "model runs under way");
/// One of them.
pub(crate) const RUN: Rank = rank(86, "model run");
/// The programs of one stream. Taken before anything of the runtime.
pub(crate) const PROGRAMS: Rank = rank(90, "model programs");
/// Whose turn it is to run a plan. Nothing else is locked meanwhile.
pub(crate) const TURNS: Rank = rank(92, "model turns");
/// The values that plans of a session were made for lately. Nothing else is locked meanwhile.
pub(crate) const BY_VALUE: Rank = rank(93, "model values");
/// What plans of a session take. Nothing else is locked meanwhile.
pub(crate) const LEDGER: Rank = rank(96, "model ledger");
/// The plans of a session.
pub(crate) const PLANS: Rank = rank(95, "model plans");
/// The listing of a trace, which is written while the trace's stream is locked.
pub(crate) const LISTING: Rank = rank(170, "listing of a trace");
/// The host device that sessions share.
pub(crate) const KNOWN: Rank = rank(94, "model host device");
/// The replays of a session that is profiled.
pub(crate) const REPLAYS: Rank = rank(97, "model replays");
/// Whether a plan is being made. Nothing else is locked meanwhile.
pub(crate) const PLAN: Rank = rank(99, "model plan");
/// The weights that were moved to a device.
pub(crate) const WEIGHTS: Rank = rank(98, "model weights");
