//! Run models from any number of threads on one device.
//!
//! Each thread gets its own stream from a pool, memory is safe across streams without being asked, and
//! nothing waits on a global lock. The host CPU is the embedded device; NVIDIA GPUs are reached through the
//! driver, which is loaded only where there is one.
//!
//! [`Tensor`]s are values on a device, free to go from thread to thread. An operator runs on the stream of the thread
//! that calls it, after whatever made its inputs, and returns at once:
//!
//! ```
//! use streampool::prelude::*;
//!
//! let pool = streampool::host_pool()?;
//! let weight = Tensor::from_slice(&pool, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let answer = |x: [f32; 2]| -> streampool::Result<Vec<f32>> {
//!     let x = Tensor::from_slice(&pool, &x, &[1, 2])?;
//!     Ok(x.linear(&weight, None)?.to_vec()?)
//! };
//! std::thread::scope(|scope| {
//!     let one = scope.spawn(|| answer([1.0, 0.0]));
//!     let other = scope.spawn(|| answer([0.0, 1.0]));
//!     assert_eq!(one.join().unwrap()?, [1.0, 3.0]);
//!     assert_eq!(other.join().unwrap()?, [2.0, 4.0]);
//!     Ok::<(), streampool::Error>(())
//! })?;
//! # Ok::<(), streampool::Error>(())
//! ```
//!
//! A [`Session`] is a model from an ONNX file, loaded once and run from any number of threads: each has a stream of its
//! own, on which a program captured for its shapes is replayed, and all share the weights.
//!
//! ```no_run
//! use streampool::prelude::*;
//!
//! let session = Session::load(&streampool::host_pool()?, "model.onnx")?;
//! std::thread::scope(|scope| {
//!     for _ in 0..8 {
//!         scope.spawn(|| -> streampool::Result<()> {
//!             let x = Array::new(&[0.5f32; 16], &[1, 16])?;
//!             let outputs = session.run([("x", &x)])?;
//!             println!("{:?}", outputs.at(0));
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok::<(), streampool::Error>(())
//! ```
//!
//! Below tensors are buffers and ops, for those who place memory themselves:
//!
//! ```
//! use streampool::prelude::*;
//!
//! let pool = streampool::host_pool()?;
//! std::thread::scope(|scope| {
//!     for value in 0..8 {
//!         let pool = &pool;
//!         scope.spawn(move || -> streampool::Result<()> {
//!             let stream = pool.current()?;
//!             let mut buffer = stream.allocate(4 * 100)?;
//!             let dst = buffer.write(DType::I32, &[100])?;
//!             stream.encode(Op::Fill { dst, value: value.into() })?;
//!             assert_eq!(stream.download::<i32>(&buffer)?, [value; 100]);
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok::<(), streampool::Error>(())
//! ```
//!
//! Whatever fails, `?` makes it an [`Error`], whose [`kind`](Error::kind) says what can be done about it.

#![forbid(unsafe_code)]

mod batch_stream;
mod batching;
mod devices;
mod error;
mod set;

/// The examples of README, run like those here.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the book.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/src/concepts/batching.md")]
    struct ConceptsBatching;
    #[doc = include_str!("../../../docs/src/concepts/faults.md")]
    struct ConceptsFaults;
    #[doc = include_str!("../../../docs/src/concepts/memory.md")]
    struct ConceptsMemory;
    #[doc = include_str!("../../../docs/src/concepts/sessions.md")]
    struct ConceptsSessions;
    #[doc = include_str!("../../../docs/src/concepts/streams.md")]
    struct ConceptsStreams;
    #[doc = include_str!("../../../docs/src/faq.md")]
    struct Faq;
    #[doc = include_str!("../../../docs/src/getting-started.md")]
    struct GettingStarted;
    #[doc = include_str!("../../../docs/src/guides/errors.md")]
    struct GuidesErrors;
    #[doc = include_str!("../../../docs/src/guides/generate.md")]
    struct GuidesGenerate;
    #[doc = include_str!("../../../docs/src/guides/gpu.md")]
    struct GuidesGpu;
    #[doc = include_str!("../../../docs/src/guides/list.md")]
    struct GuidesList;
    #[doc = include_str!("../../../docs/src/guides/queue.md")]
    struct GuidesQueue;
    #[doc = include_str!("../../../docs/src/guides/serve.md")]
    struct GuidesServe;
    #[doc = include_str!("../../../docs/src/guides/slow.md")]
    struct GuidesSlow;
    #[doc = include_str!("../../../docs/src/reference/options.md")]
    struct ReferenceOptions;
}

pub use batch::{BatchQueue, Request, Ticket};
pub use batching::{BatchInference, ForSession, batch_inference};
pub use device::{
    Access, Activation, Axes, Binary, Compare, DType, Device, Element, EventStatus, Expr, Fault,
    Layout, MatMul, Mitigations, Norm, NormKind, Op, OpKind, Quirk, ReduceKind, Scalar, Unary,
};
#[cfg(feature = "metal")]
pub use devices::metal_pool;
pub use devices::{DeviceStatus, Unusable, devices, host_pool, host_set};
#[cfg(feature = "cuda")]
pub use devices::{cuda_pool, cuda_set};
pub use error::{Error, ErrorKind, Result};
pub use model::{Array, Binding, Input, Outputs, RunOptions, Session, SessionOptions};
pub use runtime::{
    Buffer, Capture, Event, Lease, Pool, Profile, Program, SettingError, Settings, Snapshot,
    Stream, WhenExhausted,
};
pub use set::{DeviceSet, DeviceUse, PerDevice, Placed, PlacedTicket};
pub use tensor::Tensor;

/// A queue that makes batches of the requests of many callers.
pub mod batch {
    pub use streampool_batch::{
        Batch, BatchQueue, BatchQueueBuilder, BatchRun, Error, Histogram, InferAll, Mark, Padding,
        Priority, Reason, Request, RequestCounts, Result, Shutdown, Statistics, TenantStatistics,
        Ticket, Traced, WhenFull,
    };
}

/// NVIDIA GPUs.
#[cfg(feature = "cuda")]
pub mod cuda {
    pub use streampool_cuda::{CudaDevice, CudaOptions, Precision};
}

/// What a device is, and the ops that it executes.
pub mod device {
    pub use streampool_device::{
        Access, Activation, Along, Attention, Axes, Binary, CacheReport, Cell, Combine, Compare,
        Conv, DType, Device, DeviceKind, Direction, Distribution, Element, Error, EventStatus,
        Expr, ExprBuilder, Fault, Gather, Histogram, Indexing, Interpolation, Interval,
        KernelInterval, Layout, Linalg, MatMul, MemoryUse, Mitigations, NonZero, Norm, NormKind,
        Op, OpKind, Overhead, Pool, PoolKind, Properties, Quirk, Random, ReduceKind, Regions,
        Resize, Result, Rnn, Rounding, Scalar, Scan, ScanKind, Scatter, Slide, Sort, Span, Tick,
        Trace, TreeCombine, TreeTest, Trees, Unary, Value, View, Window,
    };
}

/// The host CPU.
pub mod host {
    pub use streampool_host::{HostDevice, HostOptions};
}

/// Apple GPUs.
#[cfg(feature = "metal")]
pub mod metal {
    pub use streampool_metal::{MetalDevice, MetalOptions};
}

/// Models: ONNX files, or layers in Rust.
pub mod model {
    pub use streampool_model::graph::Dim;
    pub use streampool_model::{
        Array, Binding, Error, Input, NodeError, NodeTime, OutputMemory, Outputs, Pending,
        Profiled, Recording, Result, Rows, RunOptions, Session, SessionOptions, Statistics,
        UnsupportedOperator, ValueInfo, ValueKind,
    };
    pub use streampool_model::{nn, onnx};
}

/// Streams, events, memory, programs, settings and figures.
pub mod runtime {
    pub use streampool_runtime::{
        ArenaUse, Budget, Buffer, CacheSnapshot, Capture, Captured, Culprit, Error, Event,
        EventSnapshot, HoldsBuffer, HostSpan, KernelUse, Lease, Mark, MemorySnapshot, OnStream,
        Operand, Origin, Pool, Pressure, Profile, Profiler, Program, QuirkSnapshot, Recording,
        Reference, Result, SettingError, Settings, SettingsBuilder, Snapshot, Stamp, Stream,
        StreamSnapshot, Summary, Variable, WhenExhausted, Workaround,
    };
}

/// Tensors and their operators.
pub mod tensor {
    pub use streampool_tensor::{Activation, dlpack};
    pub use streampool_tensor::{
        Alignment, AttentionOptions, BestBoxes, BoxFormat, Combine, ConvOptions, DepthOrder,
        Direction, Distribution, Encoder, Error, Fourier, Generator, GridOptions, Interpolation,
        Lu, NpzFile, Other, Outside, OwnMemory, Padding, PoolOptions, ResizeOptions, Result,
        RnnActivation, RnnOptions, RnnOutput, RnnWeights, RoiOptions, Rounding, SafeTensors,
        Sampling, ScanKind, Size, Tensor, UninitTensor, Unique, multi, write_npz,
        write_safetensors,
    };
}

/// What most programs need.
pub mod prelude {
    pub use crate::{
        Array, BatchQueue, Buffer, DType, DeviceSet, Event, ForSession, Input, Layout, Lease,
        MatMul, Norm, Op, Outputs, Pool, Request, RunOptions, Scalar, Session, SessionOptions,
        Settings, Stream, Tensor, Ticket, WhenExhausted,
    };
}
