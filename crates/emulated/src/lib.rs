//! Kernel text executed on the CPU: an imitation GPU, for tests only.
//!
//! An [`Emulator`] lowers an op as a GPU's device does, renders each kernel in CUDA's dialect, lets the C++
//! compiler of this machine translate it, and runs all threads of all groups on the CPU. So a kernel's text, its
//! launch and its parameters are proven without a GPU: what a kernel computes, that its threads come to each
//! barrier together, and that it writes what it should and nothing else. Memory that holds nothing yet is
//! poisoned, and groups, warps and threads run in a drawn order, so a missing barrier shows.
//!
//! A test of a new kernel builds ops over [`Tensor`]s and compares with the host:
//!
//! ```
//! use streampool_device::{DType, Op};
//! use streampool_emulated::{Emulator, Tensor, Tolerance, assert_same_as_host};
//!
//! # if cfg!(any(sanitize_address, sanitize_thread)) { return }
//! let Some(emulator) = Emulator::or_skip() else { return };
//! let softmax = Op::Softmax {
//!     src: Tensor::new(DType::F16, &[3, 40]).random(1),
//!     dst: Tensor::new(DType::F16, &[3, 40]),
//!     axis: 1,
//!     log: false,
//! };
//! assert_same_as_host(&emulator, &softmax, Tolerance::Usual);
//! ```
//!
//! [`emulate`] gives the results themselves, to compare with anything else, and [`Emulator::execute`] works on
//! memory of the caller's. [`Emulator::with_limits`] makes the GPU larger or smaller, which changes how ops are
//! split; [`prepare`] compiles the kernels of many ops at once, which is several times faster than one by one. What is compiled once is kept below the target directory.
//!
//! What stands in a GPU's assembly is out of reach: the text that does so asks whether `STREAMPOOL_EMULATED` is
//! defined, and then does the same in C++ or leaves it to `src/shim`, where all functions of the GPU's compiler
//! are that a text may call.

mod compiler;
mod emulator;
mod fiber;
mod group;
mod guarded;
mod machine;
mod random;
mod regions;
mod same;
mod tensor;
#[cfg(all(test, not(any(sanitize_address, sanitize_thread))))]
mod tests;
mod text;

pub use emulator::{Emulator, Lowering};
pub use same::{Tolerance, Written, assert_same_as_host, emulate, on_host, prepare};
pub use tensor::Tensor;
