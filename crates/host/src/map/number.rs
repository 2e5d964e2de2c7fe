//! What each function means for each element type.

use super::lane::Lane;
use super::{math32, math64};
use crate::kernels::simd::Machine;

/// A truth value in memory: zero or not.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Truth(pub(super) u8);

/// What every number can do.
pub(super) trait Number: Copy {
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn relu(self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
}

/// What integers and truth values can do.
pub(super) trait Bits: Copy {
    fn not(self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

/// What integers can do.
pub(super) trait Shift: Copy {
    fn shl(self, by: Self) -> Self;
    fn shr(self, by: Self) -> Self;
}

macro_rules! floats {
    ($($float:ident),*) => {$(
        impl Number for $float {
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn abs(self) -> Self {
                <$float>::abs(self)
            }
            #[inline(always)]
            fn sign(self) -> Self {
                // Zero and NaN are their own sign.
                if self == 0.0 || self != self { self } else { <$float>::copysign(1.0, self) }
            }
            #[inline(always)]
            fn relu(self) -> Self {
                if self <= 0.0 { 0.0 } else { self }
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                self % other
            }
            #[inline(always)]
            fn pow(self, other: Self) -> Self {
                self.powf(other)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let least = if self < other { self } else { other };
                if self != self { self } else { least }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let most = if self > other { self } else { other };
                if self != self { self } else { most }
            }
        }
    )*};
}

floats!(f32, f64);

macro_rules! integers {
    ($($int:ident: $abs:expr, $sign:expr, $negative:expr;)*) => {$(
        impl Number for $int {
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $abs(self)
            }
            #[inline(always)]
            fn sign(self) -> Self {
                $sign(self)
            }
            #[inline(always)]
            fn relu(self) -> Self {
                Ord::max(self, 0)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            fn pow(self, exponent: Self) -> Self {
                if $negative(exponent) {
                    // The inverse is exact for one and minus one only, and is the number itself.
                    let minus_one = (0 as $int).wrapping_sub(1);
                    return match self {
                        1 => 1,
                        _ if $negative(self) && self == minus_one => {
                            if exponent & 1 == 0 { 1 } else { self }
                        }
                        _ => 0,
                    };
                }
                let (mut result, mut square, mut left) = (1 as $int, self, exponent);
                while left != 0 {
                    if left & 1 != 0 {
                        result = result.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    left >>= 1;
                }
                result
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
        }

        impl Bits for $int {
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }

        impl Shift for $int {
            #[inline(always)]
            fn shl(self, by: Self) -> Self {
                self.wrapping_shl(by as u32)
            }
            #[inline(always)]
            fn shr(self, by: Self) -> Self {
                self.wrapping_shr(by as u32)
            }
        }
    )*};
}

integers! {
    i8: i8::wrapping_abs, i8::signum, i8::is_negative;
    i16: i16::wrapping_abs, i16::signum, i16::is_negative;
    i32: i32::wrapping_abs, i32::signum, i32::is_negative;
    i64: i64::wrapping_abs, i64::signum, i64::is_negative;
    u8: |x: u8| x, |x: u8| Ord::min(x, 1), |_: u8| false;
    u16: |x: u16| x, |x: u16| Ord::min(x, 1), |_: u16| false;
    u32: |x: u32| x, |x: u32| Ord::min(x, 1), |_: u32| false;
    u64: |x: u64| x, |x: u64| Ord::min(x, 1), |_: u64| false;
}

impl Truth {
    #[inline(always)]
    pub(super) fn get(self) -> bool {
        self.0 != 0
    }

    #[inline(always)]
    pub(super) fn of(value: bool) -> Truth {
        Truth(u8::from(value))
    }
}

impl Bits for Truth {
    #[inline(always)]
    fn not(self) -> Self {
        Truth::of(!self.get())
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Truth::of(self.get() & other.get())
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Truth::of(self.get() | other.get())
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Truth::of(self.get() ^ other.get())
    }
}

/// The functions of floats alone.
pub(super) trait Float: Number {
    /// Whether the straight-line code does not cover `sin`, `cos` and `tan` of it.
    fn far_round(self) -> bool;
    fn is_nan(self) -> bool;
    fn is_inf(self) -> bool;
    fn atan2(self, other: Self) -> Self;
    fn exact_sin(self) -> Self;
    fn exact_cos(self) -> Self;
    fn exact_tan(self) -> Self;
    fn exp<M: Machine>(self) -> Self;
    fn log<M: Machine>(self) -> Self;
    fn log1p<M: Machine>(self) -> Self;
    fn expm1<M: Machine>(self) -> Self;
    fn sqrt<M: Machine>(self) -> Self;
    fn rsqrt<M: Machine>(self) -> Self;
    fn recip<M: Machine>(self) -> Self;
    fn sin<M: Machine>(self) -> Self;
    fn cos<M: Machine>(self) -> Self;
    fn tan<M: Machine>(self) -> Self;
    fn asin<M: Machine>(self) -> Self;
    fn acos<M: Machine>(self) -> Self;
    fn atan<M: Machine>(self) -> Self;
    fn sinh<M: Machine>(self) -> Self;
    fn cosh<M: Machine>(self) -> Self;
    fn tanh<M: Machine>(self) -> Self;
    fn asinh<M: Machine>(self) -> Self;
    fn acosh<M: Machine>(self) -> Self;
    fn atanh<M: Machine>(self) -> Self;
    fn erf<M: Machine>(self) -> Self;
    fn sigmoid<M: Machine>(self) -> Self;
    fn silu<M: Machine>(self) -> Self;
    fn gelu<M: Machine>(self) -> Self;
    fn gelu_tanh<M: Machine>(self) -> Self;
    fn softplus<M: Machine>(self) -> Self;
    fn floor<M: Machine>(self) -> Self;
    fn ceil<M: Machine>(self) -> Self;
    fn round<M: Machine>(self) -> Self;
    fn trunc<M: Machine>(self) -> Self;
}

macro_rules! float_functions {
    ($float:ident, $limit:expr; $($name:ident = $function:expr;)*) => {
        impl Float for $float {
            #[inline(always)]
            fn far_round(self) -> bool {
                <$float>::abs(self) > $limit && <$float>::is_finite(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$float>::is_nan(self)
            }
            #[inline(always)]
            fn is_inf(self) -> bool {
                <$float>::is_infinite(self)
            }
            #[inline(always)]
            fn atan2(self, other: Self) -> Self {
                <$float>::atan2(self, other)
            }
            fn exact_sin(self) -> Self {
                <$float>::sin(self)
            }
            fn exact_cos(self) -> Self {
                <$float>::cos(self)
            }
            fn exact_tan(self) -> Self {
                <$float>::tan(self)
            }
            $(
                #[inline(always)]
                fn $name<M: Machine>(self) -> Self {
                    $function(self)
                }
            )*
        }
    };
}

float_functions! { f32, math32::CIRCLE_LIMIT;
    exp = math32::exp::<M>;
    log = math32::log::<M>;
    log1p = math32::log1p::<M>;
    expm1 = math32::expm1::<M>;
    sqrt = f32::sqrt;
    rsqrt = |x: f32| 1.0 / x.sqrt();
    recip = f32::recip;
    sin = math32::sin::<M>;
    cos = math32::cos::<M>;
    tan = math32::tan::<M>;
    asin = f32::asin;
    acos = f32::acos;
    atan = f32::atan;
    sinh = f32::sinh;
    cosh = f32::cosh;
    tanh = math32::tanh::<M>;
    asinh = math32::asinh::<M>;
    acosh = math32::acosh::<M>;
    atanh = math32::atanh::<M>;
    erf = math32::erf::<M>;
    sigmoid = math32::sigmoid::<M>;
    silu = math32::silu::<M>;
    gelu = math32::gelu::<M>;
    gelu_tanh = math32::gelu_tanh::<M>;
    softplus = math32::softplus::<M>;
    floor = f32::floor;
    ceil = f32::ceil;
    round = f32::round_ties_even;
    trunc = f32::trunc;
}

float_functions! { f64, f64::INFINITY;
    exp = f64::exp;
    log = f64::ln;
    log1p = f64::ln_1p;
    expm1 = f64::exp_m1;
    sqrt = f64::sqrt;
    rsqrt = |x: f64| 1.0 / x.sqrt();
    recip = f64::recip;
    sin = f64::sin;
    cos = f64::cos;
    tan = f64::tan;
    asin = f64::asin;
    acos = f64::acos;
    atan = f64::atan;
    sinh = f64::sinh;
    cosh = f64::cosh;
    tanh = f64::tanh;
    asinh = math64::asinh;
    acosh = math64::acosh;
    atanh = math64::atanh;
    erf = math64::erf;
    sigmoid = math64::sigmoid;
    silu = math64::silu;
    gelu = math64::gelu;
    gelu_tanh = math64::gelu_tanh;
    softplus = math64::softplus;
    floor = f64::floor;
    ceil = f64::ceil;
    round = f64::round_ties_even;
    trunc = f64::trunc;
}

/// A constant's bits as `lane`: as a cast from its own type would make it.
pub(super) fn constant(value: streampool_device::Scalar, lane: Lane) -> u64 {
    use streampool_device::Scalar;
    macro_rules! integer {
        ($int:ident) => {
            match value {
                Scalar::Float(value) => value as $int as u64,
                _ => value.to_i64() as $int as u64,
            }
        };
    }
    match lane {
        Lane::F32 => u64::from((value.to_f64() as f32).to_bits()),
        Lane::F64 => value.to_f64().to_bits(),
        Lane::I8 => integer!(i8),
        Lane::U8 => integer!(u8),
        Lane::I16 => integer!(i16),
        Lane::U16 => integer!(u16),
        Lane::I32 => integer!(i32),
        Lane::U32 => integer!(u32),
        Lane::I64 => integer!(i64),
        Lane::U64 => integer!(u64),
        Lane::Bool => u64::from(value.to_bool()),
    }
}
