//! An imitation of NVIDIA's driver and of NVRTC, for tests only.
//!
//! The library has the C functions of `libcuda.so.1` and `libnvrtc.so` that the CUDA device calls. A folder that holds
//! it under these names, set as `LD_LIBRARY_PATH`, makes the device run unchanged on a machine without a GPU:
//! `ci/cuda-sim.sh` does so. What it imitates is one GPU of compute capability 9.0:
//!
//! - **Memory** of the device is memory of the host, and handles are addresses. It is poisoned at first, and so much
//!   of it is there as the settings say.
//! - **Streams** are in order, and a few threads work them off. Events stand for their recording at the time of a call.
//! - **Graphs**: the same executable never runs twice at a time, and may be destroyed while it runs.
//! - **Captures** in their three modes. A call that is not safe meanwhile is refused and spoils the capture.
//! - **Kernels**: a module is a text. Empty kernels of PTX do nothing, and what the imitation of NVRTC made of CUDA text
//!   is executed on the CPU by `streampool-emulated`, which needs a C++ compiler.
//! - **The driver's lock** ([`lock`]). Launches hold it together, and who makes or frees something waits until it
//!   is alone. It prefers those who launch, so threads that launch all the time keep everybody else out.
//!
//! What the driver answers with an error is answered with the same error. Where it leaves open what happens, such as when
//! a destroyed stream or freed memory is used, the rule that was broken is printed and the process is aborted.
//!
//! There is no default stream, no second GPU and no library of NVIDIA's beside these two.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `CUDA_SIM_LAUNCH_US` | how long a launch holds the driver's lock, in microseconds | 2 |
//! | `CUDA_SIM_ALONE_US` | how long who holds it alone does, in microseconds | 10 |
//! | `CUDA_SIM_MEMORY` | the GPU's memory, in bytes | 8 GiB |
//! | `CUDA_SIM_REFUSED_WAITS` | how many waits for streams and events are refused, the first ones | 0 |
//! | `CUDA_SIM_REFUSED_FREES` | how many calls that free or destroy are refused, the first ones | 0 |
//!
//! Tests of the imitation itself call the functions of [`api`], which have NVIDIA's names. `cudaSimLose` loses the GPU for the
//! rest of the process.

pub mod api;
mod capture;
mod driver;
mod gpu;
mod graph;
mod handle;
pub mod lock;
mod memory;
mod module;
mod nvrtc;
mod objects;
mod report;
mod settings;

pub use driver::Live;
