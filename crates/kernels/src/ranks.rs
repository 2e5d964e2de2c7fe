//! The places of this crate's locks in the one lock order: above those of the runtime and the devices,
//! whose code may hold its own locks while it asks for a kernel.

use streampool_device::lock::Rank;

/// A compile in flight: held to read or set its outcome, never while compiling.
pub(crate) const FLIGHT: Rank = Rank {
    order: 300,
    name: "kernel compile in flight",
};

/// What the disk store remembers of its last failure.
pub(crate) const DISK_FAILURE: Rank = Rank {
    order: 310,
    name: "kernel disk failure",
};

/// A part of a cache's table: nothing is locked, compiled or dropped while it is held, so it comes after all others.
pub(crate) const TABLE: Rank = Rank {
    order: 500,
    name: "kernel table",
};
