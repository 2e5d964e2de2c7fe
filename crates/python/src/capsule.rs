//! Tensors in capsules of Python, for other libraries (DLPack).

#![expect(
    unsafe_code,
    reason = "hands a tensor over in a capsule, as DLPack's protocol for Python has it"
)]

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;
use streampool::Tensor;
use streampool::tensor::dlpack::{DLManagedTensor, DLManagedTensorVersioned};

use crate::errors::raise;

const OLD: &CStr = c"dltensor";
const NEW: &CStr = c"dltensor_versioned";

/// A tensor in a capsule, after waiting for its values. `versioned` says that the taker knows DLPack 1.
pub fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let failed = |error| raise(py, streampool::Error::from(error));
    let (pointer, name, end): (*mut std::ffi::c_void, &CStr, ffi::PyCapsule_Destructor) =
        match versioned {
            true => {
                let exported = py.detach(|| tensor.to_dlpack::<DLManagedTensorVersioned>());
                (exported.map_err(failed)?.into_raw().cast(), NEW, drop_new)
            }
            false => {
                let exported = py.detach(|| tensor.to_dlpack::<DLManagedTensor>());
                (exported.map_err(failed)?.into_raw().cast(), OLD, drop_old)
            }
        };
    // SAFETY: the pointer is not null, and the name lives for ever. Whoever takes the tensor renames the capsule.
    let capsule = unsafe { ffi::PyCapsule_New(pointer, name.as_ptr(), Some(end)) };
    // SAFETY: it is a new object, or null with an error set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// The tensor of a capsule that nobody has taken.
///
/// # Safety
/// `capsule` is a capsule.
unsafe fn left<T>(capsule: *mut ffi::PyObject, name: &CStr) -> Option<*mut T> {
    // SAFETY: the caller's promise; the name tells what the pointer is.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 0 {
            return None;
        }
        Some(ffi::PyCapsule_GetPointer(capsule, name.as_ptr()).cast())
    }
}

unsafe extern "C" fn drop_old(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with the capsule, which nobody else has any more.
    unsafe {
        if let Some(managed) = left::<DLManagedTensor>(capsule, OLD)
            && let Some(deleter) = (*managed).deleter
        {
            deleter(managed);
        }
    }
}

unsafe extern "C" fn drop_new(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if let Some(managed) = left::<DLManagedTensorVersioned>(capsule, NEW)
            && let Some(deleter) = (*managed).deleter
        {
            deleter(managed);
        }
    }
}
