//! The place of this crate's lock in the one lock order: above those of the runtime and the devices, whose code may hold its
//! own locks while it asks for a kernel.

use streampool_device::lock::Rank;

/// What the disk store remembers of its last failure.
pub(crate) const DISK_FAILURE: Rank = Rank {
    order: 310,
    name: "kernel disk failure",
};
