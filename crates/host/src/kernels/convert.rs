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
    /// The type whose bits a cast to `T` writes.
    type Written<T: Native>: Native;

    /// The constant in this type.
    fn from_scalar(scalar: Scalar) -> Self;
}

/// A conversion by the rules of [`Node::Cast`](streampool_device::Node::Cast).
pub(crate) trait CastTo<T>: Copy {
    /// The value in the other type.
    fn cast_to(self) -> T;
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
fn to_odd(value: f64) -> f32 {
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
fn to_odd_f64(value: i64) -> f64 {
    let fits = value.unsigned_abs() < 1 << 53;
    let sticky = value & !0x7ff | i64::from(value & 0x7ff != 0) << 11;
    (if fits { value } else { sticky }) as f64
}

/// As [`to_odd_f64`].
#[inline(always)]
fn unsigned_to_odd_f64(value: u64) -> f64 {
    let sticky = value & !0x7ff | u64::from(value & 0x7ff != 0) << 11;
    (if value < 1 << 53 { value } else { sticky }) as f64
}

/// For each type, the type whose bits a cast from it to a `T` writes: to integers of one size, integers and
/// truth values become the same bits, so that their casts are loops over unsigned ones only.
macro_rules! natives {
    ($($type:ty: $bits:ty, |$to:ident| $written:ty;)*) => {$(
        impl Native for $type {
            type Bits = $bits;
            type Written<$to: Native> = $written;

            #[inline(always)]
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::Float(value) => <f64 as CastTo<$type>>::cast_to(value),
                    Scalar::Int(value) => <i64 as CastTo<$type>>::cast_to(value),
                    Scalar::Bool(value) => <Truth as CastTo<$type>>::cast_to(Truth::new(value)),
                }
            }
        }
    )*};
}

natives! {
    f32: f32, |T| T;
    f16: f16, |T| T;
    bf16: bf16, |T| T;
    f64: f64, |T| T;
    i8: u8, |T| T::Bits;
    u8: u8, |T| T::Bits;
    i16: u16, |T| T::Bits;
    u16: u16, |T| T::Bits;
    i32: u32, |T| T::Bits;
    u32: u32, |T| T::Bits;
    i64: u64, |T| T::Bits;
    u64: u64, |T| T::Bits;
    Truth: Truth, |T| T::Bits;
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

/// Conversions that the language has.
macro_rules! casts {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast_to(self) -> $to {
                self as $to
            }
        }
    )*)*};
}

casts! {
    f32 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    f64 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    i8 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    u8 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    i16 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    u16 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    i32 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    u32 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    i64 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    u64 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
}

/// Conversions to halves by way of an `f32` that rounds as the value does, and to truth values.
macro_rules! casts_to_halves_and_truth {
    ($($from:ty, $zero:literal, $x:ident => $single:expr;)*) => {$(
        impl CastTo<f16> for $from {
            #[inline(always)]
            fn cast_to(self) -> f16 {
                let $x = self;
                f32_to_f16($single)
            }
        }

        impl CastTo<bf16> for $from {
            #[inline(always)]
            fn cast_to(self) -> bf16 {
                let $x = self;
                f32_to_bf16($single)
            }
        }

        impl CastTo<Truth> for $from {
            #[inline(always)]
            fn cast_to(self) -> Truth {
                Truth::new(self != $zero)
            }
        }
    )*};
}

casts_to_halves_and_truth! {
    f32, 0.0, x => x;
    f64, 0.0, x => to_odd(x);
    i8, 0, x => f32::from(x);
    u8, 0, x => f32::from(x);
    i16, 0, x => f32::from(x);
    u16, 0, x => f32::from(x);
    i32, 0, x => to_odd(f64::from(x));
    u32, 0, x => to_odd(f64::from(x));
    i64, 0, x => to_odd(to_odd_f64(x));
    u64, 0, x => to_odd(unsigned_to_odd_f64(x));
}

/// Conversions from a type by way of another that holds all its values.
macro_rules! casts_through {
    ($($from:ty, $x:ident => $through:expr, $wide:ty: $($to:ty),*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast_to(self) -> $to {
                let $x = self;
                <$wide as CastTo<$to>>::cast_to($through)
            }
        }
    )*)*};
}

casts_through! {
    f16, x => f16_to_f32(x), f32: f32, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, Truth;
    bf16, x => bf16_to_f32(x), f32: f32, f16, f64, i8, u8, i16, u16, i32, u32, i64, u64, Truth;
    Truth, x => u8::from(x.get()), u8: f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, Truth;
}

impl CastTo<f16> for f16 {
    #[inline(always)]
    fn cast_to(self) -> f16 {
        self
    }
}

impl CastTo<bf16> for bf16 {
    #[inline(always)]
    fn cast_to(self) -> bf16 {
        self
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

    #[test]
    fn wide_values_are_rounded_once() {
        let just_above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        let rounded: f16 = just_above_tie.cast_to();
        assert_eq!(rounded.to_f32_const(), 1.0 + 2f32.powi(-10));
        let tie: f16 = (1.0 + 2f64.powi(-11)).cast_to();
        assert_eq!(tie.to_f32_const(), 1.0);
        let negative: f16 = (-just_above_tie).cast_to();
        assert_eq!(negative.to_f32_const(), -1.0 - 2f32.powi(-10));
        let large: bf16 = ((1i64 << 62) + (1 << 54) + 1).cast_to();
        assert_eq!(large.to_f32_const(), 2f32.powi(62) + 2f32.powi(55));
        let unsigned: bf16 = ((1u64 << 63) + (1 << 55) + 1).cast_to();
        assert_eq!(unsigned.to_f32_const(), 2f32.powi(63) + 2f32.powi(56));
        let tie: bf16 = ((1u64 << 63) + (1 << 55)).cast_to();
        assert_eq!(tie.to_f32_const(), 2f32.powi(63));
        let huge: f16 = f64::MAX.cast_to();
        assert_eq!(huge, f16::INFINITY);
        let tiny: f16 = f64::MIN_POSITIVE.cast_to();
        assert_eq!(tiny.to_f32_const(), 0.0);
    }

    #[test]
    fn floats_saturate_and_integers_wrap() {
        assert_eq!(<f32 as CastTo<i8>>::cast_to(300.0), 127);
        assert_eq!(<f32 as CastTo<u8>>::cast_to(-3.0), 0);
        assert_eq!(<f64 as CastTo<i32>>::cast_to(f64::NAN), 0);
        assert_eq!(<i64 as CastTo<u8>>::cast_to(-1), 255);
        assert_eq!(<i32 as CastTo<i8>>::cast_to(200), -56);
        assert!(<f32 as CastTo<Truth>>::cast_to(f32::NAN).get());
        assert!(!<f32 as CastTo<Truth>>::cast_to(-0.0).get());
        assert_eq!(<Truth as CastTo<i32>>::cast_to(Truth(7)), 1);
        assert_eq!(<f32 as CastTo<u64>>::cast_to(-1.0), 0);
        assert_eq!(<f64 as CastTo<u64>>::cast_to(1e30), u64::MAX);
        assert_eq!(<i64 as CastTo<u64>>::cast_to(-1), u64::MAX);
        assert_eq!(<i16 as CastTo<u32>>::cast_to(-1), u32::MAX);
        assert_eq!(<u16 as CastTo<i8>>::cast_to(0x1ff), -1);
    }
}
