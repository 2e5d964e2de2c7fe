//! DLPack: memory shared with other libraries of this process, without a copy where that can be.
//!
//! - **Out** ([`Tensor::to_dlpack`](crate::Tensor::to_dlpack)): the other library gets the address, and keeps the memory alive until it
//!   calls the deleter. It must only read, which version 1 tells by a flag.
//! - **In** ([`Tensor::from_dlpack`](crate::Tensor::from_dlpack)): memory of the pool's own device is used where it is; what is elsewhere
//!   on the host, or not aligned to 256 bytes there, is copied, and the deleter called at once.

#![expect(
    unsafe_code,
    reason = "shares memory with other libraries through their structures"
)]

mod abi;
mod export;
mod import;

pub use abi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    Managed,
};
pub use export::Exported;
