//! NVIDIA GPUs as Streampool devices, through the driver's own functions.
//!
//! The driver, NVRTC and cuBLASLt are loaded when they are needed: this crate builds and runs on a machine
//! that has none of them, and says what is missing.
//!
//! ```
//! use streampool_cuda::{CudaDevice, CudaOptions};
//! use streampool_device::Device;
//!
//! match CudaDevice::new(CudaOptions::default()) {
//!     Ok(device) => println!("{}", device.properties().hardware),
//!     Err(why) => println!("{why}"),
//! }
//! ```

mod blas;
pub mod ceiling;
mod compiler;
mod context;
mod core;
mod device;
mod dnn;
mod driver;
mod event;
mod external;
mod gate;
mod handlers;
mod injector;
mod lane;
mod lowering;
mod marks;
mod memory;
mod options;
mod peers;
mod pinned;
mod place;
mod program;
mod progress;
mod properties;
mod queue;
mod ranks;
mod retired;
mod step;
mod stock;
mod sync;
mod tensor_map;
mod tracing;
mod waits;
mod watcher;

pub use device::CudaDevice;
pub use options::{CudaOptions, Precision};
