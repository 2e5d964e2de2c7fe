//! Batches out of the requests of many callers.
//!
//! A [`BatchQueue`] stands before a function that is faster with many rows at once, such as a model on a GPU. Callers
//! give it single requests, from any thread or task; it runs those that fit together as one [`Batch`], and each caller gets
//! its own rows back. By default it does not wait: a batch forms while others run, and a queue that has nothing else to do
//! runs a request at once, on the caller's own thread. How large batches should be is learned from how long they take.
//!
//! ```
//! use streampool_batch::{Batch, BatchQueue, Shutdown};
//! use streampool_tensor::Array;
//!
//! // Twice each element, for as many rows as come together.
//! let queue = BatchQueue::builder().max_batch_size(16).build(|batch: Batch| {
//!     let doubled: Vec<f32> = batch.array(0)?.values::<f32>()?.iter().map(|x| 2.0 * x).collect();
//!     Batch::new(vec![Array::new(&doubled, &[batch.rows(), 2])?]).map_err(Box::<dyn std::error::Error + Send + Sync>::from)
//! })?;
//! std::thread::scope(|scope| {
//!     for caller in 0..8 {
//!         let queue = &queue;
//!         scope.spawn(move || {
//!             let x = caller as f32;
//!             let row = Array::new(&[x, -x], &[1, 2]).expect("two elements");
//!             let outputs = queue.infer(row).expect("an answer");
//!             assert_eq!(outputs[0].values::<f32>().expect("floats"), [2.0 * x, -2.0 * x]);
//!         });
//!     }
//! });
//! queue.shutdown(Shutdown::Drain);
//! assert_eq!(queue.statistics().requests.completed, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What was not asked for in time, was cancelled, or found no room is told to its caller only, and counted by reason. A
//! batch that fails is run again in parts, so that only the guilty request fails.
//!
//! # States
//!
//! A request comes in by one of three ways, and ends in one of the [counts](RequestCounts). It is held only where
//! [`WhenFull`] or the call says that it waits for room.
//!
//! ```text
//!   infer, while nothing waits and a lane is free
//!     ------------------------------------------------.
//!   infer, else                                        \
//!     --> arrived --.  whoever has the lock next        v
//!                    \     its batch goes
//!   submit, ... ------+--> queued --------------> running --> completed, failed, expired, cancelled
//!                     |     ^   \
//!             no room |     |    `--> cancelled, expired, closed
//!                     |     | room
//!                     +--> held ----> rejected, cancelled, expired, closed
//!                     |
//!                     `-------------> rejected, expired, closed
//! ```
//!
//! A queue:
//!
//! ```text
//!            shutdown              nothing waits or runs
//!     open ------------> closing -----------------------> closed
//!       ^                                                   |
//!       `--------------------- restart ---------------------'
//! ```
//!
//! While it closes, what is held is refused, and what is queued is run or refused, as [`Shutdown`] says.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
// The model checker runs the engine alone, from `tests/loom_*.rs`.
#![cfg(not(loom))]

mod alarm;
mod answer;
mod batch;
mod builder;
mod engine;
mod error;
mod figures;
mod histogram;
mod inference;
mod inside;
mod names;
mod nested;
mod outcome;
mod padding;
mod queue;
mod request;
mod runner;
pub mod schedule;
mod shared;
mod statistics;
mod sync;
mod ticket;
mod traced;

pub use batch::Batch;
pub use builder::{BatchQueueBuilder, WhenFull};
pub use engine::Shutdown;
pub use error::{Error, Result};
pub use figures::RequestCounts;
pub use histogram::Histogram;
pub use inference::InferAll;
pub use padding::Padding;
pub use queue::BatchQueue;
pub use request::Request;
pub use schedule::{Priority, Reason};
pub use statistics::{Statistics, TenantStatistics};
pub use ticket::Ticket;
pub use traced::{BatchRun, Mark, Traced};
