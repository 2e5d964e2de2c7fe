//! Kernels, shared by every device that compiles.
//!
//! [`lower`] says which kernels execute an op, and with what; [`Kernel::source`] renders the text of one for CUDA or
//! for Metal. A [`Cache`] compiles each kernel once however many threads ask for it, and a [`DiskStore`] keeps the
//! result between runs. This crate compiles nothing itself and knows
//! no device.
//!
//! ```
//! use streampool_device::Op;
//! use streampool_kernels::{Dialect, Limits, lower};
//!
//! let limits = Limits { compute_units: 8, shared_bytes: 32 << 10, buffers: 480 };
//! let plan = lower(&Op::Nop, &limits).expect("every op on this list has a kernel");
//! let source = plan.dispatches[0].kernel.source(Dialect::Metal).expect("Metal has all it needs");
//! assert!(source.text.contains("kernel void nop("));
//! ```
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

#![forbid(unsafe_code)]

mod attention;
mod cache;
mod conv;
mod disk;
mod dispatch;
mod elementwise;
mod entry;
mod hash;
mod index;
mod kernel;
mod linalg;
mod matmul;
mod numbered;
mod pool;
pub mod random;
mod ranks;
mod regions;
mod register_blocks;
mod resize;
pub mod rnn;
mod rows;
mod scan;
pub mod scratch;
mod sort;
mod spatial;
mod tally;
pub mod text;
mod trees;

pub use attention::Attention;
pub use cache::{Cache, Missing, NotReady};
pub use conv::{as_product, tensor_core_patches};
pub use disk::DiskStore;
pub use dispatch::{Limits, MAP_BYTES, Operand, Params, TensorMap};
pub use elementwise::Elementwise;
pub use entry::Stored;
pub use hash::KeyHasher;
pub use index::{IndexedAxis, Places};
pub use kernel::{
    Dispatch, Kernel, Plan, lower, lower_to_simdgroups, product_of_many, small_product,
    tensor_core_product, warpgroup_conv, warpgroup_product,
};
pub use linalg::Linalg;
pub use matmul::{Product, RESIDENT_THREADS};
pub use rows::Rows;
pub use scratch::with_room_to_grow;
pub use text::{Dialect, Source};
