//! The functions of the driver by their names in C, each for what NVIDIA's documentation says.
//!
//! Handles and addresses are numbers here, and a pointer through which something is given or taken is a reference
//! that may be missing. That those of a caller in C are good is that caller's promise.
#![allow(
    missing_docs,
    non_snake_case,
    reason = "NVIDIA says what each does, and named them"
)]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "C does not tell safe functions from others; a caller vouches for what it points to"
)]

mod device;
mod events;
mod graphs;
mod launch;
mod memory;
mod pool;
mod streams;
mod tensor_maps;

pub use device::*;
pub use events::*;
pub use graphs::*;
pub use launch::*;
pub use memory::*;
pub use pool::*;
pub use streams::*;
pub use tensor_maps::*;
