//! Run models from any number of threads on one device.
//!
//! Each thread gets its own stream from a pool, memory is safe across streams without being asked, and
//! nothing waits on a global lock. The host CPU is the embedded device; NVIDIA GPUs are reached through the
//! driver, which is loaded only where there is one.
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

mod devices;

/// The examples of README, run like those here.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(feature = "cuda")]
pub use devices::cuda_pool;
pub use devices::{DeviceStatus, Unusable, devices, host_pool};
#[cfg(feature = "cuda")]
pub use streampool_cuda as cuda;
pub use streampool_device as device;
pub use streampool_host as host;
pub use streampool_runtime::*;

/// What most programs need.
pub mod prelude {
    pub use crate::{Buffer, DType, Event, Layout, MatMul, Norm, Op, Pool, Scalar, Stream};
}
