//! Constants as bits of the type that they are used with.

use half::{bf16, f16};
use streampool_device::{DType, Scalar};

/// The bits of an element of `dtype` that holds `value`, in the low bytes.
pub(crate) fn stored(value: Scalar, dtype: DType) -> u64 {
    match dtype {
        DType::F16 => u64::from(f16::from_f32_const(cut_to_odd(value.to_f64())).to_bits()),
        DType::BF16 => u64::from(bf16::from_f32_const(cut_to_odd(value.to_f64())).to_bits()),
        _ => computed(value, dtype),
    }
}

/// The bits of `value` in the type that elements of `dtype` are computed in.
pub(super) fn computed(value: Scalar, dtype: DType) -> u64 {
    macro_rules! integer {
        ($int:ty, $bits:ty) => {
            match value {
                Scalar::Float(value) => u64::from(value as $int as $bits),
                other => u64::from(other.to_i64() as $bits),
            }
        };
    }
    let single = |value: f32| u64::from(value.to_bits());
    match dtype {
        DType::F32 => single(value.to_f64() as f32),
        DType::F16 => single(f16::from_f32_const(cut_to_odd(value.to_f64())).to_f32_const()),
        DType::BF16 => single(bf16::from_f32_const(cut_to_odd(value.to_f64())).to_f32_const()),
        DType::F64 => value.to_f64().to_bits(),
        DType::I8 => integer!(i8, u8),
        DType::U8 => integer!(u8, u8),
        DType::I16 => integer!(i16, u16),
        DType::U16 => integer!(u16, u16),
        DType::I32 => integer!(i32, u32),
        DType::U32 => integer!(u32, u32),
        DType::I64 => integer!(i64, u64),
        DType::U64 => integer!(u64, u64),
        DType::Bool => u64::from(value.to_bool()),
    }
}

/// `value` cut to the length of an `f32`, the last bit set where that lost anything: it lies on the same
/// side of every tie between two halves.
fn cut_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if !near.is_finite() || f64::from(near) == value {
        return near;
    }
    let too_far = u32::from(f64::from(near).abs() > value.abs());
    f32::from_bits((near.to_bits() - too_far) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_convert_as_casts_do() {
        assert_eq!(stored(Scalar::Float(-1.9), DType::I8), 0xff);
        assert_eq!(stored(Scalar::Float(300.0), DType::U8), 255);
        assert_eq!(stored(Scalar::Int(300), DType::U8), 44);
        assert_eq!(stored(Scalar::Float(f64::NAN), DType::I32), 0);
        assert_eq!(stored(Scalar::Float(f64::NAN), DType::Bool), 1);
        assert_eq!(stored(Scalar::Int(i64::MIN), DType::I64), 1 << 63);
        assert_eq!(stored(Scalar::Int(-1), DType::U64), u64::MAX);
        assert_eq!(stored(Scalar::Int(-1), DType::I16), 0xffff);
        assert_eq!(stored(Scalar::Float(1e19), DType::U64), 10u64.pow(19));
        assert_eq!(stored(Scalar::Float(-1.0), DType::U32), 0);
        assert_eq!(
            stored(Scalar::Bool(true), DType::F32),
            u64::from(1f32.to_bits())
        );
    }

    #[test]
    fn halves_round_once() {
        let above_a_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(stored(Scalar::Float(above_a_tie), DType::F16), 0x3c01);
        assert_eq!(
            stored(Scalar::Float(1.0 + 2f64.powi(-11)), DType::F16),
            0x3c00
        );
        assert_eq!(stored(Scalar::Float(1e300), DType::BF16), 0x7f80);
        assert_eq!(
            computed(Scalar::Float(0.1), DType::BF16),
            u64::from(bf16::from_f32(0.1).to_f32().to_bits())
        );
    }
}
