//! Functions of `f32` as straight-line code, so that a loop over them becomes vector instructions.
//!
//! Each is within 4 units in the last place of the true value (`gelu` below zero: 6), but for far below
//! zero. There the relative error of `gelu_tanh`, and of `gelu` without fused multiply-add, grows with the
//! exponent they contain, to 1e-5 where the result is 1e-38; where `gelu_tanh` is below that, so is its absolute error, and
//! `gelu` is zero. So is `silu` where its exponential is beyond `f32`, from -88.7 down, as in PyTorch: it would be -2.6e-37
//! or nearer to zero. NaN gives NaN; of minus infinity, `silu` and its kin give NaN, as others do.

#![allow(
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "coefficients stand as they were fitted"
)]

use crate::kernels::simd::Machine;

/// The polynomial with these coefficients, the constant one first.
#[inline(always)]
fn polynomial<M: Machine, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for index in (0..N - 1).rev() {
        sum = M::fma(sum, x, coefficients[index]);
    }
    sum
}

/// Within the bounds; NaN stays.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Added and subtracted, rounds to an integer and leaves it in the low bits.
const ROUNDER: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `2^power`, for the powers of normal numbers.
#[inline(always)]
fn power_of_two(power: i32) -> f32 {
    f32::from_bits((power.wrapping_add(127) << 23) as u32)
}

/// `x = power * ln 2 + rest`, with a rest of at most half of `ln 2`.
#[inline(always)]
fn split_exponent<M: Machine>(x: f32) -> (i32, f32) {
    let shifted = M::fma(x, std::f32::consts::LOG2_E, ROUNDER);
    let power = shifted - ROUNDER;
    let rest = M::fma(-power, LN_2_LOW, M::fma(-power, LN_2_HIGH, x));
    (
        (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32),
        rest,
    )
}

/// `exp(x) - 1` for small `x`.
#[inline(always)]
fn expm1_small<M: Machine>(x: f32) -> f32 {
    let tail = polynomial::<M, 6>(
        x,
        [
            0.5,
            0.166_666_67,
            0.041_666_456,
            0.008_333_31,
            0.001_393_454_2,
            0.000_198_919_81,
        ],
    );
    M::fma(x * x, tail, x)
}

#[inline(always)]
pub(crate) fn exp<M: Machine>(x: f32) -> f32 {
    // Beyond these bounds the result is zero or infinite anyway.
    let (power, rest) = split_exponent::<M>(clamp(x, -104.0, 89.0));
    let half = power >> 1;
    // In two steps: the power alone may be too large or too small for a normal number.
    (expm1_small::<M>(rest) + 1.0) * power_of_two(half) * power_of_two(power.wrapping_sub(half))
}

/// `exp(x)` for `x` not above zero, and nothing where that would be hardly a normal number.
#[inline(always)]
pub(crate) fn exp_below_zero<M: Machine>(x: f32) -> f32 {
    const LOWEST: f32 = -87.0;
    let (power, rest) = split_exponent::<M>(x);
    let near_one = polynomial::<M, 7>(
        rest,
        [
            1.0,
            1.0,
            0.5,
            0.166_665_2,
            0.041_668_396,
            0.008_368_797,
            0.001_381_443_3,
        ],
    );
    let result = near_one * power_of_two(power);
    if x < LOWEST { 0.0 } else { result }
}

#[inline(always)]
pub(super) fn expm1<M: Machine>(x: f32) -> f32 {
    let (power, rest) = split_exponent::<M>(clamp(x, -20.0, 89.0));
    let scale = power_of_two(power.wrapping_sub(1));
    let result = M::fma(scale, expm1_small::<M>(rest), scale - 0.5) * 2.0;
    if x == 0.0 { x } else { result }
}

#[inline(always)]
pub(super) fn log<M: Machine>(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let bits = (if tiny { x * 8_388_608.0 } else { x }).to_bits() as i32;
    // The mantissa is taken between the square roots of a half and of two.
    let exponent = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let f = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32) - 1.0;
    let exponent = exponent as f32 - if tiny { 23.0 } else { 0.0 };
    let tail = polynomial::<M, 9>(
        f,
        [
            0.333_333_31,
            -0.249_999_97,
            0.200_007_16,
            -0.166_678_02,
            0.142_490_58,
            -0.124_256_87,
            0.116_854_2,
            -0.114_797_34,
            0.069_716_115,
        ],
    );
    let square = f * f;
    let low = M::fma(exponent, LN_2_LOW, square * f * tail);
    let result = M::fma(exponent, LN_2_HIGH, f + M::fma(-0.5, square, low));
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x >= 0.0 { result } else { f32::NAN }
}

#[inline(always)]
pub(super) fn log1p<M: Machine>(x: f32) -> f32 {
    let sum = 1.0 + x;
    // What the addition lost.
    let lost = if x > 1.0 {
        1.0 - (sum - x)
    } else {
        x - (sum - 1.0)
    };
    let result = log::<M>(sum) + lost / sum;
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == -1.0 { f32::NEG_INFINITY } else { result };
    if x == 0.0 { x } else { result }
}

#[inline(always)]
pub(crate) fn tanh<M: Machine>(x: f32) -> f32 {
    let twice = expm1::<M>(clamp(2.0 * x.abs(), 0.0, 20.0));
    (twice / (twice + 2.0)).copysign(x)
}

/// From here on `log(2 x)` is all there is to see of the inverses of the hyperbolic functions.
const FAR_OUT: f32 = 1e4;

#[inline(always)]
pub(super) fn asinh<M: Machine>(x: f32) -> f32 {
    let size = x.abs();
    let square = size * size;
    let near = log1p::<M>(size + square / (1.0 + (1.0 + square).sqrt()));
    let far = log::<M>(size) + std::f32::consts::LN_2;
    (if size > FAR_OUT { far } else { near }).copysign(x)
}

#[inline(always)]
pub(super) fn acosh<M: Machine>(x: f32) -> f32 {
    let above = x - 1.0;
    // The root of a negative number is NaN; far below that the product is positive again.
    let near = log1p::<M>(above + (above * (above + 2.0)).sqrt());
    let far = log::<M>(x) + std::f32::consts::LN_2;
    let result = if x > FAR_OUT { far } else { near };
    if x < 1.0 { f32::NAN } else { result }
}

#[inline(always)]
pub(super) fn atanh<M: Machine>(x: f32) -> f32 {
    let size = x.abs();
    let result = 0.5 * log1p::<M>(2.0 * size / (1.0 - size));
    (if size > 1.0 { f32::NAN } else { result }).copysign(x)
}

#[inline(always)]
pub(crate) fn sigmoid<M: Machine>(x: f32) -> f32 {
    let small = exp::<M>(-x.abs());
    (if x >= 0.0 { 1.0 } else { small }) / (1.0 + small)
}

#[inline(always)]
pub(crate) fn silu<M: Machine>(x: f32) -> f32 {
    // Below the bounds the exponential adds nothing to one; beyond, it is infinite.
    let (power, rest) = split_exponent::<M>(clamp(-x, -30.0, 89.0));
    let half = (expm1_small::<M>(rest) + 1.0) * power_of_two(power.wrapping_sub(1));
    x / M::fma(half, 2.0, 1.0)
}

#[inline(always)]
pub(super) fn softplus<M: Machine>(x: f32) -> f32 {
    let positive = if x > 0.0 { x } else { 0.0 };
    positive + log1p::<M>(exp::<M>(-x.abs()))
}

/// `exp(-x * x * scale)` for `scale` a power of two.
#[inline(always)]
fn gauss<M: Machine>(x: f32, scale: f32) -> f32 {
    let scaled = -scale * x;
    let power = scaled * x;
    // The rounding of the power would be multiplied by it in the result.
    let lost = if M::FUSED {
        M::fma(scaled, x, -power)
    } else {
        0.0
    };
    let result = exp_below_zero::<M>(power);
    M::fma(result, lost, result)
}

/// `erfc(x) * exp(x * x)` for `x` from 0 to 10.1.
#[inline(always)]
fn scaled_erfc<M: Machine>(x: f32) -> f32 {
    let s = 1.0 / M::fma(0.35, x, 1.0);
    let sum = polynomial::<M, 10>(
        s,
        [
            0.197_488_27,
            0.197_048_77,
            0.188_666_26,
            0.147_530_04,
            0.156_878_67,
            0.066_362_48,
            -0.002_335_386_7,
            0.162_060_77,
            -0.150_528_9,
            0.036_829_03,
        ],
    );
    s * sum
}

/// `erf(x)` for `x` from 0 to 1.
#[inline(always)]
fn erf_near<M: Machine>(x: f32) -> f32 {
    let coefficients = [
        1.128_379_2,
        -0.376_126_27,
        0.112_835_947,
        -0.026_854_212,
        0.005_189_087_4,
        -0.000_801_686_43,
        7.875_875e-5,
    ];
    x * polynomial::<M, 7>(x * x, coefficients)
}

#[inline(always)]
pub(super) fn erf<M: Machine>(x: f32) -> f32 {
    let size = clamp(x.abs(), 0.0, 10.0);
    let far = 1.0 - scaled_erfc::<M>(size) * gauss::<M>(size, 1.0);
    (if size < 1.0 { erf_near::<M>(size) } else { far }).copysign(x)
}

#[inline(always)]
pub(crate) fn gelu<M: Machine>(x: f32) -> f32 {
    // Beyond this bound the tail of the normal distribution is nothing.
    let size = clamp(x.abs(), 0.0, 13.2);
    // The product is zero, but for infinity.
    let above = if x > 0.0 { x } else { 0.0 * x };
    above - size * normal_tail::<M>(size)
}

/// How likely a normal number is to be beyond `x`, from 0 to 13.2.
#[inline(always)]
fn normal_tail<M: Machine>(x: f32) -> f32 {
    // A quotient of polynomials in place of `exp(x * x / 2)` times the tail: within 5e-9 of that.
    let above = polynomial::<M, 5>(
        x,
        [
            0.5,
            0.435_686_38,
            0.181_306_81,
            0.039_984_193,
            0.004_020_194,
        ],
    );
    let below = polynomial::<M, 6>(
        x,
        [
            1.0,
            1.669_257_6,
            1.194_484_5,
            0.464_380_47,
            0.100_232_89,
            0.010_076_989,
        ],
    );
    gauss::<M>(x, 0.5) * above / below
}

#[inline(always)]
pub(crate) fn gelu_tanh<M: Machine>(x: f32) -> f32 {
    let inner = x * M::fma(x * x, 0.071_354_814, 1.595_769_1);
    x * sigmoid::<M>(inner)
}

/// Arguments beyond this are left to the standard library: the reduction below would be inexact.
pub(super) const CIRCLE_LIMIT: f32 = 1.0e6;

/// `x = quarters * pi / 2 + rest`.
#[inline(always)]
fn split_circle(x: f32) -> (i32, f32) {
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    // The first has so few bits that its product with the quarters is exact.
    const QUARTER_HIGH: f64 = 1.570_796_326_734_125_6;
    const QUARTER_LOW: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(x);
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUNDER;
    let quarters = shifted - ROUNDER;
    let rest = (x - quarters * QUARTER_HIGH) - quarters * QUARTER_LOW;
    (shifted.to_bits() as i32, rest as f32)
}

#[inline(always)]
fn sine<M: Machine>(x: f32) -> f32 {
    let square = x * x;
    let tail = polynomial::<M, 4>(
        square,
        [
            -0.166_666_67,
            0.008_333_332,
            -0.000_198_400_82,
            2.724_931_4e-6,
        ],
    );
    M::fma(square * x, tail, x)
}

#[inline(always)]
fn cosine<M: Machine>(x: f32) -> f32 {
    let square = x * x;
    let tail = polynomial::<M, 3>(square, [0.041_666_665, -0.001_388_830_1, 2.454_743_7e-5]);
    M::fma(square * square, tail, M::fma(-0.5, square, 1.0))
}

#[inline(always)]
fn quarter<M: Machine>(quarters: i32, rest: f32) -> f32 {
    let value = if quarters & 1 == 0 {
        sine::<M>(rest)
    } else {
        cosine::<M>(rest)
    };
    if quarters & 2 == 0 { value } else { -value }
}

#[inline(always)]
pub(super) fn sin<M: Machine>(x: f32) -> f32 {
    let (quarters, rest) = split_circle(x);
    let result = quarter::<M>(quarters, rest);
    if x == 0.0 { x } else { result }
}

#[inline(always)]
pub(super) fn cos<M: Machine>(x: f32) -> f32 {
    let (quarters, rest) = split_circle(x);
    quarter::<M>(quarters.wrapping_add(1), rest)
}

#[inline(always)]
pub(super) fn tan<M: Machine>(x: f32) -> f32 {
    let (quarters, rest) = split_circle(x);
    let (sine, cosine) = (sine::<M>(rest), cosine::<M>(rest));
    let odd = quarters & 1 != 0;
    let result = if odd { -cosine } else { sine } / if odd { sine } else { cosine };
    if x == 0.0 { x } else { result }
}
