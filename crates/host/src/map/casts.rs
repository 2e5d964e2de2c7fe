//! Casts between the lanes.

use std::marker::PhantomData;

use super::lane::Lane;
use super::machine::{Call1, Entry, Isa, Machine};
use super::number::Truth;

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
    f32 -> f32 f64 i8 u8 i32 i64;
    f64 -> f32 f64 i8 u8 i32 i64;
    i8 -> f32 f64 i8 u8 i32 i64;
    u8 -> f32 f64 i8 u8 i32 i64;
    i32 -> f32 f64 i8 u8 i32 i64;
    i64 -> f32 f64 i8 u8 i32 i64;
}

macro_rules! truth_casts {
    ($($number:ident = $zero:literal;)*) => {$(
        impl CastTo<Truth> for $number {
            #[inline(always)]
            fn cast(self) -> Truth {
                Truth::of(self != $zero)
            }
        }

        impl CastTo<$number> for Truth {
            #[inline(always)]
            fn cast(self) -> $number {
                u8::from(self.get()) as $number
            }
        }
    )*};
}

truth_casts! {
    f32 = 0.0;
    f64 = 0.0;
    i8 = 0;
    u8 = 0;
    i32 = 0;
    i64 = 0;
}

impl CastTo<Truth> for Truth {
    #[inline(always)]
    fn cast(self) -> Truth {
        Truth::of(self.get())
    }
}

/// The loop of a cast from `S`.
pub(super) fn cast<I, S>(to: Lane) -> Entry
where
    I: Isa,
    S: CastTo<f32>
        + CastTo<f64>
        + CastTo<i8>
        + CastTo<u8>
        + CastTo<i32>
        + CastTo<i64>
        + CastTo<Truth>,
{
    match to {
        Lane::F32 => I::one::<S, To<f32>>(),
        Lane::F64 => I::one::<S, To<f64>>(),
        Lane::I8 => I::one::<S, To<i8>>(),
        Lane::U8 => I::one::<S, To<u8>>(),
        Lane::I32 => I::one::<S, To<i32>>(),
        Lane::I64 => I::one::<S, To<i64>>(),
        Lane::Bool => I::one::<S, To<Truth>>(),
    }
}
