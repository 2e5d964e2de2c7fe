//! Tensors from and to files: safetensors, `.npy` and `.npz`.
//!
//! A file is not trusted: what is wrong with it is an error that says where, and memory is taken for bytes that
//! are there, not for those that a header promises.

mod header;
mod names;
mod npy;
mod npz;
mod safetensors;

pub use npz::{NpzFile, write_npz};
pub use safetensors::{SafeTensors, write_safetensors};

// Bytes go from files to devices as they are.
const _: () = assert!(cfg!(target_endian = "little"));
