//! The accuracy of every float function on every instruction set, and its special values.

use std::sync::Arc;

use streampool_conformance::rng::Rng;
use streampool_device::{DType, Expr, Unary};

use super::{UNARY, floats, on_each_level, round_to};
use crate::kernels::simd::Level;
use crate::kernels::tests::ops::{FLOATS, Tensor};

/// `erfc` for `x` of at least 0: by the series of `erf` where it is large, else by its continued fraction.
fn erfc(x: f64) -> f64 {
    let scale = std::f64::consts::FRAC_2_SQRT_PI;
    if x < 0.75 {
        return 1.0 - erf_series(x);
    }
    let mut fraction = 0.0;
    for step in (1..1500).rev() {
        fraction = f64::from(step) / 2.0 / (x + fraction);
    }
    // The square in two parts, so that its rounding does not grow in the exponential.
    let high = f64::from(x as f32);
    let square = (-high * high).exp() * (-(x - high) * (x + high)).exp();
    square * scale / 2.0 / (x + fraction)
}

fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for step in 1..200 {
        term *= 2.0 * x * x / (2.0 * f64::from(step) + 1.0);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

fn sigmoid(x: f64) -> f64 {
    if x < -700.0 {
        x.exp()
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

/// The true value, to nearly the accuracy of `f64`.
fn truth(function: Unary, x: f64) -> f64 {
    match function {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        Unary::Relu => {
            if x.is_nan() {
                x
            } else {
                x.max(0.0)
            }
        }
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Tanh => x.tanh(),
        Unary::Asinh => x.asinh(),
        // The difference from one is exact, so that its own precision is left near there.
        Unary::Acosh if (1.0..1e9).contains(&x) => {
            (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p()
        }
        Unary::Acosh => x.acosh(),
        // Of the size, so that the quotient does not come near minus one.
        Unary::Atanh => (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x),
        Unary::Erf if x.abs() < 2.0 => erf_series(x),
        Unary::Erf => {
            if x.is_nan() {
                x
            } else {
                (1.0 - erfc(x.abs().min(30.0))).copysign(x)
            }
        }
        Unary::Sigmoid => sigmoid(x),
        Unary::Silu | Unary::Gelu | Unary::GeluTanh if x == f64::NEG_INFINITY => f64::NAN,
        Unary::Silu => x * sigmoid(x),
        Unary::Gelu if x < -40.0 => -0.0,
        Unary::Gelu if x < 0.0 => x * 0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Unary::Gelu => x * (1.0 - 0.5 * erfc((x * std::f64::consts::FRAC_1_SQRT_2).min(30.0))),
        Unary::GeluTanh if x < -30.0 => -0.0,
        Unary::GeluTanh => {
            let inner = 2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            x * sigmoid(inner)
        }
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 },
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
        Unary::IsNan | Unary::IsInf | Unary::Not => panic!("not a float function"),
    }
}

/// Functions to floats.
fn functions() -> impl Iterator<Item = Unary> {
    let other = |function: &Unary| !matches!(function, Unary::IsNan | Unary::IsInf | Unary::Not);
    UNARY.into_iter().filter(other)
}

/// Arguments of all sizes, dense where functions bend, and the special ones.
fn arguments() -> Vec<f64> {
    let mut rng = Rng::new(3);
    let mut list = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        88.0,
        88.7,
        88.8,
        89.0,
        -87.3,
        -87.4,
        -103.9,
        -104.1,
        1e6,
        1.1e6,
        -3e38,
        3e38,
        1e-45,
        -1e-45,
        1.2e-38,
        709.0,
        710.0,
        -745.0,
        -746.0,
        1e300,
        1e-300,
        65504.0,
        65519.0,
        65520.0,
        6e-8,
        std::f64::consts::FRAC_1_SQRT_2,
        std::f64::consts::SQRT_2,
    ];
    for _ in 0..6000 {
        list.extend([
            rng.real(-4.0, 4.0),
            rng.real(-15.0, 15.0),
            rng.real(-120.0, 120.0),
        ]);
        list.push(f64::from(f32::from_bits(rng.bits() as u32)));
        list.push(rng.real(-0.5, 0.5) * 2f64.powi(rng.between(-30, 9) as i32));
    }
    list
}

/// The distance between floats of this type near `x`.
fn step(x: f64, dtype: DType) -> f64 {
    let (mantissa, least) = match dtype {
        DType::F32 => (23, -126),
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        _ => (52, -1022),
    };
    let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).max(least);
    match exponent - mantissa {
        power @ ..-1022 => f64::from_bits(1 << (power + 1074)),
        power => 2f64.powi(power),
    }
}

/// How many steps a result may be off.
fn allowed(function: Unary, dtype: DType, x: f64, fused: bool) -> f64 {
    use Unary::{Abs, Ceil, Floor, Gelu, GeluTanh, Neg, Recip, Relu, Round, Sign, Sqrt, Trunc};
    let exact = matches!(
        function,
        Neg | Abs | Sign | Relu | Floor | Ceil | Round | Trunc | Sqrt | Recip
    );
    let exponent = x * x;
    match (dtype, function) {
        (DType::F16 | DType::BF16, Gelu | GeluTanh) => 1.5,
        (DType::F16 | DType::BF16, _) => {
            if exact {
                0.5
            } else {
                0.51
            }
        }
        _ if exact => 0.5,
        // What is lost in the exponent of a tail grows with the exponent.
        (DType::F32, GeluTanh) if x < 0.0 => 4.0 + exponent * 2.0,
        (DType::F32, Gelu) if x < 0.0 && !fused => 6.0 + exponent,
        (DType::F32, Gelu) if x < 0.0 => 6.0,
        // Of the truth here that is true of `gelu` too: its argument is a rounded quotient.
        (DType::F64, Gelu) if x < 0.0 => 8.0 + exponent * 2.0,
        (DType::F64, GeluTanh) if x < 0.0 => 8.0 + exponent * 4.0,
        (DType::F64, _) => 8.0,
        _ => 4.0,
    }
}

fn check(dtype: DType) {
    let arguments: Vec<f64> = arguments()
        .into_iter()
        .map(|x| round_to(x, dtype))
        .collect();
    let count = arguments.len();
    let mut each = arguments.iter();
    let input = Tensor::of(dtype, &[count], || *each.next().unwrap());
    for function in functions() {
        let expr = Arc::new(Expr::unary(function, dtype).unwrap());
        let wants: Vec<f64> = arguments.iter().map(|&x| truth(function, x)).collect();
        on_each_level(&expr, &[&input], &[count], |level, results| {
            let fused = level > Level::Baseline;
            for ((&x, &want), got) in arguments.iter().zip(&wants).zip(floats(&results[0])) {
                let rounded = round_to(want, dtype);
                if rounded.is_nan() || got.is_nan() || rounded.is_infinite() && got.is_infinite() {
                    let same = rounded.is_nan() == got.is_nan() && (got.is_nan() || got == rounded);
                    assert!(
                        same,
                        "{function:?}({x:e}) of {dtype} is {got}, not {rounded} on {level:?}"
                    );
                    continue;
                }
                let largest = if dtype == DType::F32 {
                    f64::from(f32::MAX)
                } else {
                    65504.0
                };
                if got.is_infinite() != rounded.is_infinite() && dtype != DType::F64 {
                    // At the edge of the range an error of some steps decides.
                    assert!(
                        want.abs() > 0.99 * largest,
                        "{function:?}({x:e}) of {dtype} is {got}"
                    );
                    continue;
                }
                if function == Unary::Silu && dtype != DType::F64 && x < -88.7 {
                    // The exponential is infinite.
                    assert!(want.abs() < 2.7e-37 && (got - want).abs() <= want.abs());
                    continue;
                }
                // A factor that underflows loses up to a step, times the other factor.
                let gated = matches!(function, Unary::Silu | Unary::Gelu | Unary::GeluTanh);
                let lost = match (function, dtype) {
                    // Nothing is left of a tail that is hardly a normal number.
                    (Unary::Gelu, DType::F32 | DType::BF16) => f64::from(f32::MIN_POSITIVE),
                    _ if gated => step(0.0, dtype) * x.abs().max(1.0),
                    _ => 0.0,
                };
                let off = (got - want).abs() / step(want, dtype).max(lost);
                assert!(
                    off <= allowed(function, dtype, x, fused),
                    "{function:?}({x:e}) of {dtype} is {got:e}, not {want:e}: {off} steps on {level:?}"
                );
            }
        });
    }
}

#[test]
fn functions_of_floats() {
    FLOATS.into_iter().for_each(check);
}
