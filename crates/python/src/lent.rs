//! Memory that NumPy and the host's device lend each other.

#![expect(
    unsafe_code,
    reason = "has the device read memory of NumPy's, and NumPy use memory of arrays"
)]

use numpy::ndarray::ArrayView;
use numpy::{Element, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use streampool::device::{DType, DeviceKind, Layout, Span};
use streampool::tensor::OwnMemory;
use streampool::{Array, Pool, Tensor};

/// A tensor of `pool` that reads an array of NumPy's where it is, if the pool is the host's and the array is row-major and
/// aligned. The array lives until nothing there needs it any more.
///
/// Of the memory nothing but addresses is kept: what reads it while somebody else writes it finds some numbers or others. So only
/// floats should be lent: a number that is an index is not to change between its check and its use.
pub fn tensor<T: Element + 'static>(
    array: &Bound<'_, PyArrayDyn<T>>,
    dtype: DType,
    shape: &[usize],
    pool: &Pool,
) -> streampool::Result<Option<Tensor>> {
    let bytes = array.len().saturating_mul(size_of::<T>());
    let span = Span {
        handle: array.data().expose_provenance() as u64,
        offset: 0,
        bytes,
    };
    let layout = Layout::contiguous(shape).map_err(streampool::runtime::Error::from)?;
    let is_whole = layout.elements().checked_mul(dtype.size()) == Some(bytes);
    let is_here = pool.device().properties().kind == DeviceKind::Host;
    let is_aligned = (array.data().addr()).is_multiple_of(Array::LENT_ALIGNMENT);
    if !is_here || !is_whole || !is_aligned || !array.is_c_contiguous() {
        return Ok(None);
    }
    let object = array.clone().unbind();
    // SAFETY: it is memory of this process, aligned, and stays allocated until the release lets go of the array: NumPy does not
    // resize what others refer to, and PyTorch does not resize what it has lent to NumPy. That nobody writes it is what callers of
    // `Session` promise.
    let buffer = unsafe { pool.adopt(span, move || drop(object)) }?;
    Ok(Some(Tensor::lent(pool, buffer, dtype, layout)?))
}

/// The memory of an array that NumPy was given.
#[pyclass(frozen, module = "streampool._streampool")]
struct Memory(#[expect(dead_code, reason = "it is kept")] OwnMemory);

/// An array's elements as one of NumPy's: where they are if they are many and nobody else has them, else a copy. Whoever has it may
/// write it.
pub fn numpy<'py, T: Element + streampool::device::Element>(
    py: Python<'py>,
    array: Array,
) -> PyResult<streampool::tensor::Result<Bound<'py, PyAny>>> {
    // Not all bytes are values of each type.
    if let Err(error) = array.values::<T>() {
        return Ok(Err(error));
    }
    let shape = array.shape().to_vec();
    let own = match array.into_memory() {
        Ok(own) => own,
        Err(array) => {
            return Ok(match array.values::<T>() {
                Ok(values) => Ok(PyArray1::from_slice(py, values).reshape(shape)?.into_any()),
                Err(error) => Err(error),
            });
        }
    };
    let first = own.first().cast::<T>();
    let own = Bound::new(py, Memory(own))?.into_any();
    // SAFETY: the memory has the array's elements, which are values of this type, as was looked at before; it begins at a multiple
    // of 256, or of 16 at least.
    let view = unsafe { ArrayView::from_shape_ptr(shape, first.as_ptr()) };
    // SAFETY: `own` keeps the memory, which nobody else has, and NumPy's array keeps `own`.
    let made = unsafe { PyArrayDyn::borrow_from_array(&view, own) };
    Ok(Ok(made.into_any()))
}
