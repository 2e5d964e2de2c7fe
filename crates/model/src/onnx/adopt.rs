//! Tensors that stay in the memory that a file was read into.

#![expect(
    unsafe_code,
    reason = "lends the memory that a file was read into to the host's device"
)]

use bytes::Bytes;
use streampool_device::{DeviceKind, Layout, Span};
use streampool_tensor::{DType, Pool, Result, Tensor};

use super::file::ALIGNMENT;

/// Smaller tensors are copied, so that they do not keep a whole page for a few numbers.
pub const LARGE: usize = 1 << 16;

/// The tensor of these bytes. They stay where they are if they are large and aligned and the pool is the host's, has no
/// limit that they would have to count in, and need not look at each of them.
pub fn tensor(pool: &Pool, dtype: DType, bytes: Bytes, shape: &[usize]) -> Result<Tensor> {
    let layout = Layout::contiguous(shape)?;
    let stays = pool.device().properties().kind == DeviceKind::Host
        && pool.settings().memory_limit.is_none()
        && dtype != DType::Bool
        && bytes.len() >= LARGE
        && layout.elements().checked_mul(dtype.size()) == Some(bytes.len())
        && bytes.as_ptr().addr().is_multiple_of(ALIGNMENT);
    if !stays {
        return Tensor::from_bytes(pool, dtype, &bytes, shape);
    }
    let span = Span {
        handle: bytes.as_ptr().expose_provenance() as u64,
        offset: 0,
        bytes: bytes.len(),
    };
    // SAFETY: the host's device reaches this process's memory by its addresses; it is aligned, and stays allocated
    // until `bytes` is dropped, which the release does. Who else holds a part of `bytes` only reads it, and so does
    // the device: nothing writes the memory of a tensor.
    let buffer = unsafe { pool.adopt(span, move || drop(bytes)) }?;
    Tensor::from_buffer(pool, buffer, dtype, layout)
}
