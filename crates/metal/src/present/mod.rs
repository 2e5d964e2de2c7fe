//! The device where there is Metal.

mod archive;
mod capture;
mod commands;
mod completion;
mod core;
mod cores;
mod device;
mod encoders;
mod errors;
mod event;
mod handlers;
mod in_flight;
mod kernels;
mod lane;
mod memory;
mod objects;
mod page;
mod pool;
mod program;
mod properties;
mod queue;
mod residency;
mod signposts;
mod staging;
mod step;
mod tracing;

pub use device::MetalDevice;
