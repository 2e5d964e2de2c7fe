//! The functions of `f64` that the standard library lacks, to a few units in the last place.

#![allow(
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "coefficients stand as they were fitted"
)]

/// From here on `log(2 x)` is all there is to see of the inverses of the hyperbolic functions.
const FAR_OUT: f64 = 1e9;

/// The polynomial with these coefficients, the constant one first.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients
        .iter()
        .rev()
        .fold(0.0, |sum, &coefficient| sum * x + coefficient)
}

/// `erf(x) / x` in powers of the square of `x`, for `x` up to 1.
#[rustfmt::skip]
const NEAR: [f64; 14] = [
    1.1283791670955125739, -0.37612638903183752379, 0.11283791670955120236, -0.026866170645129840806,
    0.0052239776254232983087, -0.00085483270219348295955, 0.0001205533290288873541,
    -0.000014925647567519332125, 1.6462045441468418937e-6, -1.6364642158167615302e-7,
    1.4792401209404813002e-8, -1.2164560057283450081e-9, 8.7090451290531066896e-11,
    -4.2309458242953378173e-12,
];

/// `erfc(x) * exp(x * x) / s` in powers of `s = 1 / (1 + 0.4 x)`, for `x` from 0 to 27.5.
#[rustfmt::skip]
const FAR: [f64; 25] = [
    0.22567583342140718653, 0.22567583322037632473, 0.20762177466159986737, 0.1715134395248618849,
    0.12168768772627526708, 0.06675929743857551763, 0.018513308000378263543, -0.016819880265645701809,
    -0.0069576382680022256111, -0.097444363752002273951, 0.32408698257860202244, -1.0165099739513266111,
    2.7176817612319340084, -5.8087032851752914824, 10.12530668665323182, -14.268124284423893935,
    15.900365330324810188, -13.752785604983895158, 9.0723473517895165048, -4.4539578840640778985,
    1.5582702228644818686, -0.35564948314222037749, 0.041560296971549167926, 0.00037979331254641399574,
    -0.00049320169379064303,
];

/// `exp(-x * x * scale)` for `scale` a power of two.
fn gauss(x: f64, scale: f64) -> f64 {
    let square = x * x;
    // The rounding of the square would be multiplied by it in the result.
    let lost = x.mul_add(x, -square);
    let result = (-square * scale).exp();
    result - result * lost * scale
}

fn scaled_erfc(x: f64) -> f64 {
    let s = 1.0 / (1.0 + 0.4 * x);
    s * polynomial(s, &FAR)
}

fn near(x: f64) -> f64 {
    x * polynomial(x * x, &NEAR)
}

pub(super) fn asinh(x: f64) -> f64 {
    let size = x.abs();
    let result = if size > FAR_OUT {
        size.ln() + std::f64::consts::LN_2
    } else {
        let square = size * size;
        (size + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(x)
}

pub(super) fn acosh(x: f64) -> f64 {
    if x > FAR_OUT {
        return x.ln() + std::f64::consts::LN_2;
    }
    let above = x - 1.0;
    if x < 1.0 {
        f64::NAN
    } else {
        (above + (above * (above + 2.0)).sqrt()).ln_1p()
    }
}

pub(super) fn atanh(x: f64) -> f64 {
    let size = x.abs();
    (0.5 * (2.0 * size / (1.0 - size)).ln_1p()).copysign(x)
}

pub(super) fn erf(x: f64) -> f64 {
    let size = x.abs().clamp(0.0, 27.0);
    let result = if size < 1.0 {
        near(size)
    } else {
        1.0 - scaled_erfc(size) * gauss(size, 1.0)
    };
    result.copysign(x)
}

pub(crate) fn gelu(x: f64) -> f64 {
    let size = x.abs().clamp(0.0, 38.8);
    let scaled = size * std::f64::consts::FRAC_1_SQRT_2;
    let tail = match scaled < 0.5 {
        true => 0.5 - 0.5 * near(scaled),
        false => 0.5 * scaled_erfc(scaled) * gauss(size, 0.5),
    };
    let factor = if x < 0.0 { tail } else { 1.0 - tail };
    if x == f64::NEG_INFINITY {
        f64::NAN
    } else {
        x * factor
    }
}

pub(crate) fn gelu_tanh(x: f64) -> f64 {
    let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::SQRT_2;
    x * sigmoid(scale * x * (1.0 + 0.044_715 * x * x))
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    let small = (-x.abs()).exp();
    (if x >= 0.0 { 1.0 } else { small }) / (1.0 + small)
}

pub(crate) fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

pub(super) fn softplus(x: f64) -> f64 {
    let positive = if x > 0.0 { x } else { 0.0 };
    positive + (-x.abs()).exp().ln_1p()
}
