//! Streams, clocks, events, memory, faults and profiler, over any device.
//!
//! A [`Pool`] gives each thread a [`Stream`] of its own. A [`Buffer`] used on several streams orders their
//! work and keeps its memory until all are done with it, with nothing asked of the user. Faults stay on the
//! stream they happen on and reach exactly those who used its results.
//!
//! ```
//! use streampool_host::{HostDevice, HostOptions};
//! use streampool_runtime::{DType, Op, Pool};
//!
//! let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! let stream = pool.current()?;
//! let mut ones = stream.allocate(4 * 3)?;
//! let dst = ones.write(DType::F32, &[3])?;
//! stream.encode(Op::Fill { dst, value: 1.0.into() })?;
//! assert_eq!(stream.download::<f32>(&ones)?, [1.0; 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]
// The model checker runs the lock-free files alone, from `tests/loom_*.rs`.
#![cfg(not(loom))]

mod binding;
mod budget;
mod clock;
mod clocks;
mod core;
mod encode;
mod error;
mod event;
mod event_pool;
mod external;
mod faults;
mod free_queue;
mod history;
mod lane;
mod lease;
mod memory;
mod order;
mod os;
mod pool;
mod profiler;
mod program;
mod quirks;
mod ranks;
mod run;
mod settings;
mod slots;
mod snapshot;
mod spin;
mod stream;
mod sync;
mod task;
mod waiters;

pub use budget::Budget;
pub use clock::Stamp;
pub use error::{Error, Result};
pub use event::Event;
pub use lease::Lease;
pub use memory::{ArenaUse, Buffer, HoldsBuffer, Operand, Pressure};
pub use pool::{Pool, Recording};
pub use profiler::{HostSpan, KernelUse, Mark, Profile, Profiler, Summary};
pub use program::{Capture, Captured, Program, Reference};
pub use quirks::{Workaround, workaround};
pub use settings::{
    Mitigations, Origin, SettingError, Settings, SettingsBuilder, Variable, WhenExhausted,
};
pub use snapshot::{
    CacheSnapshot, EventSnapshot, MemorySnapshot, QuirkSnapshot, Snapshot, StreamSnapshot,
};
pub use stream::{Culprit, Stream};
pub use streampool_device::{
    Access, Activation, Axes, Binary, Compare, DType, Device, Element, EventStatus, Expr, Fault,
    Layout, MatMul, Norm, NormKind, Op, OpKind, Quirk, ReduceKind, Scalar, Span, Unary,
};
pub use task::OnStream;
