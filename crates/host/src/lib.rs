//! The host CPU as a Streampool device.
//!
//! Queues are strands on a pool of as many workers as there are processors; a thread that waits for its own
//! queue executes the work itself. Kernels are vectorised and split over idle workers when that pays. For tests, it
//! injects delays and faults on request ([`HostDevice::injector`]).
//!
//! ```
//! use streampool_device::{DType, Device, Flush, HostSlice, Layout, Op, QueueOptions, Space, View};
//! use streampool_host::{HostDevice, HostOptions};
//!
//! let device = HostDevice::new(HostOptions::default())?;
//! let memory = device.allocate(16, Space::Device)?;
//! let ones = View::new(memory.span(), DType::F32, Layout::contiguous(&[4])?)?;
//! let mut queue = device.create_queue(QueueOptions::default())?;
//! let mut bytes = [0u8; 16];
//! // SAFETY: the memory and the bytes outlive the wait below, and nothing else touches them.
//! let tick = unsafe {
//!     queue.encode(&Op::Fill { dst: ones, value: 1.0.into() })?;
//!     queue.download(ones.span().part(0, 16)?, HostSlice { pointer: bytes.as_mut_ptr(), bytes: 16 })?;
//!     queue.flush(Flush::ForWaiter)?
//! };
//! queue.progress().wait(tick, None)?;
//! assert_eq!(bytes[..4], 1f32.to_ne_bytes());
//! // SAFETY: all work is complete.
//! unsafe { device.free(memory) };
//! # Ok::<(), streampool_device::Error>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod core;
mod cost;
mod crew;
mod device;
mod event;
mod execute;
mod given_up;
mod handlers;
mod injector;
mod kernels;
mod lately;
mod map;
mod memory;
mod options;
mod packs;
mod pairs;
mod pool;
mod program;
mod progress;
mod queue;
mod ranks;
mod region;
mod strand;
mod team;
#[cfg(test)]
mod testing;

pub use device::HostDevice;
pub use injector::{Injector, OpMatcher};
pub use kernels::bare_execute;
pub use options::HostOptions;
