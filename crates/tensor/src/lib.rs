//! Tensors: values on a device, and operators that run on the calling thread's current stream.
//!
//! A [`Tensor`] never changes once it is made, is cheap to clone, and may be used from any thread: an operator
//! takes its inputs from whatever streams they were made on, runs on the stream of the thread that calls it,
//! and returns at once. What is read back ([`Tensor::to_vec`]) is waited for. Views (slices, transposes,
//! broadcasts) share memory. Shapes, types and axes are checked when an operator is called, and errors name them.
//!
//! ```
//! use streampool_host::{HostDevice, HostOptions};
//! use streampool_runtime::Pool;
//! use streampool_tensor::Tensor;
//!
//! let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! let x = Tensor::from_slice(&pool, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
//! let last_column = x.select(1, -1)?;
//! let sent = std::thread::spawn(move || last_column.to_vec::<f32>()).join().unwrap()?;
//! assert_eq!(sent, [3.0, 6.0]);
//! assert_eq!(x.transpose(0, 1)?.shape(), [3, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When work fails
//!
//! What can be known when an operator is called is an error of that call. An index is only known on the device: one out
//! of range is, on the host, a fault of the stream, which whoever reads the result is told of, on whatever thread. The
//! stream takes nothing more until it is recovered; tensors made before the fault keep their values.
//!
//! ```
//! # use streampool_host::{HostDevice, HostOptions};
//! # use streampool_runtime::Pool;
//! # use streampool_tensor::Tensor;
//! # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! let table = Tensor::from_slice(&pool, &[1.0f32, 2.0, 3.0], &[3, 1])?;
//! table.synchronize()?;
//! let rows = Tensor::from_slice(&pool, &[0i64, 7], &[2])?;
//! let picked = table.embedding(&rows)?;
//! let error = picked.to_vec::<f32>().unwrap_err();
//! assert!(error.to_string().contains("index"), "{error}");
//! pool.current()?.recover()?;
//! assert_eq!(table.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod array;
mod axis;
mod create;
mod display;
pub mod dlpack;
mod encoder;
mod error;
mod files;
#[cfg(feature = "ndarray")]
mod ndarray;
mod ops;
mod range;
mod read;
pub mod room;
mod shape;
mod tensor;
mod views;

pub use array::{Array, OwnMemory};
pub use encoder::{Encoder, UninitTensor};
pub use error::{Error, Result};
pub use files::{NpzFile, SafeTensors, write_npz, write_safetensors};
pub use ops::{
    Alignment, AttentionOptions, BestBoxes, BoxFormat, ConvOptions, DepthOrder, Fourier, Generator,
    GridOptions, Lu, Other, Outside, Padding, PoolOptions, ResizeOptions, RnnActivation,
    RnnOptions, RnnOutput, RnnWeights, RoiOptions, Sampling, TreeOptions, Unique, multi,
};
pub use shape::Size;
pub use streampool_device::{
    Activation, Combine, Direction, Distribution, Interpolation, Rounding, ScanKind,
};
pub use streampool_runtime::{DType, Element, Layout, Pool, Scalar};
pub use tensor::Tensor;
