//! Values on the host.

mod memory;
mod rows;
mod strings;

use std::sync::Arc;

use smallvec::SmallVec;
use streampool_device::Slots;
use streampool_runtime::{DType, Element, Pool};

use crate::{Error, Result, Tensor};
use memory::Memory;
pub use memory::OwnMemory;

/// The size of each axis, in place if there are few.
type Shape = SmallVec<[usize; 4]>;

/// Values on the host: elements of one type in some axes, row-major. An array of strings holds the places of its elements in
/// a list of strings, as `i64`.
#[derive(Clone)]
pub struct Array {
    dtype: DType,
    shape: Shape,
    memory: Memory,
    /// How many of its bytes are elements.
    bytes: usize,
    /// What the elements are places in, where they stand for strings.
    list: Option<Arc<[String]>>,
}

impl Array {
    /// An array of as many bytes is lent to programs on the host, and they make such arrays where these stay.
    pub const LENT_FROM: usize = memory::LARGE;

    /// Memory that is lent to programs on the host begins at a multiple of this.
    pub const LENT_ALIGNMENT: usize = Slots::HOST_ALIGNMENT;

    /// These values under a shape of as many elements.
    pub fn new<T: Element>(values: &[T], shape: &[usize]) -> Result<Array> {
        Array::from_bytes(T::DTYPE, bytemuck::cast_slice(values), shape)
    }

    /// As [`new`](Self::new), of a list that is not needed any more.
    pub fn from_vec<T: Element>(values: Vec<T>, shape: &[usize]) -> Result<Array> {
        Array::new(&values, shape)
    }

    /// One value without axes.
    pub fn scalar<T: Element>(value: T) -> Array {
        let bytes = bytemuck::bytes_of(&value);
        let mut word = [0; size_of::<u64>()];
        word[..bytes.len()].copy_from_slice(bytes);
        Array {
            dtype: T::DTYPE,
            shape: Shape::new(),
            memory: Memory::Words(vec![u64::from_ne_bytes(word)]),
            bytes: bytes.len(),
            list: None,
        }
    }

    /// The elements whose bytes these are, in the order of this machine; a `bool` is the byte 0 or 1.
    pub fn from_bytes(dtype: DType, bytes: &[u8], shape: &[usize]) -> Result<Array> {
        let wanted = shape
            .iter()
            .try_fold(dtype.size(), |all, &size| all.checked_mul(size));
        if wanted != Some(bytes.len()) {
            return Err(Error::Array {
                got: format!("{} bytes", bytes.len()),
                expected: format!("as many as {shape:?} of {dtype} has"),
            });
        }
        if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err(Error::Array {
                got: "bytes above 1".to_owned(),
                expected: "0 or 1 for bool".to_owned(),
            });
        }
        Array::filled(dtype, Shape::from(shape), bytes)
    }

    /// As many bytes as the shape has.
    fn filled(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Array> {
        Ok(Array {
            dtype,
            shape,
            memory: Memory::copied(bytes)?,
            bytes: bytes.len(),
            list: None,
        })
    }

    /// Zeros. More than there is memory for are an error.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Array> {
        Array::made(dtype, shape, |_| ())
    }

    /// Zeros but for what `write` makes of their bytes.
    fn made(dtype: DType, shape: &[usize], write: impl FnOnce(&mut [u8])) -> Result<Array> {
        let mut sizes = shape.iter();
        let bytes = sizes.try_fold(dtype.size(), |all, &size| all.checked_mul(size));
        let memory = bytes.map(|bytes| Memory::made(bytes, write));
        let (Some(bytes), Some(Ok(memory))) = (bytes, memory) else {
            return Err(Error::Array {
                got: format!("{shape:?} of {dtype}"),
                expected: "as many elements as there is memory for".to_owned(),
            });
        };
        Ok(Array {
            dtype,
            shape: Shape::from(shape),
            memory,
            bytes,
            list: None,
        })
    }

    /// The values of a tensor, after waiting for them. On the host many of them stay where they are.
    pub fn of(tensor: &Tensor) -> Result<Array> {
        match Memory::of(tensor)? {
            Some(memory) => Ok(Array {
                dtype: tensor.dtype(),
                shape: Shape::from(tensor.shape()),
                bytes: memory.bytes().len(),
                memory,
                list: None,
            }),
            None => Array::from_bytes(tensor.dtype(), &tensor.to_bytes()?, tensor.shape()),
        }
    }

    /// The type of its elements; of strings that of their places.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.bytes]
    }

    /// Its values. The type has to be its own.
    pub fn values<T: Element>(&self) -> Result<&[T]> {
        let fits = T::DTYPE == self.dtype;
        let values = fits.then(|| bytemuck::checked::try_cast_slice(self.bytes()).ok());
        values.flatten().ok_or_else(|| Error::Array {
            got: self.dtype.to_string(),
            expected: format!("{}, the type asked for", T::DTYPE),
        })
    }

    /// Its memory, if that is as large as what is [lent](Self::LENT_FROM) and nothing else has it; else it itself.
    pub fn into_memory(self) -> Result<OwnMemory, Array> {
        OwnMemory::of(self.memory).map_err(|memory| Array { memory, ..self })
    }

    /// The tensor of these values; of strings that of their places. On the host many of them stay where they are.
    pub fn tensor(&self, pool: &Pool) -> Result<Tensor> {
        match self.memory.lent(pool, self.dtype, &self.shape)? {
            Some(tensor) => Ok(tensor),
            None => Tensor::from_bytes(pool, self.dtype, self.bytes(), &self.shape),
        }
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({} {:?})", self.kind(), self.shape)
    }
}
