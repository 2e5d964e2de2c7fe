//! One element as the reference computes with it: an `f64` or an `i128`, whatever its type on the device.

use half::{bf16, f16};
use streampool_device::DType;

use crate::halves::{nearest_bf16, nearest_f16};

/// The value of an element; a truth value is the integer 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Num {
    Float(f64),
    Int(i128),
}

impl Num {
    /// The integer.
    pub(crate) fn whole(value: i64) -> Num {
        Num::Int(i128::from(value))
    }

    pub(crate) fn float(self) -> f64 {
        match self {
            Num::Float(value) => value,
            Num::Int(value) => value as f64,
        }
    }

    pub(crate) fn int(self) -> i128 {
        match self {
            Num::Float(value) => value as i128,
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
            (DType::Bool, _) => Num::Int(i128::from(self.is_true())),
            (_, Num::Float(value)) if dtype.is_integer() => Num::Int(saturated(dtype, value)),
            (_, Num::Int(value)) if dtype.is_integer() => Num::Int(wrapped(dtype, value)),
            // Straight from the integer, so that it rounds once.
            (DType::F32, Num::Int(value)) => Num::Float(f64::from(value as f32)),
            (DType::BF16, Num::Int(value)) if value.unsigned_abs() >> 53 != 0 => {
                // What a brain float cannot see of it becomes one bit, and then an `f64` holds it.
                let sticky = i128::from(value & 0xffff != 0) << 16;
                Num::Float(rounded(dtype, (value & !0xffff | sticky) as f64))
            }
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
            DType::Bool => Num::Int(i128::from(bits as u8)),
            whole => Num::Int(wrapped(whole, i128::from(bits))),
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

/// The value as an integer of type `dtype` as the language casts to it, as an `i128`.
macro_rules! as_integer {
    ($value:ident, $dtype:ident) => {
        match $dtype {
            DType::I8 => i128::from($value as i8),
            DType::U8 => i128::from($value as u8),
            DType::I16 => i128::from($value as i16),
            DType::U16 => i128::from($value as u16),
            DType::I32 => i128::from($value as i32),
            DType::U32 => i128::from($value as u32),
            DType::I64 => i128::from($value as i64),
            DType::U64 => i128::from($value as u64),
            _ => $value as i128,
        }
    };
}

/// An integer modulo the width of its type.
pub(crate) fn wrapped(dtype: DType, value: i128) -> i128 {
    as_integer!(value, dtype)
}

fn saturated(dtype: DType, value: f64) -> i128 {
    as_integer!(value, dtype)
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
            (Num::Float(-1.0), DType::U64, 0),
            (Num::Float(1e30), DType::U64, i128::from(u64::MAX)),
            (Num::Int(-1), DType::U64, i128::from(u64::MAX)),
            (Num::Int(-1), DType::U16, 65_535),
            (Num::Int(40_000), DType::I16, -25_536),
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
    fn long_integers_round_once() {
        let above_a_tie = Num::Int((1 << 63) + (1 << 55) + 1);
        let up = 2f64.powi(63) + 2f64.powi(56);
        assert_eq!(above_a_tie.cast(DType::BF16), Num::Float(up));
        let tie = Num::Int((1 << 63) + (1 << 55));
        assert_eq!(tie.cast(DType::BF16), Num::Float(2f64.powi(63)));
    }

    #[test]
    fn stored_values_load_again() {
        for dtype in DType::ALL {
            let mut bytes = vec![0; dtype.size()];
            Num::Int(1).store(dtype, &mut bytes);
            assert_eq!(Num::load(&bytes, dtype).float(), 1.0);
            if dtype.is_integer() {
                let most = Num::Float(1e30).cast(dtype);
                most.store(dtype, &mut bytes);
                assert_eq!(Num::load(&bytes, dtype), most);
            }
        }
    }
}
