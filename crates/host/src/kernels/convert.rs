//! Element types in memory, and conversions between them that vectorise.

use half::{bf16, f16};
use streampool_device::{DType, Scalar};

/// A truth value in memory: any byte may lie there, so it is not a `bool`.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Truth(pub(crate) u8);

impl Truth {
    #[inline(always)]
    pub(crate) fn new(value: bool) -> Self {
        Truth(u8::from(value))
    }

    #[inline(always)]
    pub(crate) fn get(self) -> bool {
        self.0 != 0
    }
}

/// An element as it lies in memory; any bits are a value of it.
pub(crate) trait Native: Copy + Send + Sync + 'static {
    /// The unsigned type of an integer's size; of any other type itself.
    type Bits: Native;
    /// The nearest value; integers saturate, and NaN is zero.
    fn of_float(value: f64) -> Self;
    /// The nearest value; integers wrap.
    fn of_int(value: i64) -> Self;
    /// The nearest value.
    fn to_f64(self) -> f64;

    /// The constant in this type.
    fn from_scalar(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Float(value) => Self::of_float(value),
            Scalar::Int(value) => Self::of_int(value),
            Scalar::Bool(value) => Self::of_int(i64::from(value)),
        }
    }
}

/// A float type, and the type it is computed in.
pub(crate) trait Float: Native {
    /// `f32` for the short floats.
    type Wide: super::smooth::Smooth + Native;
    /// The value in the type it is computed in.
    fn widen(self) -> Self::Wide;
    /// The nearest value, ties to even.
    fn narrow(wide: Self::Wide) -> Self;
}

/// `$body` with `$name` standing for the type that is listed for `$dtype`, or what is said of any other.
macro_rules! with_types {
    ($dtype:expr, $name:ident => $body:expr,
     { $($variant:ident = $type:ty),* } $(, $other:ident => $otherwise:expr)?) => {
        match $dtype {
            $(streampool_device::DType::$variant => {
                type $name = $type;
                $body
            })*
            $($other => $otherwise,)?
        }
    };
}
pub(crate) use with_types;

/// `$body` with `$name` standing for the element type of `$dtype`.
macro_rules! with_native {
    ($dtype:expr, $name:ident => $body:expr) => {
        $crate::kernels::convert::with_types!($dtype, $name => $body, {
            F32 = f32, F16 = half::f16, BF16 = half::bf16, F64 = f64,
            I8 = i8, U8 = u8, I16 = i16, U16 = u16, I32 = i32, U32 = u32, I64 = i64, U64 = u64,
            Bool = $crate::kernels::convert::Truth
        })
    };
}
pub(crate) use with_native;

/// `$body` with `$name` standing for the float type of `$dtype`; an error for any other.
macro_rules! with_float {
    ($dtype:expr, $name:ident => $body:expr) => {
        $crate::kernels::convert::with_types!($dtype, $name => $body, {
            F32 = f32, F16 = half::f16, BF16 = half::bf16, F64 = f64
        }, other => Err($crate::kernels::convert::not_a_float(other)))
    };
}
pub(crate) use with_float;

/// What is said of an op that should not have passed validation.
#[cold]
pub(crate) fn not_a_float(dtype: DType) -> String {
    format!("elements of type {dtype} reached a kernel that takes floats only")
}

/// The value of a half-precision float.
#[inline(always)]
pub(crate) fn f16_to_f32(value: f16) -> f32 {
    let bits = u32::from(value.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    // The exponent moves from bias 15 to 127 by a multiplication, which also normalises subnormals.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let rescaled = if magnitude >= 0x0f80_0000 {
        special
    } else {
        scaled
    };
    f32::from_bits(rescaled | (bits & 0x8000) << 16)
}

/// The nearest half-precision float, ties to even.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> f16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    // Adding a half leaves the value in units of the smallest subnormal, rounded by the adder.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let bounded = if magnitude >= 0x4780_0000 {
        0x7c00
    } else {
        finite
    };
    let result = if magnitude > 0x7f80_0000 {
        0x7e00
    } else {
        bounded
    };
    f16::from_bits((result | bits >> 16 & 0x8000) as u16)
}

/// The value of a brain float.
#[inline(always)]
pub(crate) fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// The nearest brain float, ties to even.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    let result = if bits & 0x7fff_ffff > 0x7f80_0000 {
        quiet
    } else {
        rounded
    };
    bf16::from_bits(result as u16)
}

/// The value cut to `f32` with its last bit set if anything was lost, so that rounding it once more rounds
/// as if from the whole value.
#[inline(always)]
pub(crate) fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    let away = back.abs() > value.abs();
    let cut = if away { bits - 1 } else { bits };
    let lost = back != value && !value.is_nan();
    f32::from_bits(if lost { cut | 1 } else { bits })
}

/// The value in 53 bits, the last set if anything was lost.
#[inline(always)]
pub(crate) fn to_odd_f64(value: i64) -> f64 {
    let fits = value.unsigned_abs() < 1 << 53;
    let sticky = value & !0x7ff | i64::from(value & 0x7ff != 0) << 11;
    (if fits { value } else { sticky }) as f64
}

macro_rules! natives {
    ($($type:ty: $bits:ty, |$float:ident| $of_float:expr, |$int:ident| $of_int:expr, |$self:ident| $to_float:expr;)*) => {$(
        impl Native for $type {
            type Bits = $bits;

            #[inline(always)]
            fn of_float($float: f64) -> Self {
                $of_float
            }

            #[inline(always)]
            fn of_int($int: i64) -> Self {
                $of_int
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                let $self = self;
                $to_float
            }
        }
    )*};
}

natives! {
    f32: f32, |x| x as f32, |x| x as f32, |x| f64::from(x);
    f16: f16, |x| f32_to_f16(to_odd(x)), |x| f32_to_f16(to_odd(to_odd_f64(x))), |x| f64::from(f16_to_f32(x));
    bf16: bf16, |x| f32_to_bf16(to_odd(x)), |x| f32_to_bf16(to_odd(to_odd_f64(x))), |x| f64::from(bf16_to_f32(x));
    f64: f64, |x| x, |x| x as f64, |x| x;
    i8: u8, |x| x as i8, |x| x as i8, |x| f64::from(x);
    u8: u8, |x| x as u8, |x| x as u8, |x| f64::from(x);
    i16: u16, |x| x as i16, |x| x as i16, |x| f64::from(x);
    u16: u16, |x| x as u16, |x| x as u16, |x| f64::from(x);
    i32: u32, |x| x as i32, |x| x as i32, |x| f64::from(x);
    u32: u32, |x| x as u32, |x| x as u32, |x| f64::from(x);
    i64: u64, |x| x as i64, |x| x, |x| x as f64;
    u64: u64, |x| x as u64, |x| x as u64, |x| x as f64;
    Truth: Truth, |x| Truth::new(x != 0.0), |x| Truth::new(x != 0), |x| f64::from(u8::from(x.get()));
}

impl Float for f32 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(wide: f32) -> f32 {
        wide
    }
}

impl Float for f64 {
    type Wide = f64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(wide: f64) -> f64 {
        wide
    }
}

impl Float for f16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        f16_to_f32(self)
    }
    #[inline(always)]
    fn narrow(wide: f32) -> f16 {
        f32_to_f16(wide)
    }
}

impl Float for bf16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        bf16_to_f32(self)
    }
    #[inline(always)]
    fn narrow(wide: f32) -> bf16 {
        f32_to_bf16(wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_converts_as_ieee_says() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let brain = bf16::from_bits(bits);
            let (wide, wide_brain) = (f16_to_f32(half), bf16_to_f32(brain));
            assert!(
                wide == half.to_f32_const() || wide.is_nan() && half.is_nan(),
                "{bits:#x}"
            );
            assert!(wide_brain == brain.to_f32_const() || wide_brain.is_nan() && brain.is_nan());
            assert!(
                f32_to_f16(wide).to_bits() == bits || half.is_nan() && f32_to_f16(wide).is_nan()
            );
            assert!(
                f32_to_bf16(wide_brain).to_bits() == bits
                    || brain.is_nan() && f32_to_bf16(wide_brain).is_nan()
            );
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        // A stride coprime to the bit patterns' structure visits all exponents and roundings.
        for bits in (0..=u32::MAX).step_by(65_521) {
            let value = f32::from_bits(bits);
            let (half, brain) = (f32_to_f16(value), f32_to_bf16(value));
            assert!(
                half == f16::from_f32_const(value) || half.is_nan() && value.is_nan(),
                "{bits:#x}"
            );
            assert!(
                brain == bf16::from_f32_const(value) || brain.is_nan() && value.is_nan(),
                "{bits:#x}"
            );
        }
        for (value, expected) in [
            (65519.0, 65504.0),
            (65520.0, f32::INFINITY),
            (2.0f32.powi(-25), 0.0),
        ] {
            assert_eq!(f16_to_f32(f32_to_f16(value)), expected);
        }
    }
}
