//! Casts from each type to each, as copies make them.

use half::{bf16, f16};

use super::convert::{
    Native, Truth, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, to_odd, to_odd_f64,
};

/// A conversion by the rules of [`Node::Cast`](streampool_device::Node::Cast).
pub(super) trait CastTo<T>: Copy {
    /// The value in the other type.
    fn cast_to(self) -> T;
}

/// A type that copies read.
pub(super) trait Source: Native {
    /// The type whose bits a cast to `T` writes: to integers of one size, integers and truth values become the same bits, so
    /// that their casts are loops over unsigned ones only.
    type Written<T: Native>: Native;
}

macro_rules! sources {
    ($($type:ty, |$to:ident| $written:ty;)*) => {$(
        impl Source for $type {
            type Written<$to: Native> = $written;
        }
    )*};
}

sources! {
    f32, |T| T;
    f16, |T| T;
    bf16, |T| T;
    f64, |T| T;
    i8, |T| T::Bits;
    u8, |T| T::Bits;
    i16, |T| T::Bits;
    u16, |T| T::Bits;
    i32, |T| T::Bits;
    u32, |T| T::Bits;
    i64, |T| T::Bits;
    u64, |T| T::Bits;
    Truth, |T| T::Bits;
}

/// As [`to_odd_f64`].
#[inline(always)]
fn unsigned_to_odd_f64(value: u64) -> f64 {
    let sticky = value & !0x7ff | u64::from(value & 0x7ff != 0) << 11;
    (if value < 1 << 53 { value } else { sticky }) as f64
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
