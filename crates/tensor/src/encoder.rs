//! How operators are written: outputs in the making, and ops on the current stream.

use streampool_device::{DType, Element, Layout, Op};
use streampool_runtime::{Buffer, Operand, Pool, Stream};

use crate::{Error, Result, Tensor, shape};

/// The current stream of the calling thread, for one operator to encode on.
///
/// ```
/// use streampool_runtime::Op;
/// use streampool_tensor::{Result, Tensor};
///
/// fn softmax(x: &Tensor, axis: usize) -> Result<Tensor> {
///     let on = x.encoder("softmax")?;
///     let mut y = on.blank(x.dtype(), x.shape())?;
///     on.encode(Op::Softmax { src: x.operand()?, dst: y.operand()?, axis, log: false })?;
///     Ok(y.finish())
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Encoder<'p> {
    op: &'static str,
    pool: &'p Pool,
    stream: &'p Stream,
}

impl Tensor {
    /// The current stream of this tensor's pool, for the operator `op`.
    #[inline]
    pub fn encoder(&self, op: &'static str) -> Result<Encoder<'_>> {
        Encoder::new(op, self.pool())
    }
}

impl<'p> Encoder<'p> {
    /// The current stream of `pool`, for the operator `op`.
    #[inline]
    pub fn new(op: &'static str, pool: &'p Pool) -> Result<Encoder<'p>> {
        let stream = pool.current()?;
        Ok(Encoder { op, pool, stream })
    }

    /// Checks that further tensors, none, one or more, are in the same pool.
    #[inline]
    pub fn with<'t>(
        self,
        argument: &'static str,
        tensors: impl IntoIterator<Item = &'t Tensor>,
    ) -> Result<Encoder<'p>> {
        for tensor in tensors {
            if tensor.pool_id() != self.stream.pool_id() {
                return Err(self.elsewhere(argument, tensor));
            }
        }
        Ok(self)
    }

    #[cold]
    fn elsewhere(&self, argument: &'static str, tensor: &Tensor) -> Error {
        Error::OtherPool {
            op: self.op,
            argument,
            got: tensor.device().to_owned(),
            expected: self.pool.device().properties().name.clone(),
        }
    }

    /// The operator's name, for errors.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The pool.
    pub fn pool(&self) -> &'p Pool {
        self.pool
    }

    /// The stream.
    pub fn stream(&self) -> &'p Stream {
        self.stream
    }

    /// Memory for a result. An op has to write all of it.
    #[inline]
    pub fn blank(&self, dtype: DType, shape: &[usize]) -> Result<UninitTensor<'p>> {
        let layout = shape::contiguous(self.op, shape)?;
        self.blank_of(dtype, layout)
    }

    #[inline]
    fn blank_of(&self, dtype: DType, layout: Layout) -> Result<UninitTensor<'p>> {
        let Some(bytes) = layout.elements().checked_mul(dtype.size()) else {
            let expected = format!("at most {} bytes", isize::MAX);
            return Err(Error::shape(self.op, "shape", layout.shape(), expected));
        };
        Ok(UninitTensor {
            buffer: self.stream.allocate(bytes)?,
            pool: self.pool,
            pool_id: self.stream.pool_id(),
            dtype,
            layout,
        })
    }

    /// Encodes an op. What a device refuses of it, the error says of the operator.
    #[inline]
    pub fn encode(&self, op: Op<Operand<'_>>) -> Result<()> {
        match self.stream.encode(op) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.refused(error)),
        }
    }

    #[cold]
    fn refused(&self, error: streampool_runtime::Error) -> Error {
        let device_error = match error {
            streampool_runtime::Error::Device(device_error) => device_error,
            other => return other.into(),
        };
        match device_error {
            streampool_device::Error::InvalidOp {
                argument,
                got,
                expected,
                ..
            } => Error::Parameter {
                op: self.op,
                argument: match argument {
                    // A result is made here: where it is wrong, what it is made of is.
                    "src" | "a" | "query" | "dst" => "self",
                    other => other,
                },
                got,
                expected,
            },
            other => other.into(),
        }
    }

    /// A tensor of these values, which are taken before this returns.
    pub fn upload<T: Element>(&self, values: &[T], shape: &[usize]) -> Result<Tensor> {
        let layout = shape::contiguous(self.op, shape)?;
        if values.len() != layout.elements() {
            let expected = format!("one of {} elements, as many as values", values.len());
            return Err(Error::shape(self.op, "shape", shape, expected));
        }
        let mut blank = self.blank_of(T::DTYPE, layout)?;
        self.stream.upload(&mut blank.buffer, values)?;
        Ok(blank.finish())
    }

    /// A tensor of elements of type `dtype` whose bytes, in the order of this machine, are `bytes`.
    pub fn upload_bytes(&self, dtype: DType, bytes: &[u8], shape: &[usize]) -> Result<Tensor> {
        let mut blank = self.blank(dtype, shape)?;
        if bytes.len() != blank.buffer.bytes() {
            return Err(Error::parameter(
                self.op,
                "bytes",
                format_args!("{} bytes", bytes.len()),
                format_args!("{} for {shape:?} of {dtype}", blank.buffer.bytes()),
            ));
        }
        if dtype == DType::Bool
            && let Some(byte) = bytes.iter().find(|&&byte| byte > 1)
        {
            return Err(Error::parameter(
                self.op,
                "bytes",
                format_args!("byte {byte} for a bool"),
                "0 or 1",
            ));
        }
        self.stream.upload(&mut blank.buffer, bytes)?;
        Ok(blank.finish())
    }
}

/// A tensor in the making: memory of its own that ops write.
pub struct UninitTensor<'p> {
    pool: &'p Pool,
    pool_id: u64,
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

impl UninitTensor<'_> {
    /// All of it, as an op writes it.
    #[inline]
    pub fn operand(&mut self) -> Result<Operand<'_>> {
        self.operand_as(self.layout)
    }

    /// Some of its elements, or all in another order or shape, as an op writes them.
    #[inline]
    pub fn operand_as(&mut self, layout: Layout) -> Result<Operand<'_>> {
        Ok(self.buffer.write_as(self.dtype, layout)?)
    }

    /// How its elements lie in memory: row-major, from the start.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tensor. Everything that writes it has been encoded.
    #[inline]
    pub fn finish(self) -> Tensor {
        Tensor::over(
            self.pool,
            self.pool_id,
            self.buffer,
            self.dtype,
            self.layout,
        )
    }

    /// The tensor under another shape of as many elements, such as one without the axes that were reduced.
    pub fn finish_as(self, shape: &[usize]) -> Result<Tensor> {
        let tensor = self.finish();
        tensor.view(shape)
    }
}
