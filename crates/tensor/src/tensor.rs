//! The tensor: memory that is shared, what its elements are, and how they lie in it.

#![expect(unsafe_code, reason = "vouches that a tensor's memory stays the same")]

use std::sync::Arc;

use streampool_device::{DType, Layout};
use streampool_runtime::{Buffer, HoldsBuffer, Operand, Pool};

use crate::{Error, Result, axis};

/// A value on a device: elements of one type in up to eight axes.
///
/// It never changes. Clones and views share its memory, which goes back to the pool with the last of them.
/// Any thread may use it on any stream at any time; the order of the work on the device follows by itself.
#[derive(Clone)]
pub struct Tensor {
    storage: Arc<Storage>,
    dtype: DType,
    layout: Layout,
}

/// Memory that tensors share.
struct Storage {
    buffer: Buffer,
    pool: Pool,
    pool_id: u64,
    /// Whether others read the memory, too.
    is_lent: bool,
}

impl Storage {
    fn tensor(self, dtype: DType, layout: Layout) -> Tensor {
        Tensor {
            storage: Arc::new(self),
            dtype,
            layout,
        }
    }
}

impl Tensor {
    /// The elements of type `dtype` that `layout` names in `buffer`, which is the pool of number `pool_id`'s.
    #[inline]
    pub(crate) fn over(
        pool: &Pool,
        pool_id: u64,
        buffer: Buffer,
        dtype: DType,
        layout: Layout,
    ) -> Tensor {
        let storage = Storage {
            buffer,
            pool: pool.clone(),
            pool_id,
            is_lent: false,
        };
        storage.tensor(dtype, layout)
    }

    /// As [`from_buffer`](Self::from_buffer), of memory that others read meanwhile: nobody [gets it](Self::into_buffer) from here
    /// to write it.
    pub fn lent(pool: &Pool, buffer: Buffer, dtype: DType, layout: Layout) -> Result<Tensor> {
        buffer.read_as(dtype, layout)?;
        let storage = Storage {
            pool_id: pool.current()?.pool_id(),
            buffer,
            pool: pool.clone(),
            is_lent: true,
        };
        Ok(storage.tensor(dtype, layout))
    }

    /// The elements of type `dtype` that `layout` names in `buffer`, a buffer of `pool`. They have to lie
    /// inside it. What was encoded to fill it need not be complete.
    pub fn from_buffer(
        pool: &Pool,
        buffer: Buffer,
        dtype: DType,
        layout: Layout,
    ) -> Result<Tensor> {
        buffer.read_as(dtype, layout)?;
        let pool_id = pool.current()?.pool_id();
        Ok(Tensor::over(pool, pool_id, buffer, dtype, layout))
    }

    /// The memory it lies in, shared with its clones and views.
    pub fn buffer(&self) -> &Buffer {
        &self.storage.buffer
    }

    /// It as an op reads it.
    #[inline]
    pub fn operand(&self) -> Result<Operand<'_>> {
        self.operand_as(self.layout)
    }

    /// Other elements of its memory, as an op reads them.
    #[inline]
    pub fn operand_as(&self, layout: Layout) -> Result<Operand<'_>> {
        Ok(self.storage.buffer.read_as(self.dtype, layout)?)
    }

    /// The memory it lies in, if no clone, view or array shares it; else it itself.
    pub fn into_buffer(self) -> Result<Buffer, Box<Tensor>> {
        let Tensor {
            storage,
            dtype,
            layout,
        } = self;
        let shared = |storage| {
            Box::new(Tensor {
                storage,
                dtype,
                layout,
            })
        };
        match storage.is_lent {
            true => Err(shared(storage)),
            false => (Arc::try_unwrap(storage).map(|storage| storage.buffer)).map_err(shared),
        }
    }

    /// The pool it is in.
    pub fn pool(&self) -> &Pool {
        &self.storage.pool
    }

    /// The number of the pool it is in, unique in this process.
    #[inline]
    pub(crate) fn pool_id(&self) -> u64 {
        self.storage.pool_id
    }

    /// The name of the device it is on.
    pub fn device(&self) -> &str {
        &self.pool().device().properties().name
    }

    /// What its elements are.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How its elements lie in memory.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The size of each axis.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The size of one axis; a negative one counts from the end.
    pub fn dim(&self, axis: isize) -> Result<usize> {
        Ok(self.shape()[self.axis("size", axis)?])
    }

    /// The number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// How many elements it has.
    #[inline]
    pub fn elem_count(&self) -> usize {
        self.layout.elements()
    }

    /// Whether its elements lie row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// The axis that `axis`, the argument of that name of `op`, means.
    #[inline]
    pub(crate) fn axis(&self, op: &'static str, axis: isize) -> Result<usize> {
        axis::resolve(op, "axis", axis, self.rank())
    }

    /// The bits of its elements as those of another type of the same size, without a copy. Only truth values have
    /// the bits of truth values.
    pub fn bit_cast(&self, dtype: DType) -> Result<Tensor> {
        let other_size = dtype.size() != self.dtype.size();
        if other_size || (dtype == DType::Bool && self.dtype != DType::Bool) {
            let expected = format!("one of {} bytes, not bool", self.dtype.size());
            return Err(Error::dtype("bit_cast", "dtype", dtype, expected));
        }
        Ok(Tensor {
            dtype,
            ..self.clone()
        })
    }

    /// The same memory, seen otherwise.
    #[inline]
    pub(crate) fn with_layout(&self, layout: Layout) -> Tensor {
        Tensor {
            storage: self.storage.clone(),
            dtype: self.dtype,
            layout,
        }
    }
}

// SAFETY: a tensor never changes its memory.
unsafe impl HoldsBuffer for Tensor {
    fn held(&self) -> &Buffer {
        self.buffer()
    }
}
