//! From an instruction to its loop.

use std::mem::MaybeUninit;

use streampool_device::{Binary, Compare, Unary};

use super::casts::{To, cast, cast_float};
use super::code::Code;
use super::half;
use super::lane::{Half, Lane};
#[cfg(target_arch = "x86_64")]
use super::machine::{Avx2, Avx512};
use super::machine::{Baseline, Call1, Call2, Call3, Entry, Isa};
use super::number::{Bits, Float, Number, Shift, Truth};
use crate::kernels::simd::{Level, Machine};

/// The loop of an instruction, or `None` if the instruction cannot be, such as the sine of an integer.
pub(super) fn entry(code: Code, level: Level) -> Option<Entry> {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => of::<Avx2>(code),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => of::<Avx512>(code),
        _ => of::<Baseline>(code),
    }
}

struct MulAdd;

impl Call3<f32> for MulAdd {
    #[inline(always)]
    fn call(x: f32, y: f32, z: f32) -> f32 {
        x * y + z
    }
}

struct LessTimes;

impl Call3<f32> for LessTimes {
    #[inline(always)]
    fn call(x: f32, y: f32, z: f32) -> f32 {
        (x - y) * z
    }
}

macro_rules! nearest {
    ($name:ident, $to:ty) => {
        struct $name;

        impl Call2<f32> for $name {
            type Output = $to;

            #[inline(always)]
            fn call<M: Machine>(x: f32, y: f32) -> $to {
                <To<$to> as Call1<f32>>::call::<M>(Float::round::<M>(x) + y)
            }
        }
    };
}

nearest!(NearestU8, u8);
nearest!(NearestI8, i8);

struct Between;

impl Call3<f32> for Between {
    #[inline(always)]
    fn call(x: f32, y: f32, z: f32) -> f32 {
        Number::min(Number::max(x, y), z)
    }
}

/// What hard swish multiplies by.
pub(super) const SIXTH: f32 = 1.0 / 6.0;

struct HardSwish;

impl Call1<f32> for HardSwish {
    type Output = f32;

    #[inline(always)]
    fn call<M: Machine>(x: f32) -> f32 {
        // To the same bits as one after the other.
        x * Between::call(MulAdd::call(x, SIXTH, 0.5), 0.0, 1.0)
    }
}

fn of<I: Isa>(code: Code) -> Option<Entry> {
    match code.shared() {
        Code::Unary(function, lane) => match lane {
            Lane::F32 => number::<I, f32>(function).or_else(|| float::<I, f32>(function)),
            Lane::F64 => number::<I, f64>(function).or_else(|| float::<I, f64>(function)),
            Lane::I8 => signed::<I, i8>(function),
            Lane::U8 => unsigned::<I, u8>(function).or_else(|| not::<I, u8>(function)),
            Lane::I16 => signed::<I, i16>(function),
            Lane::U16 => unsigned::<I, u16>(function).or_else(|| not::<I, u16>(function)),
            Lane::I32 => signed::<I, i32>(function),
            Lane::U32 => unsigned::<I, u32>(function).or_else(|| not::<I, u32>(function)),
            Lane::I64 => signed::<I, i64>(function),
            Lane::U64 => unsigned::<I, u64>(function).or_else(|| not::<I, u64>(function)),
            Lane::Bool => not::<I, Truth>(function),
        },
        Code::Binary(function, lane) => match lane {
            Lane::F32 => numbers::<I, f32>(function).or_else(|| floats::<I, f32>(function)),
            Lane::F64 => numbers::<I, f64>(function).or_else(|| floats::<I, f64>(function)),
            Lane::I8 => integers::<I, i8>(function),
            Lane::U8 => integers::<I, u8>(function).or_else(|| words::<I, u8>(function)),
            Lane::I16 => integers::<I, i16>(function),
            Lane::U16 => integers::<I, u16>(function).or_else(|| words::<I, u16>(function)),
            Lane::I32 => integers::<I, i32>(function),
            Lane::U32 => integers::<I, u32>(function).or_else(|| words::<I, u32>(function)),
            Lane::I64 => integers::<I, i64>(function),
            Lane::U64 => integers::<I, u64>(function).or_else(|| words::<I, u64>(function)),
            Lane::Bool => bits::<I, Truth>(function),
        },
        Code::Compare(comparison, lane) => match lane {
            Lane::F32 => compare::<I, f32>(comparison),
            Lane::F64 => compare::<I, f64>(comparison),
            Lane::I8 => order::<I, i8>(comparison),
            Lane::U8 => compare::<I, u8>(comparison),
            Lane::I16 => order::<I, i16>(comparison),
            Lane::U16 => compare::<I, u16>(comparison),
            Lane::I32 => order::<I, i32>(comparison),
            Lane::U32 => compare::<I, u32>(comparison),
            Lane::I64 => order::<I, i64>(comparison),
            Lane::U64 => compare::<I, u64>(comparison),
            Lane::Bool => compare::<I, Truth>(comparison),
        },
        Code::Select(lane) => Some(match lane.size() {
            1 => I::select::<u8>(),
            2 => I::select::<u16>(),
            4 => I::select::<u32>(),
            _ => I::select::<u64>(),
        }),
        Code::MulAdd => Some(I::three::<f32, MulAdd>()),
        Code::LessTimes => Some(I::three::<f32, LessTimes>()),
        Code::Nearest(Lane::U8) => Some(I::two::<f32, NearestU8>()),
        Code::Nearest(Lane::I8) => Some(I::two::<f32, NearestI8>()),
        Code::Nearest(_) => None,
        Code::Between => Some(I::three::<f32, Between>()),
        Code::HardSwish => Some(I::one::<f32, HardSwish>()),
        Code::Cast(from, to) => match from {
            Lane::F32 => cast_float::<I, f32>(to),
            Lane::F64 => cast_float::<I, f64>(to),
            Lane::I8 => cast::<I, i8>(to),
            Lane::U8 => cast::<I, u8>(to),
            Lane::I16 => cast::<I, i16>(to),
            Lane::U16 => cast::<I, u16>(to),
            Lane::I32 => cast::<I, i32>(to),
            Lane::U32 => cast::<I, u32>(to),
            Lane::I64 => cast::<I, i64>(to),
            Lane::U64 => cast::<I, u64>(to),
            Lane::Bool => cast::<I, Truth>(to),
        },
        Code::Move(Lane::Bool) => Some(I::one::<Truth, To<Truth>>()),
        Code::Move(lane) => Some(match lane.size() {
            1 => I::one::<u8, Same>(),
            2 => I::one::<u16, Same>(),
            4 => I::one::<u32, Same>(),
            _ => I::one::<u64, Same>(),
        }),
        Code::Load(Half::F16) => Some(I::one::<u16, LoadF16>()),
        Code::Load(Half::BF16) => Some(I::one::<u16, LoadBf16>()),
        Code::Store(Half::F16) => Some(I::one::<f32, StoreF16>()),
        Code::Store(Half::BF16) => Some(I::one::<f32, StoreBf16>()),
        Code::Round(Half::F16) => Some(I::one::<f32, RoundF16>()),
        Code::Round(Half::BF16) => Some(I::one::<f32, RoundBf16>()),
        Code::NarrowOdd => Some(I::one::<f64, NarrowOdd>()),
        Code::WidenOdd => Some(I::one::<i64, WidenOdd>()),
        Code::WidenOddUnsigned => Some(I::one::<u64, WidenOddUnsigned>()),
    }
}

/// Functions of one element, named by the function that computes them.
macro_rules! ones {
    ($($name:ident<$($t:ident: $bound:ident)?> ($from:ty) -> $to:ty = $function:expr;)*) => {$(
        struct $name;

        impl$(<$t: $bound>)? Call1<$from> for $name {
            type Output = $to;

            #[inline(always)]
            fn call<M: Machine>(x: $from) -> $to {
                $function(x)
            }
        }
    )*};
}

ones! {
    LoadF16<>(u16) -> f32 = half::load_f16;
    LoadBf16<>(u16) -> f32 = half::load_bf16;
    StoreF16<>(f32) -> u16 = half::store_f16;
    StoreBf16<>(f32) -> u16 = half::store_bf16;
    RoundF16<>(f32) -> f32 = |x| half::load_f16(half::store_f16(x));
    RoundBf16<>(f32) -> f32 = |x| half::load_bf16(half::store_bf16(x));
    NarrowOdd<>(f64) -> f32 = half::narrow_odd;
    WidenOdd<>(i64) -> f64 = half::widen_odd;
    WidenOddUnsigned<>(u64) -> f64 = half::widen_odd_unsigned;
    Same<T: Copy>(T) -> T = |x| x;
    Not<T: Bits>(T) -> T = T::not;
    IsNan<T: Float>(T) -> Truth = |x| Truth::of(T::is_nan(x));
    IsInf<T: Float>(T) -> Truth = |x| Truth::of(T::is_inf(x));
}

/// Unary functions by the method that computes them, and the function that finds each one's loop.
macro_rules! unary {
    ($finder:ident<$bound:ident>: $($name:ident = $method:ident$(::<$machine:ident>)?;)*) => {
        fn $finder<I: Isa, T: $bound>(function: Unary) -> Option<Entry> {
            $({
                struct $name;

                impl<T: $bound> Call1<T> for $name {
                    type Output = T;

                    #[inline(always)]
                    fn call<M: Machine>(x: T) -> T {
                        T::$method$(::<$machine>)?(x)
                    }
                }

                if function == Unary::$name {
                    return Some(I::one::<T, $name>());
                }
            })*
            None
        }
    };
}

unary! { number<Number>:
    Neg = neg;
    Abs = abs;
    Sign = sign;
    Relu = relu;
}

unary! { signed<Number>:
    Abs = abs;
    Sign = sign;
    Relu = relu;
}

unary! { unsigned<Number>:
    Neg = neg;
    Sign = sign;
}

unary! { smooth<Float>:
    Exp = exp::<M>;
    Log = log::<M>;
    Log1p = log1p::<M>;
    Expm1 = expm1::<M>;
    Sqrt = sqrt::<M>;
    Rsqrt = rsqrt::<M>;
    Recip = recip::<M>;
    Asin = asin::<M>;
    Acos = acos::<M>;
    Atan = atan::<M>;
    Sinh = sinh::<M>;
    Cosh = cosh::<M>;
    Tanh = tanh::<M>;
    Asinh = asinh::<M>;
    Acosh = acosh::<M>;
    Atanh = atanh::<M>;
    Erf = erf::<M>;
    Sigmoid = sigmoid::<M>;
    Silu = silu::<M>;
    Gelu = gelu::<M>;
    GeluTanh = gelu_tanh::<M>;
    Softplus = softplus::<M>;
    Floor = floor::<M>;
    Ceil = ceil::<M>;
    Round = round::<M>;
    Trunc = trunc::<M>;
}

/// The functions of the circle: elements that are too far round are computed again, exactly.
macro_rules! circle {
    ($($name:ident = $method:ident, $exact:ident;)*) => {$(
        struct $name;

        impl<T: Float> Call1<T> for $name {
            type Output = T;

            #[inline(always)]
            fn call<M: Machine>(x: T) -> T {
                T::$method::<M>(x)
            }

            #[inline(always)]
            fn repair(results: &mut [MaybeUninit<T>], operands: &[T]) {
                // Without an early end this is a vector loop.
                if operands.iter().fold(false, |far, x| far | x.far_round()) {
                    for (result, &x) in results.iter_mut().zip(operands) {
                        if x.far_round() {
                            result.write(T::$exact(x));
                        }
                    }
                }
            }
        }
    )*};
}

circle! {
    Sin = sin, exact_sin;
    Cos = cos, exact_cos;
    Tan = tan, exact_tan;
}

fn float<I: Isa, T: Float>(function: Unary) -> Option<Entry> {
    match function {
        Unary::Sin => Some(I::one::<T, Sin>()),
        Unary::Cos => Some(I::one::<T, Cos>()),
        Unary::Tan => Some(I::one::<T, Tan>()),
        Unary::IsNan => Some(I::one::<T, IsNan>()),
        Unary::IsInf => Some(I::one::<T, IsInf>()),
        _ => smooth::<I, T>(function),
    }
}

fn not<I: Isa, T: Bits>(function: Unary) -> Option<Entry> {
    (function == Unary::Not).then(|| I::one::<T, Not>())
}

/// Binary functions by the method that computes them, and the function that finds each one's loop.
macro_rules! binary {
    ($finder:ident<$bound:ident>: $($name:ident = $method:ident;)*) => {
        fn $finder<I: Isa, T: $bound>(function: Binary) -> Option<Entry> {
            $({
                struct $name;

                impl<T: $bound> Call2<T> for $name {
                    type Output = T;

                    #[inline(always)]
                    fn call<M: Machine>(x: T, y: T) -> T {
                        T::$method(x, y)
                    }
                }

                if function == Binary::$name {
                    return Some(I::two::<T, $name>());
                }
            })*
            None
        }
    };
}

binary! { numbers<Number>:
    Add = add;
    Sub = sub;
    Mul = mul;
    Div = div;
    Rem = rem;
    Pow = pow;
    Min = min;
    Max = max;
}

binary! { floats<Float>:
    Atan2 = atan2;
}

binary! { bits<Bits>:
    And = and;
    Or = or;
    Xor = xor;
}

binary! { signed_or_not<Number>:
    Div = div;
    Rem = rem;
    Pow = pow;
    Min = min;
    Max = max;
}

binary! { wrapping<Number>:
    Add = add;
    Sub = sub;
    Mul = mul;
}

binary! { shift_left<Shift>:
    Shl = shl;
}

binary! { shift_right<Shift>:
    Shr = shr;
}

/// What the sign matters to.
fn integers<I: Isa, T: Number + Shift>(function: Binary) -> Option<Entry> {
    signed_or_not::<I, T>(function).or_else(|| shift_right::<I, T>(function))
}

/// What it does not matter to.
fn words<I: Isa, T: Number + Bits + Shift>(function: Binary) -> Option<Entry> {
    wrapping::<I, T>(function)
        .or_else(|| bits::<I, T>(function))
        .or_else(|| shift_left::<I, T>(function))
}

impl PartialEq for Truth {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl PartialOrd for Truth {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.get().cmp(&other.get()))
    }
}

/// Comparisons by their operator, and the function that finds each one's loop.
macro_rules! comparisons {
    ($finder:ident: $($name:ident = $method:ident;)*) => {
        fn $finder<I: Isa, T: Copy + PartialOrd>(comparison: Compare) -> Option<Entry> {
            $(
                struct $name;

                impl<T: Copy + PartialOrd> Call2<T> for $name {
                    type Output = Truth;

                    #[inline(always)]
                    fn call<M: Machine>(x: T, y: T) -> Truth {
                        Truth::of(x.$method(&y))
                    }
                }

                if comparison == Compare::$name {
                    return Some(I::two::<T, $name>());
                }
            )*
            None
        }
    };
}

comparisons! { equality:
    Eq = eq;
    Ne = ne;
}

comparisons! { order:
    Lt = lt;
    Le = le;
    Gt = gt;
    Ge = ge;
}

fn compare<I: Isa, T: Copy + PartialOrd>(comparison: Compare) -> Option<Entry> {
    equality::<I, T>(comparison).or_else(|| order::<I, T>(comparison))
}
