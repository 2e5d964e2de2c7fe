//! Operands of tests: elements on the host, before a device has them.

use std::sync::Arc;

use half::{bf16, f16};
use streampool_device::{DType, Layout};

use crate::random::Random;

/// An operand and what it holds. Clones are the same memory: an op that reads one and writes the other works in
/// place.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// The type of an element.
    pub dtype: DType,
    pub(crate) layout: Layout,
    /// From the first byte of its memory to the last of its elements.
    pub(crate) bytes: Arc<Vec<u8>>,
}

impl Tensor {
    /// Row-major elements. Until they get values all their bytes are ones.
    pub fn new(dtype: DType, shape: &[usize]) -> Tensor {
        Tensor::laid_out(
            dtype,
            Layout::contiguous(shape).expect("the shape of a test is small"),
        )
    }

    /// Elements that lie as `layout` says. Until they get values all their bytes are ones.
    pub fn laid_out(dtype: DType, layout: Layout) -> Tensor {
        let elements = layout.extent().map_or(0, |(_, last)| last as usize + 1);
        Tensor {
            dtype,
            layout,
            bytes: Arc::new(vec![1; elements * dtype.size()]),
        }
    }

    /// All of its memory, as bytes.
    pub fn of_bytes(dtype: DType, layout: Layout, bytes: Vec<u8>) -> Tensor {
        Tensor {
            dtype,
            layout,
            bytes: Arc::new(bytes),
        }
    }

    /// With random values from -1.5 to 1.5, integers from -5 to 5, truth values of both kinds.
    pub fn random(self, seed: u64) -> Tensor {
        match self.dtype {
            DType::Bool => self.uniform(seed, 0.0, 2.0),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => self.uniform(seed, 0.0, 6.0),
            dtype if dtype.is_integer() => self.uniform(seed, -5.0, 6.0),
            _ => self.uniform(seed, -1.5, 1.5),
        }
    }

    /// With random values from `low` to just below `high`; those of integers are whole.
    pub fn uniform(self, seed: u64, low: f64, high: f64) -> Tensor {
        let mut random = Random::new(seed);
        let whole = !self.dtype.is_float();
        self.filled(|_| {
            let value = random.real(low, high);
            if whole { value.floor() } else { value }
        })
    }

    /// With these values, row-major, again from the first when they end.
    pub fn values(self, values: &[f64]) -> Tensor {
        self.filled(|index| values[index % values.len()])
    }

    fn filled(mut self, mut value: impl FnMut(usize) -> f64) -> Tensor {
        let size = self.dtype.size();
        let mut bytes = self.bytes.to_vec();
        each_element(&self.layout, |index, at| {
            store(self.dtype, value(index), &mut bytes[at * size..][..size]);
        });
        self.bytes = Arc::new(bytes);
        self
    }
}

/// Calls `f` with the number of each element, row-major, and with where it lies.
pub(crate) fn each_element(layout: &Layout, mut f: impl FnMut(usize, usize)) {
    for index in 0..layout.elements() {
        let mut rest = index;
        let mut at = layout.offset() as isize;
        for (&size, &stride) in layout.shape().iter().zip(layout.strides()).rev() {
            at += (rest % size) as isize * stride;
            rest /= size;
        }
        f(index, at as usize);
    }
}

fn store(dtype: DType, value: f64, to: &mut [u8]) {
    match dtype {
        DType::F64 => to.copy_from_slice(&value.to_ne_bytes()),
        DType::F32 => to.copy_from_slice(&(value as f32).to_ne_bytes()),
        DType::F16 => to.copy_from_slice(&f16::from_f64(value).to_ne_bytes()),
        DType::BF16 => to.copy_from_slice(&bf16::from_f64(value).to_ne_bytes()),
        DType::I8 => to.copy_from_slice(&(value as i8).to_ne_bytes()),
        DType::U8 => to.copy_from_slice(&(value as u8).to_ne_bytes()),
        DType::I16 => to.copy_from_slice(&(value as i16).to_ne_bytes()),
        DType::U16 => to.copy_from_slice(&(value as u16).to_ne_bytes()),
        DType::U32 => to.copy_from_slice(&(value as u32).to_ne_bytes()),
        DType::U64 => to.copy_from_slice(&(value as u64).to_ne_bytes()),
        DType::I32 => to.copy_from_slice(&(value as i32).to_ne_bytes()),
        DType::I64 => to.copy_from_slice(&(value as i64).to_ne_bytes()),
        DType::Bool => to[0] = u8::from(value != 0.0),
    }
}

/// The value of an element.
pub(crate) fn load(dtype: DType, from: &[u8]) -> f64 {
    let mut bytes = [0; 8];
    bytes[..from.len()].copy_from_slice(from);
    let bits = u64::from_le_bytes(bytes);
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F16 => f16::from_bits(bits as u16).into(),
        DType::BF16 => bf16::from_bits(bits as u16).into(),
        DType::I8 => (bits as i8).into(),
        DType::U8 | DType::Bool => (bits as u8).into(),
        DType::I16 => (bits as i16).into(),
        DType::U16 => (bits as u16).into(),
        DType::U32 => (bits as u32).into(),
        DType::U64 => bits as f64,
        DType::I32 => (bits as i32).into(),
        DType::I64 => bits as i64 as f64,
    }
}
