//! Casts between the lanes.

use std::marker::PhantomData;

use super::lane::Lane;
use super::machine::{Call1, Entry, Isa};
use super::number::Truth;
use crate::kernels::simd::Machine;

/// The cast to `T`.
pub(super) struct To<T>(PhantomData<T>);

pub(super) trait CastTo<T>: Copy {
    fn cast(self) -> T;
}

impl<S: CastTo<T>, T: Copy> Call1<S> for To<T> {
    type Output = T;

    #[inline(always)]
    fn call<M: Machine>(x: S) -> T {
        x.cast()
    }
}

macro_rules! casts {
    ($($from:ident -> $($to:ident)*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*)*};
}

casts! {
    f32 -> f32 f64 i32 u32 i64 u64;
    f64 -> f32 f64 i32 u32 i64 u64;
    i8 -> f32 f64 u8 u16 u32 u64;
    u8 -> f32 f64 u8 u16 u32 u64;
    i16 -> f32 f64 u8 u16 u32 u64;
    u16 -> f32 f64 u8 u16 u32 u64;
    i32 -> f32 f64 u8 u16 u32 u64;
    u32 -> f32 f64 u8 u16 u32 u64;
    i64 -> f32 f64 u8 u16 u32 u64;
    u64 -> f32 f64 u8 u16 u32 u64;
}

/// Casts of floats to integers that an `i32` has: as `as`, but by instructions that there are for vectors.
macro_rules! short_casts {
    ($($from:ident -> $($to:ident)*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                const LEAST: $from = $to::MIN as $from;
                const MOST: $from = $to::MAX as $from;
                let number = if self.is_nan() { 0.0 } else { self };
                let number = if number > LEAST { number } else { LEAST };
                let number = if number < MOST { number } else { MOST };
                // SAFETY: it is a number between bounds that an `i32` has.
                unsafe { number.to_int_unchecked::<i32>() as $to }
            }
        }
    )*)*};
}

short_casts! {
    f32 -> i8 u8 i16 u16;
    f64 -> i8 u8 i16 u16;
}

macro_rules! truth_casts {
    ($($number:ident = $zero:literal;)*) => {$(
        impl CastTo<Truth> for $number {
            #[inline(always)]
            fn cast(self) -> Truth {
                Truth::of(self != $zero)
            }
        }
    )*};
}

truth_casts! {
    f32 = 0.0;
    f64 = 0.0;
    i8 = 0;
    u8 = 0;
    i16 = 0;
    u16 = 0;
    i32 = 0;
    u32 = 0;
    i64 = 0;
    u64 = 0;
}

macro_rules! casts_of_truth {
    ($($number:ident)*) => {$(
        impl CastTo<$number> for Truth {
            #[inline(always)]
            fn cast(self) -> $number {
                u8::from(self.get()) as $number
            }
        }
    )*};
}

casts_of_truth! { f32 f64 u8 u16 u32 u64 }

impl CastTo<Truth> for Truth {
    #[inline(always)]
    fn cast(self) -> Truth {
        Truth::of(self.get())
    }
}

/// What everything is cast to: a cast of an integer to a signed one is one to the unsigned one of its size.
pub(super) trait CastToShared:
    CastTo<f32> + CastTo<f64> + CastTo<u8> + CastTo<u16> + CastTo<u32> + CastTo<u64> + CastTo<Truth>
{
}

impl<S> CastToShared for S where
    S: CastTo<f32>
        + CastTo<f64>
        + CastTo<u8>
        + CastTo<u16>
        + CastTo<u32>
        + CastTo<u64>
        + CastTo<Truth>
{
}

/// The loop of a cast from `S`, save to signed integers.
pub(super) fn cast<I: Isa, S: CastToShared>(to: Lane) -> Option<Entry> {
    match to {
        Lane::F32 => Some(I::one::<S, To<f32>>()),
        Lane::F64 => Some(I::one::<S, To<f64>>()),
        Lane::U8 => Some(I::one::<S, To<u8>>()),
        Lane::U16 => Some(I::one::<S, To<u16>>()),
        Lane::U32 => Some(I::one::<S, To<u32>>()),
        Lane::U64 => Some(I::one::<S, To<u64>>()),
        Lane::Bool => Some(I::one::<S, To<Truth>>()),
        Lane::I8 | Lane::I16 | Lane::I32 | Lane::I64 => None,
    }
}

/// The loop of a cast from the float `S`, which saturates at the bounds of the very type.
pub(super) fn cast_float<I, S>(to: Lane) -> Option<Entry>
where
    I: Isa,
    S: CastToShared + CastTo<i8> + CastTo<i16> + CastTo<i32> + CastTo<i64>,
{
    match to {
        Lane::I8 => Some(I::one::<S, To<i8>>()),
        Lane::I16 => Some(I::one::<S, To<i16>>()),
        Lane::I32 => Some(I::one::<S, To<i32>>()),
        Lane::I64 => Some(I::one::<S, To<i64>>()),
        _ => cast::<I, S>(to),
    }
}
