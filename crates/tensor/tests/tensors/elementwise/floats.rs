//! Floats, NaN and infinities among them.

use half::{bf16, f16};
use streampool_conformance::erf;
use streampool_tensor::Tensor;

use super::{Binary, Rng, Unary, check, pair, pool};
use crate::common::values::{Float, Values, any_float, moderate, shape};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 }
}

/// Functions of one tensor by the name of the operator, its arguments and its formula.
macro_rules! unaries {
    ($($name:ident($($argument:expr),*): $formula:expr;)*) => {
        &[$((stringify!($name), |x| x.$name($($argument),*), $formula)),*]
    };
}

const UNARIES: &[Unary<f64>] = unaries! {
    neg(): |x| -x;
    abs(): f64::abs;
    sign(): |x| if x == 0.0 || x.is_nan() { x } else { x.signum() };
    square(): |x| x * x;
    exp(): f64::exp;
    exp2(): f64::exp2;
    expm1(): f64::exp_m1;
    log(): f64::ln;
    log2(): f64::log2;
    log10(): f64::log10;
    log1p(): f64::ln_1p;
    sqrt(): f64::sqrt;
    rsqrt(): |x| 1.0 / x.sqrt();
    reciprocal(): |x| 1.0 / x;
    sin(): f64::sin;
    cos(): f64::cos;
    tan(): f64::tan;
    asin(): f64::asin;
    acos(): f64::acos;
    atan(): f64::atan;
    sinh(): f64::sinh;
    cosh(): f64::cosh;
    tanh(): f64::tanh;
    asinh(): f64::asinh;
    acosh(): f64::acosh;
    atanh(): f64::atanh;
    erf(): erf;
    floor(): f64::floor;
    ceil(): f64::ceil;
    round(): f64::round_ties_even;
    trunc(): f64::trunc;
    relu(): |x| if x < 0.0 { 0.0 } else { x };
    sigmoid(): sigmoid;
    log_sigmoid(): |x| -softplus(-x);
    softplus(): softplus;
    softsign(): |x| x / (1.0 + x.abs());
    leaky_relu(0.1): |x| if x < 0.0 { 0.1 * x } else { x };
    elu(0.7): |x| if x < 0.0 { 0.7 * x.exp_m1() } else { x };
    selu(1.7, 1.1): |x| 1.1 * if x < 0.0 { 1.7 * x.exp_m1() } else { x };
    celu(2.5): |x| if x < 0.0 { 2.5 * (x / 2.5).exp_m1() } else { x };
    hard_sigmoid(0.2, 0.5): |x| (0.2 * x + 0.5).clamp(0.0, 1.0);
    // Zero times infinity is no number.
    hard_swish(): |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0);
    thresholded_relu(1.5): |x| if x <= 1.5 { 0.0 } else { x };
    shrink(0.5, 1.5): |x| match x {
        _ if x > 1.5 => x - 0.5,
        _ if x < -1.5 => x + 0.5,
        _ if x.is_nan() => x,
        _ => 0.0,
    };
    add(2): |x| x + 2.0;
    rsub(2): |x| 2.0 - x;
    rdiv(3): |x| 3.0 / x;
    rpow(2.0): |x| 2f64.powf(x);
    clamp(-1, 2): |x| x.clamp(-1.0, 2.0);
};

/// Functions whose value at minus infinity is a matter of taste: zero, or NaN for `-∞ * 0`.
const TAILS: &[Unary<f64>] = unaries! {
    gelu(): |x| x * 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2));
    gelu_tanh(): |x| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        0.5 * x * (1.0 + inner.tanh())
    };
    silu(): |x| x * sigmoid(x);
    swish(1.7): |x| x * sigmoid(1.7 * x);
    mish(): |x| x * softplus(x).tanh();
};

fn modulo(x: f64, y: f64) -> f64 {
    let rest = x % y;
    let differs = rest != 0.0 && (rest < 0.0) != (y < 0.0);
    if differs { rest + y } else { rest }
}

/// NaN wins over either.
fn extreme(x: f64, y: f64, better: fn(f64, f64) -> f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else {
        better(x, y)
    }
}

macro_rules! binaries {
    ($($name:ident: $formula:expr;)*) => {
        &[$((stringify!($name), |x, y| x.$name(y), $formula)),*]
    };
}

const BINARIES: &[Binary<f64>] = binaries! {
    add: |x, y| x + y;
    sub: |x, y| x - y;
    rsub: |x, y| y - x;
    mul: |x, y| x * y;
    div: |x, y| x / y;
    rdiv: |x, y| y / x;
    rem: |x, y| x % y;
    modulo: modulo;
    pow: f64::powf;
    atan2: f64::atan2;
    minimum: |x, y| extreme(x, y, f64::min);
    maximum: |x, y| extreme(x, y, f64::max);
    prelu: |x, y| if x < 0.0 { x * y } else { x };
};

fn unary<T: Float>(seed: u64, functions: &[Unary<f64>], of: fn(&mut Rng) -> T) {
    let (pool, mut choices) = (pool(), Rng::new(seed));
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
    let (pool, mut choices) = (pool(), Rng::new(seed));
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
    for (name, got, wanted) in [
        ("asinh", x.asinh(), f64::asinh as fn(f64) -> f64),
        ("acosh", x.acosh(), f64::acosh),
        ("atanh", x.atanh(), f64::atanh),
    ] {
        for (&x, got) in values.iter().zip(got.unwrap().to_vec::<f32>().unwrap()) {
            let (got, wanted) = (f64::from(got), wanted(f64::from(x)));
            let near = (got - wanted).abs() <= 1e-6 * wanted.abs();
            let neither = got.is_nan() && wanted.is_nan();
            assert!(near || neither, "{name}({x}) is {got}");
        }
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
    let (pool, mut choices) = (pool(), Rng::new(21));
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
