//! Values out of tensors, other types, and other devices.

use std::any::Any;

use half::{bf16, f16};
use streampool_device::{DType, DeviceKind, Element, Op, Slots};
use streampool_runtime::Pool;

use crate::room::{collected, filled};
use crate::{Encoder, Error, Result, Tensor};

impl Tensor {
    /// Its values, row-major, after waiting for them. The type has to be its own: [`to_dtype`](Self::to_dtype)
    /// converts.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect::<T>("to_vec")?;
        self.download()
    }

    /// Copies its values, row-major, to `values`, which has to be as long, after waiting for them.
    pub fn copy_to_slice<T: Element>(&self, values: &mut [T]) -> Result<()> {
        let op = "copy_to_slice";
        self.expect::<T>(op)?;
        if values.len() != self.elem_count() {
            return Err(Error::parameter(
                op,
                "values",
                format_args!("a slice of {}", values.len()),
                format_args!("{} elements, as in {:?}", self.elem_count(), self.shape()),
            ));
        }
        values.copy_from_slice(&self.download()?);
        Ok(())
    }

    /// The value of a tensor of one element, after waiting for it.
    pub fn item<T: Element>(&self) -> Result<T> {
        self.expect::<T>("item")?;
        match self.download()?[..] {
            [value] => Ok(value),
            _ => Err(Error::shape("item", "self", self.shape(), "one element")),
        }
    }

    /// The bytes of its values, row-major, in the order of this machine, after waiting for them.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let dense = self.row_major()?;
        let mut bytes = filled(0u8, dense.elem_count() * dense.dtype().size())?;
        let stream = dense.pool().current()?;
        stream.download_into(dense.buffer(), &mut bytes)?;
        Ok(bytes)
    }

    /// Its values in another type: floats to integers truncate and saturate, NaN becomes 0; to `bool` asks whether
    /// it is not zero; integers to narrower ones wrap. In its own type it is itself.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        let on = self.encoder("to_dtype")?;
        let mut cast = on.blank(dtype, self.shape())?;
        on.encode(Op::Copy {
            src: self.operand()?,
            dst: cast.operand()?,
        })?;
        Ok(cast.finish())
    }

    /// Its values in another pool, by way of the host. In its own pool it is itself.
    pub fn to(&self, pool: &Pool) -> Result<Tensor> {
        let on = Encoder::new("to", pool)?;
        if on.stream().pool_id() == self.pool_id() {
            return Ok(self.clone());
        }
        on.upload_bytes(self.dtype(), &self.to_bytes()?, self.shape())
    }

    /// Waits until it is computed; fails with the fault if that failed.
    pub fn synchronize(&self) -> Result<()> {
        // A download of nothing is ordered after what writes the memory, as any other is.
        let nothing: &mut [u8] = &mut [];
        Ok(self
            .pool()
            .current()?
            .download_into(self.buffer(), nothing)?)
    }

    /// Its values row-major from the start of its memory, where programs begin: itself, or a copy.
    pub fn dense(&self) -> Result<Tensor> {
        let (kind, span) = (self.pool().device().properties().kind, self.buffer().span());
        // The host may have been lent memory that begins between two places where slots do.
        let begin = (span.handle as usize).wrapping_add(span.offset);
        match kind != DeviceKind::Host || begin.is_multiple_of(Slots::HOST_ALIGNMENT) {
            true => self.row_major(),
            false => self.copied("read"),
        }
    }

    /// Its values row-major from the start of its memory, where downloads begin: itself, or a copy.
    fn row_major(&self) -> Result<Tensor> {
        if self.layout().offset() == 0 && self.is_contiguous() {
            return Ok(self.clone());
        }
        self.copied("read")
    }

    fn expect<T: Element>(&self, op: &'static str) -> Result<()> {
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        let expected = format!(
            "{}, the type asked for: convert it with `to_dtype`",
            T::DTYPE
        );
        Err(Error::dtype(op, "self", self.dtype(), expected))
    }

    fn download<T: Element>(&self) -> Result<Vec<T>> {
        // The types of which all bytes are values are downloaded in place.
        macro_rules! in_place {
            ($($plain:ty),*) => {
                match T::DTYPE {
                    $(<$plain as Element>::DTYPE => Box::new(self.download_plain::<$plain>()?) as Box<dyn Any>,)*
                    _ => Box::new(self.download_checked::<T>()?),
                }
            };
        }
        let values = in_place!(f32, f16, bf16, f64, i8, i16, i32, i64, u8, u16, u32, u64);
        match values.downcast::<Vec<T>>() {
            Ok(values) => Ok(*values),
            Err(_) => unreachable!("an element type has one Rust type"),
        }
    }

    fn download_plain<T: Element + bytemuck::AnyBitPattern>(&self) -> Result<Vec<T>> {
        let dense = self.row_major()?;
        let mut values = filled(T::zeroed(), dense.elem_count())?;
        let stream = dense.pool().current()?;
        stream.download_into(dense.buffer(), &mut values)?;
        Ok(values)
    }

    fn download_checked<T: Element>(&self) -> Result<Vec<T>> {
        let not_of_type =
            |error: bytemuck::checked::CheckedCastError| streampool_runtime::Error::NotOfType {
                dtype: T::DTYPE,
                why: error.to_string(),
            };
        let bytes = self.to_bytes()?;
        let values = bytes.chunks_exact(T::DTYPE.size()).map(|value| {
            let value = bytemuck::checked::try_pod_read_unaligned(value);
            value.map_err(|error| Error::Runtime(not_of_type(error)))
        });
        collected(values)
    }
}
