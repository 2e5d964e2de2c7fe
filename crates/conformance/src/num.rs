//! One element as the reference computes with it: an `f64` or an `i64`, whatever its type on the device.

use half::{bf16, f16};
use streampool_device::DType;

use crate::halves::{nearest_bf16, nearest_f16};

/// The value of an element; a truth value is the integer 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Num {
    Float(f64),
    Int(i64),
}

impl Num {
    pub(crate) fn float(self) -> f64 {
        match self {
            Num::Float(value) => value,
            Num::Int(value) => value as f64,
        }
    }

    pub(crate) fn int(self) -> i64 {
        match self {
            Num::Float(value) => value as i64,
            Num::Int(value) => value,
        }
    }

    pub(crate) fn is_true(self) -> bool {
        match self {
            Num::Float(value) => value != 0.0,
            Num::Int(value) => value != 0,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Num::Float(value) if value.is_nan())
    }

    /// The value an element of `dtype` takes when this is cast to it.
    pub(crate) fn cast(self, dtype: DType) -> Num {
        match (dtype, self) {
            (DType::Bool, _) => Num::Int(i64::from(self.is_true())),
            (_, Num::Float(value)) if dtype.is_integer() => Num::Int(saturated(dtype, value)),
            (_, Num::Int(value)) if dtype.is_integer() => Num::Int(wrapped(dtype, value)),
            // Straight from the integer, so that it rounds once.
            (DType::F32, Num::Int(value)) => Num::Float(f64::from(value as f32)),
            _ => Num::Float(rounded(dtype, self.float())),
        }
    }

    pub(crate) fn load(bytes: &[u8], dtype: DType) -> Num {
        let mut wide = [0u8; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match dtype {
            DType::F32 => Num::Float(f64::from(f32::from_bits(bits as u32))),
            DType::F16 => Num::Float(f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Num::Float(bf16::from_bits(bits as u16).to_f64()),
            DType::F64 => Num::Float(f64::from_bits(bits)),
            DType::I8 => Num::Int(i64::from(bits as i8)),
            DType::U8 | DType::Bool => Num::Int(i64::from(bits as u8)),
            DType::I32 => Num::Int(i64::from(bits as i32)),
            DType::I64 => Num::Int(bits as i64),
        }
    }

    /// Writes the value, cast to `dtype`, to `bytes`.
    pub(crate) fn store(self, dtype: DType, bytes: &mut [u8]) {
        let value = self.cast(dtype);
        let bits = match dtype {
            DType::F32 => u64::from((value.float() as f32).to_bits()),
            DType::F16 => u64::from(nearest_f16(value.float()).to_bits()),
            DType::BF16 => u64::from(nearest_bf16(value.float()).to_bits()),
            DType::F64 => value.float().to_bits(),
            _ => value.int() as u64,
        };
        bytes.copy_from_slice(&bits.to_le_bytes()[..bytes.len()]);
    }
}

/// The nearest value of a float type.
pub(crate) fn rounded(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 => nearest_f16(value).to_f64(),
        DType::BF16 => nearest_bf16(value).to_f64(),
        _ => value,
    }
}

/// An integer modulo the width of its type.
pub(crate) fn wrapped(dtype: DType, value: i64) -> i64 {
    match dtype {
        DType::I8 => i64::from(value as i8),
        DType::U8 => i64::from(value as u8),
        DType::I32 => i64::from(value as i32),
        _ => value,
    }
}

fn saturated(dtype: DType, value: f64) -> i64 {
    match dtype {
        DType::I8 => i64::from(value as i8),
        DType::U8 => i64::from(value as u8),
        DType::I32 => i64::from(value as i32),
        _ => value as i64,
    }
}

/// How far an element of a type may be from the true value, as a part of the magnitudes it came from.
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-13,
        DType::F32 => 32.0 * f64::from(f32::EPSILON),
        DType::F16 => 2.0 * f16::EPSILON.to_f64(),
        DType::BF16 => 2.0 * bf16::EPSILON.to_f64(),
        _ => 0.0,
    }
}

/// The smallest difference a float type tells from zero, give or take flushed subnormals.
pub(crate) fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::MIN_POSITIVE.to_f64(),
        DType::F32 | DType::BF16 => f64::from(f32::MIN_POSITIVE),
        DType::F64 => f64::MIN_POSITIVE,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_follow_the_contract() {
        let cases = [
            (Num::Float(-1.9), DType::I8, -1),
            (Num::Float(300.0), DType::I8, 127),
            (Num::Float(-3.0), DType::U8, 0),
            (Num::Float(f64::NAN), DType::I64, 0),
            (Num::Int(300), DType::U8, 44),
            (Num::Int(-1), DType::U8, 255),
            (Num::Int(128), DType::I8, -128),
            (Num::Int(256), DType::Bool, 1),
            (Num::Float(f64::NAN), DType::Bool, 1),
        ];
        for (from, dtype, to) in cases {
            assert_eq!(from.cast(dtype), Num::Int(to), "{from:?} to {dtype}");
        }
        assert_eq!(
            Num::Float(0.1).cast(DType::F32),
            Num::Float(f64::from(0.1f32))
        );
    }

    #[test]
    fn stored_values_load_again() {
        for dtype in DType::ALL {
            let mut bytes = vec![0; dtype.size()];
            Num::Int(1).store(dtype, &mut bytes);
            assert_eq!(Num::load(&bytes, dtype).float(), 1.0);
        }
    }
}
