//! Serves models over the Open Inference Protocol, version 2, as NVIDIA Triton and KServe do.
//!
//! [`http::router`] and [`grpc::router`] go into any `axum` application. Each model has a queue that makes batches, and all share a device.
//! A client that goes away withdraws its request.
//!
//! ```
//! use streampool_serve::{Defaults, Limits, Repository, Server, http};
//!
//! let pool = streampool::host_pool()?;
//! let repository = Repository::new("models", pool, Defaults::default());
//! // Models that cannot be loaded are named; here is no folder.
//! assert!(repository.load_all().is_err());
//! let server = Server::new(repository, Limits::default());
//! server.set_ready(true);
//! let app = axum::Router::new().nest("/inference", http::router(server));
//! # let _ = app;
//! # Ok::<(), streampool::Error>(())
//! ```

#![forbid(unsafe_code)]

mod aside;
mod config;
mod datatype;
mod error;
mod failures;
mod figures;
pub mod grpc;
pub mod http;
mod json_data;
pub mod listen;
pub mod log;
pub mod metrics;
mod model;
mod name;
mod outputs;
mod pbtxt;
mod port;
mod quick;
mod repository;
mod server;
mod settings;
mod shared_memory;
mod statistics;
mod strings;
mod tenants;
#[cfg(feature = "text")]
mod text;
pub mod tls;
pub mod traces;
mod warm_up;
pub mod watch;

pub use config::Defaults;
pub use error::{Error, Reason, Refusal, Result};
pub use repository::Repository;
pub use server::{Limits, Options, Server};
pub use tenants::{Account, Keys, Who};
