//! Tensors as files hold them, and as devices do.

use streampool_tensor::{DType, Pool, Tensor};

use crate::error::Fault;
use crate::proto::TensorProto;

/// Values on the host, as their bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

/// The element type that a file means by this number.
pub fn dtype(element: i64) -> Result<DType, Fault> {
    Ok(match element {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::BF16,
        other => return Err(Fault::unsupported(format_args!("element type {other}"))),
    })
}

impl TensorProto {
    /// The values.
    pub fn array(&self) -> Result<Array, Fault> {
        let dtype = dtype(i64::from(self.element))?;
        let mut shape = Vec::with_capacity(self.sizes.len());
        for &size in &self.sizes {
            let size = usize::try_from(size).map_err(|_| {
                let what = format!("a size of tensor {:?}", self.name);
                Fault::malformed(what, size, "not negative")
            })?;
            shape.push(size);
        }
        let bytes = self.bytes(dtype);
        let elements = shape
            .iter()
            .try_fold(dtype.size(), |n, &size| n.checked_mul(size));
        if elements != Some(bytes.len()) {
            return Err(Fault::malformed(
                format_args!("the data of tensor {:?}", self.name),
                format_args!("{} bytes", bytes.len()),
                format_args!("enough for {shape:?} of {dtype}"),
            ));
        }
        Ok(Array {
            dtype,
            shape,
            bytes,
        })
    }

    /// The tensor.
    pub fn tensor(&self, pool: &Pool) -> Result<Tensor, Fault> {
        self.array()?.tensor(pool)
    }

    fn bytes(&self, dtype: DType) -> Vec<u8> {
        fn flat<T, const N: usize>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
            values.iter().flat_map(bytes).collect()
        }
        if !self.raw.is_empty() {
            return self.raw.clone();
        }
        match dtype {
            DType::F32 => flat(&self.floats, |value| value.to_ne_bytes()),
            DType::F64 => flat(&self.doubles, |value| value.to_ne_bytes()),
            DType::I64 => flat(&self.longs, |value| value.to_ne_bytes()),
            DType::U64 => flat(&self.unsigned, |value| value.to_ne_bytes()),
            DType::U32 => flat(&self.unsigned, |value| (*value as u32).to_ne_bytes()),
            DType::I32 => flat(&self.ints, |value| value.to_ne_bytes()),
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => {
                flat(&self.ints, |value| (*value as u16).to_ne_bytes())
            }
            DType::I8 | DType::U8 | DType::Bool => {
                flat(&self.ints, |value| (*value as u8).to_ne_bytes())
            }
        }
    }
}

impl Array {
    /// The values of a tensor, once they are computed.
    pub fn read(tensor: &Tensor) -> Result<Array, Fault> {
        Ok(Array {
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
            bytes: tensor.to_bytes()?,
        })
    }

    /// The tensor of these values.
    pub fn tensor(&self, pool: &Pool) -> Result<Tensor, Fault> {
        Ok(Tensor::from_bytes(
            pool,
            self.dtype,
            &self.bytes,
            &self.shape,
        )?)
    }

    /// The values as floats, if that is what they are.
    pub fn floats(&self) -> Option<Vec<f64>> {
        fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| value(*bytes))
                .collect()
        }
        let bytes = &self.bytes;
        Some(match self.dtype {
            DType::F32 => each(bytes, |bytes| f64::from(f32::from_ne_bytes(bytes))),
            DType::F64 => each(bytes, f64::from_ne_bytes),
            DType::F16 => each(bytes, |bytes| half::f16::from_ne_bytes(bytes).to_f64()),
            DType::BF16 => each(bytes, |bytes| half::bf16::from_ne_bytes(bytes).to_f64()),
            _ => return None,
        })
    }
}
