//! Tensors of other libraries.

use streampool_device::{DType, DeviceKind, Layout, MAX_RANK, Span};
use streampool_runtime::Pool;

use super::abi::{DLDevice, DLTensor, Managed, VERSION};
use crate::room::room;
use crate::{Error, Result, Tensor};

const OP: &str = "from_dlpack";

/// What adopted memory is aligned to.
const ALIGNMENT: usize = 256;

/// The tensor of another library, whose deleter is called when this is dropped.
struct Foreign<M: Managed>(*mut M);

impl<M: Managed> Drop for Foreign<M> {
    fn drop(&mut self) {
        // SAFETY: whoever imported it promised a valid pointer, and that nobody else calls the deleter.
        unsafe {
            if let Some(deleter) = (*self.0).deleter() {
                deleter(self.0);
            }
        }
    }
}

// SAFETY: whoever imported it promised that the deleter may be called on any thread.
unsafe impl<M: Managed> Send for Foreign<M> {}
// SAFETY: nothing of it is reached through a shared reference.
unsafe impl<M: Managed> Sync for Foreign<M> {}

/// What a foreign tensor says of itself, checked.
#[derive(Clone, Copy)]
struct Described {
    dtype: DType,
    device: DLDevice,
    /// The address of the first element in memory, which is the lowest, not that of index 0.
    lowest: usize,
    /// Bytes from there to the end of the last.
    reach: usize,
    /// How the elements lie from `lowest` on.
    layout: Layout,
}

impl Tensor {
    /// The tensor of another library, in `pool`.
    ///
    /// Memory of the pool's own device is used where it is, and its deleter called when neither a tensor nor work on
    /// the device needs it any more; on the host, only if it is aligned to 256 bytes. Other memory of the
    /// host is copied, and its deleter called before this returns, as it is when this fails. Memory of another GPU
    /// is refused. Truth values are copied, whatever non-zero bytes stand for them.
    ///
    /// # Safety
    /// - `managed` is what DLPack says it is: a valid structure that describes memory that is there until the deleter
    ///   is called. This call takes it over: nobody else calls the deleter.
    /// - The deleter may be called on any thread.
    /// - The work that fills the memory is complete, and nobody writes it until the deleter is called.
    pub unsafe fn from_dlpack<M: Managed>(pool: &Pool, managed: *mut M) -> Result<Tensor> {
        if managed.is_null() {
            return Err(refused("managed", "null", "a tensor"));
        }
        let foreign = Foreign(managed);
        // SAFETY: the caller vouches for the structure.
        let managed = unsafe { &*managed };
        if let Some(version) = managed.version()
            && version.major != VERSION.major
        {
            let got = format!("{}.{}", version.major, version.minor);
            return Err(refused(
                "version",
                got,
                "1, of which the structure is known",
            ));
        }
        // SAFETY: the caller vouches for the structure.
        let described = unsafe { Described::of(managed.tensor()) }?;
        // Any byte but zero is true elsewhere; a `bool` here is 0 or 1.
        let stored = match described.dtype {
            DType::Bool => DType::U8,
            other => other,
        };
        let tensor = if described.layout.elements() == 0 {
            Tensor::from_bytes(pool, stored, &[], described.layout.shape())?
        } else if let Some((base, layout)) = described.in_place(pool) {
            let span = Span {
                handle: base as u64,
                offset: 0,
                bytes: described.lowest - base + described.reach,
            };
            // SAFETY: the caller vouches that the memory is there and not written until the deleter is called,
            // which the release does; `in_place` found it on this device and aligned.
            let buffer = unsafe { pool.adopt(span, move || drop(foreign)) }?;
            Tensor::from_buffer(pool, buffer, stored, layout)?
        } else if described.device.is_host() {
            // SAFETY: the caller vouches for the memory, and `foreign` keeps it until after this.
            let bytes = unsafe { described.gather() }?;
            Tensor::from_bytes(pool, stored, &bytes, described.layout.shape())?
        } else {
            return Err(Error::OtherPool {
                op: OP,
                argument: "managed",
                got: format!("DLPack device {:?}", described.device),
                expected: pool.device().properties().name.clone(),
            });
        };
        match described.dtype == stored {
            true => Ok(tensor),
            false => tensor.to_dtype(described.dtype),
        }
    }
}

impl Described {
    /// Checks what `tensor` says.
    ///
    /// # Safety
    /// `shape` and `strides` of `tensor` are null or hold as many numbers as it has axes.
    unsafe fn of(tensor: &DLTensor) -> Result<Described> {
        let rank = usize::try_from(tensor.ndim)
            .ok()
            .filter(|&rank| rank <= MAX_RANK)
            .ok_or_else(|| refused("ndim", tensor.ndim, format_args!("0 to {MAX_RANK}")))?;
        let Some(dtype) = tensor.dtype.dtype() else {
            let got = format!("{:?}", tensor.dtype);
            return Err(refused(
                "dtype",
                got,
                "a float, an integer or bool of one lane",
            ));
        };
        // SAFETY: the caller's promise.
        let shape = unsafe { numbers(tensor.shape, rank) };
        // SAFETY: the caller's promise.
        let strides = unsafe { numbers(tensor.strides, rank) };
        let shape = match (shape, rank) {
            (Some(shape), _) => shape,
            (None, 0) => &[],
            (None, _) => return Err(refused("shape", "null", format_args!("{rank} sizes"))),
        };
        let sizes: Vec<usize> = shape
            .iter()
            .map(|&size| usize::try_from(size))
            .collect::<Result<_, _>>()
            .map_err(|_| refused("shape", format_args!("{shape:?}"), "sizes of at least 0"))?;
        let from_zero = match strides {
            None => Layout::contiguous(&sizes)?,
            Some(strides) => {
                let strides: Vec<isize> = strides.iter().map(|&stride| stride as isize).collect();
                // From far enough up that a stride may go down.
                Layout::strided(&sizes, &strides, 0)?
            }
        };
        let (first, last) = from_zero.extent().unwrap_or((0, -1));
        let size = dtype.size();
        let located = (first.checked_mul(size as isize))
            .zip((last - first + 1).unsigned_abs().checked_mul(size))
            .and_then(|(down, reach)| {
                let zero = (tensor.data as usize).checked_add(tensor.byte_offset as usize)?;
                let lowest = zero.checked_add_signed(down)?;
                lowest.checked_add(reach)?;
                Some((lowest, reach))
            });
        let Some((lowest, reach)) = located else {
            let got = format!("{from_zero} at {:?}", tensor.data);
            return Err(refused("strides", got, "elements inside the address space"));
        };
        let has_elements = from_zero.elements() > 0;
        if has_elements && (tensor.data.is_null() || !lowest.is_multiple_of(size)) {
            let got = format!("{:?} and {} bytes", tensor.data, tensor.byte_offset);
            return Err(refused(
                "data",
                got,
                format_args!("an address aligned for {dtype}"),
            ));
        }
        Ok(Described {
            dtype,
            device: tensor.device,
            lowest,
            reach,
            layout: Layout::strided(&sizes, from_zero.strides(), first.unsigned_abs())?,
        })
    }

    /// Where the memory begins and how the elements lie from there, if the device of `pool` can use it as it is.
    fn in_place(&self, pool: &Pool) -> Option<(usize, Layout)> {
        if DLDevice::of(pool) != Some(self.device) {
            return None;
        }
        // What the driver of a GPU hands out begins at such a place, so what is before belongs to the same memory;
        // on the host it may be anybody's.
        let base = self.lowest - self.lowest % ALIGNMENT;
        if base != self.lowest && pool.device().properties().kind == DeviceKind::Host {
            return None;
        }
        let skipped = (self.lowest - base) / self.dtype.size();
        let offset = self.layout.offset() + skipped;
        let layout = Layout::strided(self.layout.shape(), self.layout.strides(), offset).ok()?;
        Some((base, layout))
    }

    /// The bytes of the elements, row-major.
    ///
    /// # Safety
    /// The host can read the memory, and nobody writes it meanwhile.
    unsafe fn gather(&self) -> Result<Vec<u8>> {
        // SAFETY: the caller's promise: all that the layout names is there, and all between is one allocation.
        let memory = unsafe { std::slice::from_raw_parts(self.lowest as *const u8, self.reach) };
        let size = self.dtype.size();
        let mut bytes = room(self.layout.elements() * size)?;
        if self.layout.is_contiguous() {
            bytes.extend_from_slice(memory);
            return Ok(bytes);
        }
        let mut index = [0; MAX_RANK];
        for _ in 0..self.layout.elements() {
            let at = self.element(&index) * size;
            bytes.extend_from_slice(&memory[at..at + size]);
            for axis in (0..self.layout.rank()).rev() {
                index[axis] += 1;
                if index[axis] < self.layout.shape()[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        Ok(bytes)
    }

    fn element(&self, index: &[usize; MAX_RANK]) -> usize {
        let strides = self.layout.strides().iter().zip(index);
        let away: isize = strides.map(|(&stride, &at)| stride * at as isize).sum();
        self.layout.offset().wrapping_add_signed(away)
    }
}

/// # Safety
/// `first` is null or the first of `count` numbers.
unsafe fn numbers<'a>(first: *const i64, count: usize) -> Option<&'a [i64]> {
    // SAFETY: the caller's promise.
    (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, count) })
}

fn refused(argument: &'static str, got: impl ToString, expected: impl ToString) -> Error {
    Error::parameter(OP, argument, got, expected)
}
