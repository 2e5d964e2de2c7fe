//! What a device is: the narrow waist between the runtime and the hardware.
//!
//! Four ideas and one list. A [`Device`] hands out memory, queues and events. A [`Queue`] is one in-order
//! lane; every method that appends to it takes `&mut self`, so two threads can never share an encoder. An
//! [`Event`] marks a point of a queue. A [`Program`] is a captured sequence of ops that replays with one
//! call. An [`Op`] is one of the closed list of primitive operations.
//!
//! A queue counts what is appended to it: each command gets the next [`Tick`], and [`Progress`], the part
//! of a queue that any thread may look at, says which tick is complete.
//!
//! ```
//! use streampool_device::{DType, Layout};
//!
//! let matrix = Layout::contiguous(&[3, 4])?;
//! assert_eq!(matrix.permute(&[1, 0])?.shape(), &[4, 3]);
//! assert_eq!(DType::BF16.size(), 2);
//! # Ok::<(), streampool_device::Error>(())
//! ```

#![deny(unsafe_code)]

mod aliases;
mod aligned;
pub mod bytes;
mod check;
pub mod commands;
mod device;
mod dtype;
mod error;
mod event;
mod expr;
pub mod foreign;
mod layout;
pub mod lock;
pub mod machine;
mod memory;
mod mitigations;
mod op;
mod op_kind;
mod op_parts;
mod ops;
mod process;
mod program;
mod queue;
mod quirk;
mod slots;
#[doc(hidden)]
pub mod spans;
mod trace;
mod validate;
pub mod variables;
mod work;

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

pub use aligned::Aligned;
pub use device::{
    CacheReport, ChannelsLast, Device, DeviceKind, MemoryUse, Overhead, Priority, Properties,
    QueueOptions,
};
pub use dtype::{DType, Element, Scalar};
pub use error::{Error, Fault, Result, Tick};
pub use event::{Event, EventStatus};
pub use expr::{Binary, Compare, Expr, ExprBuilder, Node, Unary, Value};
pub use layout::{Dims, Layout, MAX_ELEMENTS, MAX_RANK};
pub use memory::{Memory, Space, Span, View};
pub use mitigations::Mitigations;
pub use op::{MatMul, Norm, Op};
pub use op_kind::OpKind;
pub use op_parts::{Access, Activation, Axes, NormKind, ReduceKind};
pub use ops::{
    Along, Attention, Cell, Combine, Conv, Direction, Distribution, Gather, Histogram, Indexing,
    Interpolation, Linalg, NonZero, Pool, PoolKind, Random, Regions, Resize, Rnn, Rounding, Scan,
    ScanKind, Scatter, Slide, Sort, ToBytes, TreeCombine, TreeTest, Trees, Window,
};
pub use process::Process;
pub use program::Program;
pub use queue::{Flush, Handler, HostSlice, Prepared, Progress, Queue};
pub use quirk::Quirk;
pub use slots::Slots;
pub use trace::{Interval, KernelInterval, Trace};
