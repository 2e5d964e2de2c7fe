//! Kernel text executed on the CPU: an imitation GPU, for tests only.
//!
//! An [`Emulator`] lowers an op as a GPU's device does, renders each kernel in the dialect of CUDA or of Metal, lets
//! the C++ compiler of this machine translate it, and runs all threads of all groups on the CPU. So a kernel's text, its
//! launch and its parameters are proven without a GPU: what a kernel computes, that its threads come to each
//! barrier together, and that it writes what it should and nothing else. Memory that holds nothing yet is
//! poisoned, and groups, warps and threads run in a drawn order, so a missing barrier shows.
//!
//! A test of a new kernel builds ops over [`Tensor`]s and compares with the host, in each dialect:
//!
//! ```
//! use streampool_device::{DType, Op};
//! use streampool_emulated::{Emulator, Tensor, Tolerance, assert_same_as_host};
//!
//! # if cfg!(any(sanitize_address, sanitize_thread)) { return }
//! let softmax = Op::Softmax {
//!     src: Tensor::new(DType::F16, &[3, 40]).random(1),
//!     dst: Tensor::new(DType::F16, &[3, 40]),
//!     axis: 1,
//!     log: false,
//! };
//! for emulator in Emulator::of_each_dialect() {
//!     assert_same_as_host(&emulator, &softmax, Tolerance::Usual);
//! }
//! ```
//!
//! [`emulate`] gives the results themselves, to compare with anything else, and [`Emulator::execute`] works on
//! memory of the caller's. [`Emulator::with_limits`] makes the GPU larger or smaller, which changes how ops are
//! split; [`prepare`] compiles the kernels of many ops at once, which is several times faster than one by one. What is compiled once is kept below the target directory.
//!
//! What stands in a GPU's assembly is out of reach: the text that does so asks whether `STREAMPOOL_EMULATED` is
//! defined, and then does the same in C++ or leaves it to `src/shim`, where all functions of the GPU's compiler
//! are that a text may call.
//!
//! [`cuda`] compiles and runs a kernel of CUDA text by itself, for an imitation of NVIDIA's driver, and [`metal`] does so
//! with Metal text, for an imitation of Metal:
//!
//! ```
//! use streampool_emulated::metal::{Binding, Library};
//!
//! # if cfg!(any(sanitize_address, sanitize_thread)) { return }
//! let text = "#include <metal_stdlib>\n\
//!     kernel void twice(device float* to [[buffer(0)]], uint place [[thread_position_in_grid]]) {\n\
//!         to[place] *= 2;\n\
//!     }\n";
//! # if Library::compile("").is_err() { return }
//! let library = Library::compile(text).expect("it is right");
//! assert_eq!(library.functions().collect::<Vec<_>>(), ["twice"]);
//! let twice = library.function("twice").expect("it is there");
//! let (buffer, element_bytes) = twice.buffers().next().expect("it has one");
//! assert!(buffer.index == 0 && buffer.written && element_bytes == 4);
//!
//! let mut numbers = [1.0f32; 64];
//! let (address, bytes) = (numbers.as_mut_ptr().cast(), size_of_val(&numbers));
//! let bound = Binding { index: 0, address, before: 0, bytes };
//! // SAFETY: the memory is ours and as long as it says.
//! unsafe { twice.run([2, 1, 1], [32, 1, 1], &[bound], &[]) }.expect("its threads keep to the rules");
//! assert_eq!(numbers, [2.0; 64]);
//! ```

#![cfg_attr(sanitize_address, feature(sanitize))]

mod compiler;
pub mod cuda;
mod emulator;
mod fiber;
mod group;
mod guarded;
mod machine;
pub mod metal;
mod random;
mod regions;
mod same;
mod tensor;
#[cfg(all(test, not(any(sanitize_address, sanitize_thread))))]
mod tests;
mod text;
mod watched;

pub use emulator::{Emulator, Lowering};
pub use same::{
    Tolerance, Written, assert_all_same_as_host, assert_same_as_host, emulate, is_lacking, on_host,
    prepare,
};
pub use tensor::Tensor;
