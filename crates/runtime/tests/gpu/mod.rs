//! What the runtime keeps on any GPU: what it keeps on any device, and that kernels come to what the host does. Their
//! tests say at their root, too, whether it has floats of 64 bits (`DOUBLES`).

#[path = "../any_device/mod.rs"]
mod any_device;

mod against_host;
mod compiling;

pub use any_device::*;
