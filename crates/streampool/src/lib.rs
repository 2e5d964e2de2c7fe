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
//! let answer = |x: [f32; 2]| -> streampool::tensor::Result<Vec<f32>> {
//!     let x = Tensor::from_slice(&pool, &x, &[1, 2])?;
//!     x.linear(&weight, None)?.to_vec()
//! };
//! std::thread::scope(|scope| {
//!     let one = scope.spawn(|| answer([1.0, 0.0]));
//!     let other = scope.spawn(|| answer([0.0, 1.0]));
//!     assert_eq!(one.join().unwrap()?, [1.0, 3.0]);
//!     assert_eq!(other.join().unwrap()?, [2.0, 4.0]);
//!     Ok::<(), streampool::tensor::Error>(())
//! })
//! # .map_err(Box::<dyn std::error::Error>::from)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
//!         scope.spawn(|| -> streampool::model::Result<()> {
//!             let x = Array::new(&[0.5f32; 16], &[1, 16])?;
//!             let outputs = session.run([("x", &x)])?;
//!             println!("{:?}", outputs.at(0));
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
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

mod batching;
mod devices;
mod error;

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

pub use batching::{BatchInference, ForSession, batch_inference};
#[cfg(feature = "cuda")]
pub use devices::cuda_pool;
#[cfg(feature = "metal")]
pub use devices::metal_pool;
pub use devices::{DeviceStatus, Unusable, devices, host_pool};
pub use streampool_batch as batch;
pub use streampool_batch::{BatchQueue, Request, Ticket};
#[cfg(feature = "cuda")]
pub use streampool_cuda as cuda;
pub use streampool_device as device;
pub use streampool_host as host;
#[cfg(feature = "metal")]
pub use streampool_metal as metal;
pub use streampool_model as model;
pub use streampool_model::{Array, Input, Outputs, RunOptions, Session, SessionOptions};
pub use error::{Error, ErrorKind, Result};
pub use streampool_runtime::*;
pub use streampool_tensor as tensor;
pub use streampool_tensor::Tensor;

/// What most programs need.
pub mod prelude {
    pub use crate::{
        Array, BatchQueue, Buffer, DType, Event, ForSession, Input, Layout, Lease, MatMul, Norm,
        Op, Outputs, Pool, Request, RunOptions, Scalar, Session, SessionOptions, Settings, Stream,
        Tensor, Ticket, WhenExhausted,
    };
}
