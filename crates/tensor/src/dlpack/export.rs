//! Tensors that other libraries read.

use std::ffi::c_void;
use std::ptr::NonNull;

use streampool_device::MAX_RANK;

use super::abi::{DLDataType, DLDevice, DLTensor, Managed};
use crate::{Error, Result, Tensor};

/// A tensor on its way to another library. Dropped before it is handed over, it lets go of its memory.
pub struct Exported<M: Managed>(NonNull<M>);

/// What the other library keeps alive.
struct Kept<M> {
    managed: M,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    _tensor: Tensor,
}

impl Tensor {
    /// Its memory for another library, without a copy unless it goes down in memory (a negative stride, which
    /// many refuse).
    ///
    /// This waits until the tensor is computed: it can be read on any stream. Work of the other library that reads
    /// it has to be complete when that calls the deleter; it must not write.
    pub fn to_dlpack<M: Managed>(&self) -> Result<Exported<M>> {
        let Some(device) = DLDevice::of(self.pool()) else {
            let expected = "a device whose memory has addresses: the host or CUDA";
            return Err(Error::parameter(
                "to_dlpack",
                "self",
                self.device(),
                expected,
            ));
        };
        let downwards = self.layout().strides().iter().any(|&stride| stride < 0);
        let tensor = if downwards {
            self.copied("to_dlpack")?
        } else {
            self.clone()
        };
        tensor.synchronize()?;
        let span = tensor.buffer().span();
        let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
        for axis in 0..tensor.rank() {
            shape[axis] = tensor.shape()[axis] as i64;
            strides[axis] = tensor.layout().strides()[axis] as i64;
        }
        let exported = DLTensor {
            data: (span.handle as usize + span.offset) as *mut c_void,
            device,
            ndim: tensor.rank() as i32,
            dtype: DLDataType::of(tensor.dtype()),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: (tensor.layout().offset() * tensor.dtype().size()) as u64,
        };
        let kept = Box::into_raw(Box::new(Kept {
            managed: M::new(exported, std::ptr::null_mut(), delete::<M>),
            shape,
            strides,
            _tensor: tensor,
        }));
        // SAFETY: `kept` was just made, and nobody else has its address; only addresses of its fields are taken,
        // and one field is replaced by a value without a destructor's work.
        let managed = unsafe {
            let shape = (&raw mut (*kept).shape).cast();
            let strides = (&raw mut (*kept).strides).cast();
            let tensor = DLTensor {
                shape,
                strides,
                ..exported
            };
            (*kept).managed = M::new(tensor, kept.cast(), delete::<M>);
            NonNull::new_unchecked(&raw mut (*kept).managed)
        };
        Ok(Exported(managed))
    }
}

impl<M: Managed> Exported<M> {
    /// Hands it over: whoever gets the pointer has to call the deleter once.
    pub fn into_raw(self) -> *mut M {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }
}

impl<M: Managed> Drop for Exported<M> {
    fn drop(&mut self) {
        // SAFETY: it was not handed over, so nobody else calls the deleter.
        unsafe { delete(self.0.as_ptr()) }
    }
}

// SAFETY: it owns a tensor, which may be sent, and addresses within the same allocation; it has no shared state.
unsafe impl<M: Managed> Send for Exported<M> {}

/// Lets go of an exported tensor.
///
/// # Safety
/// `managed` is null, or comes from [`Tensor::to_dlpack`] and is given here once.
unsafe extern "C" fn delete<M: Managed>(managed: *mut M) {
    if managed.is_null() {
        return;
    }
    // SAFETY: `to_dlpack` put the address of the box there, which is given back once.
    drop(unsafe { Box::from_raw((*managed).owner().cast::<Kept<M>>()) });
}
