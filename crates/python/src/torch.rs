//! Tensors of PyTorch on a GPU, which go in and out as they are.
//!
//! To PyTorch a run is work on its own current stream, as any of its operators is: it begins after what that stream was given
//! before, and what that stream is given later waits for it. So the allocator of PyTorch may use memory again as it does after its
//! own operators, and outputs are tensors that it has allocated itself. Weights stay where they are, too.

#![expect(
    unsafe_code,
    reason = "calls the functions by which PyTorch exchanges tensors (DLPackExchangeAPI of dlpack.h), and lends its memory"
)]

use std::ffi::{c_int, c_void};

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use streampool::device::{DType, Layout, Span};
use streampool::tensor::dlpack::{DLDevice, DLPackVersion, DLTensor};
use streampool::{Buffer, Pool, Tensor};

use crate::arrays::dtype_name;
use crate::errors::{invalid, raise};

/// What DLPack calls a device of CUDA.
const CUDA: i32 = 2;

/// What memory that is bound to a program begins at a multiple of.
const ALIGNMENT: usize = 256;

/// The functions that PyTorch offers, from 2.10 on.
#[repr(C)]
struct Exchange {
    version: DLPackVersion,
    /// Addresses that nobody needs here.
    _others: [usize; 4],
    view: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut DLTensor) -> c_int>,
    current_stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int,
}

struct Torch {
    tensor: Py<PyType>,
    exchange: Option<&'static Exchange>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

fn load(py: Python<'_>) -> PyResult<Torch> {
    let tensor = py
        .import("torch")?
        .getattr("Tensor")?
        .cast_into::<PyType>()?;
    let exchange = match tensor.getattr_opt("__dlpack_c_exchange_api__")? {
        Some(capsule) => {
            // SAFETY: the object is alive; for another than a capsule of this name it returns null and sets an error.
            let found = unsafe {
                ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr())
            };
            // SAFETY: under this name is the structure, which stays for as long as the process; its head never changes.
            let exchange = unsafe { found.cast::<Exchange>().as_ref() };
            if exchange.is_none() {
                drop(PyErr::take(py));
            }
            exchange.filter(|exchange| exchange.version.major == 1 && exchange.view.is_some())
        }
        None => None,
    };
    Ok(Torch {
        tensor: tensor.unbind(),
        exchange,
    })
}

/// Whether this is a tensor of PyTorch's, told by its type.
fn torch<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<&'py Torch>> {
    let py = value.py();
    let torch = match TORCH.get(py) {
        Some(torch) => torch,
        None => {
            let module = value.get_type().module()?;
            if module.to_string_lossy().split('.').next() != Some("torch") {
                return Ok(None);
            }
            TORCH.get_or_try_init(py, || load(py))?
        }
    };
    Ok(value.is_instance(torch.tensor.bind(py))?.then_some(torch))
}

/// The number of the GPU of a pool on CUDA.
pub fn gpu(pool: &Pool) -> Option<i32> {
    let device = DLDevice::of(pool)?;
    (device.device_type == CUDA).then_some(device.device_id)
}

/// A tensor of PyTorch's on a GPU, kept alive.
pub struct GpuTensor {
    object: Py<PyAny>,
    address: usize,
    pub dtype: DType,
    pub shape: Vec<usize>,
    exchange: &'static Exchange,
}

impl GpuTensor {
    /// The tensor, if it is one of PyTorch's on the GPU of this number. One whose elements do not lie side by side from a
    /// multiple of 256 bytes on is copied by PyTorch first.
    pub fn of(value: &Bound<'_, PyAny>, gpu: i32) -> PyResult<Option<GpuTensor>> {
        let Some(exchange) = torch(value)?.and_then(|torch| torch.exchange) else {
            return Ok(None);
        };
        let Some(view) = view(exchange, value)? else {
            return Ok(None);
        };
        if view.device.device_type != CUDA || view.device.device_id != gpu {
            return Ok(None);
        }
        match GpuTensor::described(value, &view, exchange)? {
            Some(tensor) => Ok(Some(tensor)),
            None => {
                let py = value.py();
                let settings = PyDict::new(py);
                let format = py
                    .import("torch")?
                    .getattr(intern!(py, "contiguous_format"))?;
                settings.set_item("memory_format", format)?;
                let plain = value.call_method0(intern!(py, "detach"))?.call_method(
                    intern!(py, "clone"),
                    (),
                    Some(&settings),
                )?;
                let Some(view) = self::view(exchange, &plain)? else {
                    return Ok(None);
                };
                GpuTensor::described(&plain, &view, exchange)
            }
        }
    }

    fn described(
        value: &Bound<'_, PyAny>,
        view: &DLTensor,
        exchange: &'static Exchange,
    ) -> PyResult<Option<GpuTensor>> {
        let py = value.py();
        let dtype = view.dtype.dtype().ok_or_else(|| {
            let name = value.getattr("dtype").map(|dtype| dtype.to_string());
            let name = name.unwrap_or_default();
            invalid(
                py,
                format!("a tensor of {name} is not supported: give numbers or booleans"),
            )
        })?;
        let rank = usize::try_from(view.ndim).unwrap_or(0);
        // SAFETY: PyTorch describes its tensor, which is alive: there are as many sizes and strides as axes.
        let (shape, strides) = unsafe { (numbers(view.shape, rank), numbers(view.strides, rank)) };
        let shape: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
        let mut next = 1;
        let is_dense = strides.is_empty()
            || (shape.iter().zip(strides).rev()).all(|(&size, &stride)| {
                let is_next = size == 1 || stride == next;
                next *= size as i64;
                is_next
            });
        let address = view.data as usize + view.byte_offset as usize;
        let is_empty = shape.contains(&0);
        if !is_empty && (!is_dense || !address.is_multiple_of(ALIGNMENT)) {
            return Ok(None);
        }
        Ok(Some(GpuTensor {
            object: value.clone().unbind(),
            address,
            dtype,
            shape,
            exchange,
        }))
    }

    /// A new one of PyTorch's, beside `self`, whose values are arbitrary.
    pub fn beside(&self, py: Python<'_>, dtype: DType, shape: &[usize]) -> PyResult<GpuTensor> {
        let shape = PyTuple::new(py, shape)?;
        let new_empty = intern!(py, "new_empty");
        let object = self.object.bind(py);
        let made = if dtype == self.dtype {
            object.call_method1(new_empty, (shape,))?
        } else {
            let settings = PyDict::new(py);
            settings.set_item("dtype", py.import("torch")?.getattr(dtype_name(dtype))?)?;
            object.call_method(new_empty, (shape,), Some(&settings))?
        };
        let view = view(self.exchange, &made)?;
        let made = match view {
            Some(view) => GpuTensor::described(&made, &view, self.exchange)?,
            None => None,
        };
        made.ok_or_else(|| invalid(py, "PyTorch gave memory that is not aligned to 256 bytes"))
    }

    /// PyTorch's own object.
    pub fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    fn span(&self) -> Span {
        Span {
            handle: self.address as u64,
            offset: 0,
            bytes: self.shape.iter().product::<usize>() * self.dtype.size(),
        }
    }

    /// Its memory in `pool`.
    pub fn lend(&self, pool: &Pool) -> streampool::Result<Buffer> {
        let span = self.span();
        if span.bytes == 0 {
            return Ok(pool.current()?.allocate(0)?);
        }
        // SAFETY: it is memory of this GPU, aligned, and stays allocated as `self.object` lives; what PyTorch does with it later
        // comes after the run, as `run_on` orders it.
        Ok(unsafe { pool.lend(span) }?)
    }

    /// It as a tensor of `pool`.
    pub fn tensor(&self, pool: &Pool) -> streampool::Result<Tensor> {
        let layout = Layout::contiguous(&self.shape).map_err(streampool::runtime::Error::from)?;
        let buffer = self.lend(pool)?;
        Ok(Tensor::from_buffer(pool, buffer, self.dtype, layout)?)
    }

    /// Whether it is of this type and shape.
    pub fn is(&self, dtype: DType, shape: &[usize]) -> bool {
        self.dtype == dtype && self.shape == shape
    }
}

fn view(exchange: &Exchange, value: &Bound<'_, PyAny>) -> PyResult<Option<DLTensor>> {
    let Some(view) = exchange.view else {
        return Ok(None);
    };
    let mut tensor = std::mem::MaybeUninit::<DLTensor>::zeroed();
    // SAFETY: the value is a tensor of PyTorch's, whose function this is; it writes one structure, or fails and sets an error.
    match unsafe { view(value.as_ptr(), tensor.as_mut_ptr()) } {
        // SAFETY: it was written, and is made of numbers and addresses.
        0 => Ok(Some(unsafe { tensor.assume_init() })),
        _ => Err(PyErr::fetch(value.py())),
    }
}

/// # Safety
/// `first` is null or the first of `count` numbers, which live as long as the result is used.
unsafe fn numbers<'a>(first: *const i64, count: usize) -> &'a [i64] {
    match first.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(first, count) },
    }
}

/// Runs a model between what PyTorch's current stream was given so far and what it is given from now on. `outputs` gives memory for
/// outputs of these types and shapes.
pub fn run_on_current_stream(
    session: &streampool::Session,
    inputs: &[(&str, Source<'_>)],
    first: &GpuTensor,
    gpu: i32,
    outputs: &mut Memory<'_>,
) -> streampool::Result<()> {
    let pool = session.pool();
    let mut stream = std::ptr::null_mut();
    // SAFETY: it writes one handle.
    let found = unsafe { (first.exchange.current_stream)(CUDA, gpu, &mut stream) };
    if found != 0 {
        let got = "PyTorch did not tell its current stream".to_owned();
        let error = streampool::device::Error::Invalid {
            what: "a stream of the driver",
            got,
            expected: "the handle of one".to_owned(),
        };
        return Err(streampool::runtime::Error::from(error).into());
    }
    let tensors = inputs.iter().map(|(_, source)| match source {
        Source::Gpu(tensor) => tensor.tensor(pool).map(Some),
        Source::Host(_) => Ok(None),
    });
    let tensors = tensors.collect::<streampool::Result<Vec<_>>>()?;
    let given = inputs.iter().zip(&tensors).map(|((name, source), tensor)| {
        let input = match (source, tensor) {
            (Source::Host(array), _) => streampool::Input::from(*array),
            (Source::Gpu(_), Some(tensor)) => streampool::Input::from(tensor),
            (Source::Gpu(_), None) => unreachable!("a tensor was made of each"),
        };
        (*name, input)
    });
    let mut outputs = |kinds: &[(DType, &[usize])]| {
        outputs(kinds).ok_or_else(|| streampool::model::Error::from(no_memory()))
    };
    // SAFETY: the stream is PyTorch's current one, and PyTorch's streams live as long as the process. Inputs and outputs are
    // tensors of PyTorch's: who uses them elsewhere orders that with its current stream, as for its own operators.
    Ok(unsafe { session.run_on(stream as usize as u64, given, &mut outputs) }?)
}

fn no_memory() -> streampool::runtime::Error {
    streampool::runtime::Error::from(streampool::device::Error::Invalid {
        what: "the memory of an output",
        got: "none".to_owned(),
        expected: "a tensor of PyTorch".to_owned(),
    })
}

/// Weights on the GPU of this number as tensors of `pool`, its pool. PyTorch has their memory back when nothing there needs it any
/// more.
pub fn shared(
    py: Python<'_>,
    weights: Vec<(String, GpuTensor)>,
    gpu: i32,
    pool: &Pool,
) -> PyResult<Vec<(String, Tensor)>> {
    if weights.is_empty() {
        return Ok(Vec::new());
    }
    let stream = py.import("torch")?.getattr("cuda")?;
    let stream = stream.call_method1("current_stream", (gpu,))?;
    stream.call_method0("synchronize")?;
    let shared = weights.into_iter().map(|(name, weight)| {
        let (span, dtype) = (weight.span(), weight.dtype);
        let layout = Layout::contiguous(&weight.shape).map_err(streampool::runtime::Error::from)?;
        let buffer = match span.bytes {
            0 => pool.current()?.allocate(0)?,
            // SAFETY: it is memory of this GPU, aligned, and stays allocated until the release lets go of the tensor. What
            // PyTorch's current stream was given to fill it is over. That nobody writes it from then on, or resizes its storage, is
            // what callers of `Session` promise.
            _ => unsafe { pool.adopt(span, move || drop(weight.object)) }?,
        };
        Ok((name, Tensor::from_buffer(pool, buffer, dtype, layout)?))
    });
    let shared: streampool::Result<Vec<_>> = shared.collect();
    shared.map_err(|error| raise(py, error))
}

/// Gives memory for outputs of these types and shapes.
pub type Memory<'m> = dyn FnMut(&[(DType, &[usize])]) -> Option<Vec<Buffer>> + Send + 'm;

/// Where the values of an input are.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// On the host.
    Host(&'a streampool::Array),
    /// On the GPU.
    Gpu(&'a GpuTensor),
}
