//! Floats, NaN and infinities among them.

use half::{bf16, f16};
use streampool_tensor::Tensor;

use crate::common::values::{Float, Values, any_float, moderate, shape};
use crate::{Binary, Choices, Unary, check, pair, pool};

/// All terms of the series are positive.
fn erf(x: f64) -> f64 {
    if !x.is_finite() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum) = (x, 0.0);
    for step in 0..200 {
        sum += term;
        term *= 2.0 * x * x / (2 * step + 3) as f64;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 }
}

fn or_zero_times_infinity(x: f64, gate: f64) -> f64 {
    x * gate
}

const UNARIES: &[Unary<f64>] = &[
    ("neg", Tensor::neg, |x| -x),
    ("abs", Tensor::abs, f64::abs),
    ("sign", Tensor::sign, |x| {
        if x == 0.0 || x.is_nan() {
            x
        } else {
            x.signum()
        }
    }),
    ("square", Tensor::square, |x| x * x),
    ("exp", Tensor::exp, f64::exp),
    ("exp2", Tensor::exp2, f64::exp2),
    ("expm1", Tensor::expm1, f64::exp_m1),
    ("log", Tensor::log, f64::ln),
    ("log2", Tensor::log2, f64::log2),
    ("log10", Tensor::log10, f64::log10),
    ("log1p", Tensor::log1p, f64::ln_1p),
    ("sqrt", Tensor::sqrt, f64::sqrt),
    ("rsqrt", Tensor::rsqrt, |x| 1.0 / x.sqrt()),
    ("reciprocal", Tensor::reciprocal, |x| 1.0 / x),
    ("sin", Tensor::sin, f64::sin),
    ("cos", Tensor::cos, f64::cos),
    ("tan", Tensor::tan, f64::tan),
    ("asin", Tensor::asin, f64::asin),
    ("acos", Tensor::acos, f64::acos),
    ("atan", Tensor::atan, f64::atan),
    ("sinh", Tensor::sinh, f64::sinh),
    ("cosh", Tensor::cosh, f64::cosh),
    ("tanh", Tensor::tanh, f64::tanh),
    ("asinh", Tensor::asinh, f64::asinh),
    ("acosh", Tensor::acosh, f64::acosh),
    ("atanh", Tensor::atanh, f64::atanh),
    ("erf", Tensor::erf, erf),
    ("floor", Tensor::floor, f64::floor),
    ("ceil", Tensor::ceil, f64::ceil),
    ("round", Tensor::round, f64::round_ties_even),
    ("trunc", Tensor::trunc, f64::trunc),
    ("relu", Tensor::relu, |x| if x < 0.0 { 0.0 } else { x }),
    ("sigmoid", Tensor::sigmoid, sigmoid),
    ("log_sigmoid", Tensor::log_sigmoid, |x| -softplus(-x)),
    ("softplus", Tensor::softplus, softplus),
    ("softsign", Tensor::softsign, |x| x / (1.0 + x.abs())),
    (
        "leaky_relu",
        |x| x.leaky_relu(0.1),
        |x| {
            if x < 0.0 { 0.1 * x } else { x }
        },
    ),
    (
        "elu",
        |x| x.elu(0.7),
        |x| {
            if x < 0.0 { 0.7 * x.exp_m1() } else { x }
        },
    ),
    (
        "selu",
        |x| x.selu(1.7, 1.1),
        |x| 1.1 * if x < 0.0 { 1.7 * x.exp_m1() } else { x },
    ),
    (
        "celu",
        |x| x.celu(2.5),
        |x| {
            if x < 0.0 { 2.5 * (x / 2.5).exp_m1() } else { x }
        },
    ),
    (
        "hard_sigmoid",
        |x| x.hard_sigmoid(0.2, 0.5),
        |x| {
            if x.is_nan() {
                x
            } else {
                (0.2 * x + 0.5).clamp(0.0, 1.0)
            }
        },
    ),
    ("hard_swish", Tensor::hard_swish, |x| {
        or_zero_times_infinity(x, (x / 6.0 + 0.5).clamp(0.0, 1.0))
    }),
    (
        "thresholded_relu",
        |x| x.thresholded_relu(1.5),
        |x| {
            if x <= 1.5 { 0.0 } else { x }
        },
    ),
    (
        "shrink",
        |x| x.shrink(0.5, 1.5),
        |x| {
            if x.is_nan() {
                x
            } else if x > 1.5 {
                x - 0.5
            } else if x < -1.5 {
                x + 0.5
            } else {
                0.0
            }
        },
    ),
    ("add a number", |x| x.add(2), |x| x + 2.0),
    ("sub from a number", |x| 2.0 - x, |x| 2.0 - x),
    ("div a number by", |x| 3 / x, |x| 3.0 / x),
    ("number to the power of", |x| x.rpow(2.0), |x| 2f64.powf(x)),
    (
        "clamp",
        |x| x.clamp(-1, 2),
        |x| {
            if x.is_nan() { x } else { x.clamp(-1.0, 2.0) }
        },
    ),
];

/// Functions whose value at minus infinity is a matter of taste: zero, or NaN for `-∞ * 0`.
const TAILS: &[Unary<f64>] = &[
    ("gelu", Tensor::gelu, |x| {
        x * 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2))
    }),
    ("gelu_tanh", Tensor::gelu_tanh, |x| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        0.5 * x * (1.0 + inner.tanh())
    }),
    ("silu", Tensor::silu, |x| x * sigmoid(x)),
    ("swish", |x| x.swish(1.7), |x| x * sigmoid(1.7 * x)),
    ("mish", Tensor::mish, |x| x * softplus(x).tanh()),
];

fn modulo(x: f64, y: f64) -> f64 {
    let rest = x % y;
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) {
        rest + y
    } else {
        rest
    }
}

const BINARIES: &[Binary<f64>] = &[
    ("add", |x, y| x.add(y), |x, y| x + y),
    ("sub", |x, y| x.sub(y), |x, y| x - y),
    ("rsub", |x, y| x.rsub(y), |x, y| y - x),
    ("mul", |x, y| x.mul(y), |x, y| x * y),
    ("div", |x, y| x.div(y), |x, y| x / y),
    ("rdiv", |x, y| x.rdiv(y), |x, y| y / x),
    ("rem", |x, y| x.rem(y), |x, y| x % y),
    ("modulo", |x, y| x.modulo(y), modulo),
    ("pow", |x, y| x.pow(y), f64::powf),
    ("atan2", |x, y| x.atan2(y), f64::atan2),
    (
        "minimum",
        |x, y| x.minimum(y),
        |x, y| {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.min(y)
            }
        },
    ),
    (
        "maximum",
        |x, y| x.maximum(y),
        |x, y| {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.max(y)
            }
        },
    ),
    (
        "prelu",
        |x, y| x.prelu(y),
        |x, y| if x < 0.0 { x * y } else { x },
    ),
];

fn unary<T: Float>(seed: u64, functions: &[Unary<f64>], of: fn(&mut Choices) -> T) {
    let (pool, mut choices) = (pool(), Choices::new(seed));
    for &(name, operator, reference) in functions {
        for _ in 0..6 {
            let shape = shape(&mut choices, 8);
            let values = Values::random(&mut choices, &shape, of);
            let got = operator(&values.tensor(&mut choices, &pool)).unwrap();
            check(name, &got, &shape, &[&values], |x, y: T| {
                y.is_near(reference(x[0].wide()))
            });
        }
    }
}

fn binary<T: Float>(seed: u64) {
    let (pool, mut choices) = (pool(), Choices::new(seed));
    for &(name, operator, reference) in BINARIES {
        for _ in 0..6 {
            let ([x, y], [a, b], shape) = pair(&mut choices, &pool, any_float::<T>);
            let got = operator(&x, &y).unwrap();
            check(name, &got, &shape, &[&a, &b], |x, z: T| {
                z.is_near(reference(x[0].wide(), x[1].wide()))
            });
        }
    }
}

#[test]
fn functions_of_one_tensor() {
    unary::<f32>(1, UNARIES, any_float);
    unary::<f64>(2, UNARIES, any_float);
    unary::<f16>(3, UNARIES, any_float);
    unary::<bf16>(4, UNARIES, any_float);
    unary::<f32>(5, TAILS, moderate);
    unary::<f64>(6, TAILS, moderate);
    unary::<f16>(7, TAILS, moderate);
    unary::<bf16>(8, TAILS, moderate);
}

#[test]
fn functions_of_two_tensors() {
    binary::<f32>(11);
    binary::<f64>(12);
    binary::<f16>(13);
    binary::<bf16>(14);
}

#[test]
fn halves_round_once_however_many_steps_there_are() {
    let pool = pool();
    let values: Vec<f16> = (-400..400)
        .map(|x| f16::from_f64(x as f64 / 64.0))
        .collect();
    let x = Tensor::from_slice(&pool, &values, &[values.len()]).unwrap();
    let got: Vec<f16> = x.mish().unwrap().to_vec().unwrap();
    for (&x, got) in values.iter().zip(got) {
        let wanted = x.to_f64() * softplus(x.to_f64()).tanh();
        let (low, high) = (wanted - wanted.abs() * 5e-4, wanted + wanted.abs() * 5e-4);
        assert!(
            (low..=high).contains(&got.to_f64()),
            "mish({x}) is {got}, not {wanted}"
        );
    }
}

#[test]
fn inverse_hyperbolic_functions_are_exact_near_zero_and_far_away() {
    let pool = pool();
    let values = [1e-30f32, -1e-8, 1e-4, -0.3, 3.0, 1e10, -1e19, 3e38];
    let x = Tensor::from_slice(&pool, &values, &[8]).unwrap();
    let asinh: Vec<f32> = x.asinh().unwrap().to_vec().unwrap();
    let acosh: Vec<f32> = x.acosh().unwrap().to_vec().unwrap();
    let atanh: Vec<f32> = x.atanh().unwrap().to_vec().unwrap();
    let near = |got: f32, wanted: f64| {
        let got = f64::from(got);
        got.is_nan() && wanted.is_nan() || (got - wanted).abs() <= 1e-6 * wanted.abs()
    };
    for (place, &x) in values.iter().enumerate() {
        let wide = f64::from(x);
        assert!(
            near(asinh[place], wide.asinh()),
            "asinh({x}) is {}",
            asinh[place]
        );
        assert!(
            near(acosh[place], wide.acosh()),
            "acosh({x}) is {}",
            acosh[place]
        );
        assert!(
            near(atanh[place], wide.atanh()),
            "atanh({x}) is {}",
            atanh[place]
        );
    }
}

#[test]
fn division_rounds_down_as_in_python() {
    let pool = pool();
    let cases: [(f64, f64, f64); 10] = [
        (7.0, 2.0, 3.0),
        (-7.0, 2.0, -4.0),
        (7.0, -2.0, -4.0),
        (1.0, 0.1, 9.0),
        (-0.5, f64::INFINITY, -1.0),
        (0.5, f64::INFINITY, 0.0),
        (1.0, 0.0, f64::INFINITY),
        (-1.0, 0.0, f64::NEG_INFINITY),
        (6.0, 3.0, 2.0),
        (f64::NAN, 1.0, f64::NAN),
    ];
    let column = |of: fn(&(f64, f64, f64)) -> f64| {
        let values: Vec<f64> = cases.iter().map(of).collect();
        Tensor::from_vec(&pool, values).unwrap()
    };
    let got = column(|case| case.0)
        .floor_div(&column(|case| case.1))
        .unwrap();
    for (case, got) in cases.iter().zip(got.to_vec::<f64>().unwrap()) {
        assert!(
            got == case.2 || got.is_nan() && case.2.is_nan(),
            "{case:?}: {got}"
        );
    }
}

#[test]
fn three_operands_broadcast_and_may_be_numbers() {
    let (pool, mut choices) = (pool(), Choices::new(21));
    for _ in 0..12 {
        let ([x, y], [a, b], shape) = pair(&mut choices, &pool, moderate::<f32>);
        let lerp = x.lerp(&y, 0.25).unwrap();
        check("lerp", &lerp, &shape, &[&a, &b], |v, z: f32| {
            let (a, b) = (f64::from(v[0]), f64::from(v[1]));
            z.is_near(a + 0.25 * (b - a))
        });
        let end = x.lerp(&y, 1.0).unwrap();
        check("lerp to the end", &end, &shape, &[&a, &b], |v, z: f32| {
            z == v[1]
        });
        let sum = x.addcmul(&y, &x, 0.5).unwrap();
        check("addcmul", &sum, &shape, &[&a, &b], |v, z: f32| {
            let (a, b) = (f64::from(v[0]), f64::from(v[1]));
            z.is_near(a + 0.5 * b * a)
        });
        let quotient = x.addcdiv(&x, &y, 2.0).unwrap();
        check("addcdiv", &quotient, &shape, &[&a, &b], |v, z: f32| {
            let (a, b) = (f64::from(v[0]), f64::from(v[1]));
            z.is_near(a + 2.0 * a / b)
        });
    }
}

#[test]
fn rust_operators_do_what_the_methods_do() {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[1.0f32, -2.0, 3.5], &[3]).unwrap();
    let y = Tensor::scalar(&pool, 2.0f32).unwrap();
    let list = |tensor: streampool_tensor::Result<Tensor>| tensor.unwrap().to_vec::<f32>().unwrap();
    assert_eq!(list(&x + &y), [3.0, 0.0, 5.5]);
    assert_eq!(list(&x - 1.0), [0.0, -3.0, 2.5]);
    assert_eq!(list(1.0 - &x), [0.0, 3.0, -2.5]);
    assert_eq!(list(&x * 2), [2.0, -4.0, 7.0]);
    assert_eq!(list(2 * &x), [2.0, -4.0, 7.0]);
    assert_eq!(list(&x / &y), [0.5, -1.0, 1.75]);
    assert_eq!(list(7.0f32 / &x), [7.0, -3.5, 2.0]);
    assert_eq!(list(&x % 2.0), [1.0, 0.0, 1.5]);
    assert_eq!(list(-&x), [-1.0, 2.0, -3.5]);
}
