//! The device where there is Metal.

mod append;
mod archive;
mod capture;
mod commands;
mod completion;
mod core;
mod cores;
mod cost;
mod device;
mod divide;
mod encoders;
mod errors;
mod event;
mod handlers;
mod in_flight;
mod kernels;
mod lane;
mod memory;
mod objects;
mod own;
mod page;
mod peer;
mod pool;
mod program;
mod properties;
mod queue;
mod residency;
mod signposts;
mod staging;
mod state;
mod step;
mod tracing;
mod writer;

pub use device::MetalDevice;
