//! Models: ONNX files in, many threads out.
//!
//! A [`Session`] loads a model once; any number of threads run it at the same time, each on its own stream, with the
//! weights shared and no lock between them. What a run needs is made the first time inputs of its kind come by on a stream:
//! the model is traced into a plan of device ops over one block of memory, and the plan becomes a program that later runs
//! replay, without taking memory from the device or compiling anything. [`nn`] is for those who define models in Rust.
//!
//! ```
//! use streampool_host::{HostDevice, HostOptions};
//! use streampool_model::{Array, Session, SessionOptions};
//! use streampool_tensor::Pool;
//!
//! // y = max(x, 0), as a file would hold it; `Session::load` takes a path.
//! let model: &[u8] = &[
//!     8, 8, 58, 53, 10, 12, 10, 1, 120, 18, 1, 121, 34, 4, 82, 101, 108, 117, 18, 1, 103, 90, 16, 10, 1, 120, 18, 11, 10, 9, 8,
//!     1, 18, 5, 10, 3, 18, 1, 110, 98, 16, 10, 1, 121, 18, 11, 10, 9, 8, 1, 18, 5, 10, 3, 18, 1, 110, 66, 4, 10, 0, 16, 13,
//! ];
//! let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! let session = Session::from_bytes(&pool, model, &SessionOptions::default())?;
//! let x = Array::new(&[-1.0f32, 2.0, 3.0], &[3])?;
//! let outputs = std::thread::scope(|scope| {
//!     let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| session.run([("x", &x)]))).collect();
//!     runs.into_iter().map(|run| run.join().expect("no thread panics")).collect::<Result<Vec<_>, _>>()
//! })?;
//! assert_eq!(outputs[0].get("y").expect("an output").values::<f32>()?, [0.0, 2.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod check;
mod error;
mod evaluate;
#[doc(hidden)]
pub mod graph;
#[doc(hidden)]
pub mod inspect;
mod lower;
pub mod nn;
mod nodes;
pub mod onnx;
#[doc(hidden)]
pub mod passes;
mod ranks;
mod seeds;
mod session;
mod strings;
#[doc(hidden)]
pub mod symbols;
#[doc(hidden)]
pub mod testing;
mod trace;
mod trees;
mod words;

pub use error::{Error, NodeError, Result, UnsupportedOperator};
pub use graph::{Dim, Domain, Operator, ValueInfo, ValueKind};
pub use session::{
    Array, Binding, Input, NodeTime, OutputMemory, Outputs, Pending, Profiled, Recording, Rows,
    RunOptions, Session, SessionOptions, Statistics,
};
