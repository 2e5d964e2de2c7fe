//! Rust's operators: `&a + &b`, `&a * 2.0`, `1.0 - &a`. Each gives what the method does, a `Result`.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use super::other::Other;
use crate::{Result, Tensor};

macro_rules! binary {
    ($($trait:ident $function:ident: $method:ident;)*) => {$(
        impl<'a, O: Into<Other<'a>>> $trait<O> for &Tensor {
            type Output = Result<Tensor>;

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            fn $function(self, other: O) -> Result<Tensor> {
                self.$method(other)
            }
        }
    )*};
}

binary! {
    Add add: add;
    Sub sub: sub;
    Mul mul: mul;
    Div div: div;
    Rem rem: rem;
    BitAnd bitand: bitwise_and;
    BitOr bitor: bitwise_or;
    BitXor bitxor: bitwise_xor;
    Shl shl: bitwise_left_shift;
    Shr shr: bitwise_right_shift;
}

macro_rules! number_first {
    ($($number:ident)*; $($trait:ident $function:ident: $method:ident;)*) => {
        number_first! { @each [$($number)*] $([$trait $function $method])* }
    };
    (@each [$($number:ident)*] $first:tt $($rest:tt)*) => {
        $(number_first! { @one $number $first })*
        number_first! { @each [$($number)*] $($rest)* }
    };
    (@each [$($number:ident)*]) => {};
    (@one $number:ident [$trait:ident $function:ident $method:ident]) => {
        impl $trait<&Tensor> for $number {
            type Output = Result<Tensor>;

            #[doc = concat!("As [`Tensor::", stringify!($method), "`] of the tensor and the number.")]
            fn $function(self, tensor: &Tensor) -> Result<Tensor> {
                tensor.$method(self)
            }
        }
    };
}

number_first! {
    f64 f32 i64 i32;
    Add add: add;
    Sub sub: rsub;
    Mul mul: mul;
    Div div: rdiv;
    Rem rem: rrem;
}

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    /// As [`Tensor::neg`].
    fn neg(self) -> Result<Tensor> {
        self.neg()
    }
}

impl Not for &Tensor {
    type Output = Result<Tensor>;

    /// As [`Tensor::bitwise_not`].
    fn not(self) -> Result<Tensor> {
        self.bitwise_not()
    }
}
