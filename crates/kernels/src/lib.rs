//! Compiled kernels, shared by every device.
//!
//! A device that runs compiled code needs the same three things whatever it compiles: the kernel's text,
//! a [`Cache`] that compiles each kernel once however many threads ask for it, and a [`DiskStore`] that
//! keeps the result between runs. This crate is their home: it holds the cache and the store, used by the
//! host for its fused expressions, and is where the kernel text shared by CUDA and Metal belongs. It
//! compiles nothing itself and knows no device.
//!
//! ```
//! use streampool_kernels::Cache;
//!
//! let cache: Cache<String, usize> = Cache::new("lengths", 1024);
//! let compile = || Ok("fused_add_relu".len());
//! let first = cache.get_or_compile("fused_add_relu", compile)?;
//! let again = cache.get_or_compile("fused_add_relu", || unreachable!("it is cached"))?;
//! assert_eq!((*first, *again), (14, 14));
//!
//! let report = cache.report();
//! assert_eq!((report.entries, report.compiled, report.hits), (1, 1, 1));
//! # Ok::<(), String>(())
//! ```

mod cache;
mod disk;
mod dispatch;
mod elementwise;
mod entry;
mod flight;
mod hash;
mod kernel;
mod matmul;
mod ranks;
mod rows;
mod shard;
pub mod text;

pub use cache::{Cache, DiskKey};
pub use disk::DiskStore;
pub use dispatch::{Dispatch, Limits, Operand, Params, Plan};
pub use elementwise::Elementwise;
pub use entry::Stored;
pub use hash::KeyHasher;
pub use kernel::{Kernel, lower};
pub use matmul::{Product, small_product};
pub use rows::Rows;
pub use text::{Dialect, Source};
