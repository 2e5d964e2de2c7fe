//! Activations, each element by itself; the result has the tensor's type. Halves are computed in `f32`.

use streampool_device::{Binary, Compare, Unary, Value};

use super::formula::{Built, Terms, formulas, parametric, unary};

unary! {
    /// `max(x, 0)`; NaN stays.
    relu: Number, own, |e, x| e.unary(Unary::Relu, x);
    /// `1 / (1 + exp(-x))`.
    sigmoid: Float, own, |e, x| e.unary(Unary::Sigmoid, x);
    /// `log(sigmoid(x))`.
    log_sigmoid: Float, wide, |e, x| {
        let negative = e.unary(Unary::Neg, x)?;
        let softplus = e.unary(Unary::Softplus, negative)?;
        e.unary(Unary::Neg, softplus)
    };
    /// `log(1 + exp(x))`.
    softplus: Float, own, |e, x| e.unary(Unary::Softplus, x);
    /// `x / (1 + |x|)`.
    softsign: Float, wide, |e, x| {
        let (magnitude, one) = (e.unary(Unary::Abs, x)?, e.number(1.0)?);
        let divisor = e.binary(Binary::Add, one, magnitude)?;
        e.binary(Binary::Div, x, divisor)
    };
    /// `x Φ(x)`, with the distribution function of the normal distribution.
    gelu: Float, own, |e, x| e.unary(Unary::Gelu, x);
    /// [`gelu`](Self::gelu), approximated by `tanh`.
    gelu_tanh: Float, own, |e, x| e.unary(Unary::GeluTanh, x);
    /// `x sigmoid(x)`.
    silu: Float, own, |e, x| e.unary(Unary::Silu, x);
    /// `x tanh(softplus(x))`.
    mish: Float, wide, |e, x| {
        let softplus = e.unary(Unary::Softplus, x)?;
        let tanh = e.unary(Unary::Tanh, softplus)?;
        e.binary(Binary::Mul, x, tanh)
    };
    /// `x min(max(x / 6 + 1 / 2, 0), 1)`.
    hard_swish: Float, wide, |e, x| {
        let (sixth, half) = (e.number(1.0 / 6.0)?, e.number(0.5)?);
        let gate = hard_sigmoid(e, x, sixth, half)?;
        e.binary(Binary::Mul, x, gate)
    };
}

formulas! {
    /// `x`, and `slope x` where it is negative; `slope` broadcasts, so that one slope for each channel of
    /// `[batch, channels, height, width]` is `[channels, 1, 1]`.
    prelu(slope): Number, wide, |e, x, slope| leaky(e, x, slope);
}

parametric! {
    /// `x`, and `alpha x` where it is negative.
    leaky_relu(alpha): Float, wide, |e, x| leaky(e, x, alpha);
    /// `x`, and `alpha (exp(x) - 1)` where it is negative.
    elu(alpha): Float, wide, |e, x| {
        let decay = e.unary(Unary::Expm1, x)?;
        let scaled = e.binary(Binary::Mul, alpha, decay)?;
        or_if_negative(e, x, scaled)
    };
    /// `gamma x`, and `gamma alpha (exp(x) - 1)` where it is negative. The usual parameters are 1.6732632423543772
    /// and 1.0507009873554805.
    selu(alpha, gamma): Float, wide, |e, x| {
        let decay = e.unary(Unary::Expm1, x)?;
        let (scaled, zero) = (e.binary(Binary::Mul, alpha, decay)?, e.number(0.0)?);
        // Zero is no positive number: an infinite alpha makes NaN of it.
        let curved = e.compare(Compare::Le, x, zero)?;
        let elu = e.select(curved, scaled, x)?;
        e.binary(Binary::Mul, gamma, elu)
    };
    /// `x`, and `alpha (exp(x / alpha) - 1)` where it is negative.
    celu(alpha): Float, wide, |e, x| {
        let ratio = e.binary(Binary::Div, x, alpha)?;
        let decay = e.unary(Unary::Expm1, ratio)?;
        let scaled = e.binary(Binary::Mul, alpha, decay)?;
        or_if_negative(e, x, scaled)
    };
    /// `x sigmoid(alpha x)`; [`silu`](Self::silu), if `alpha` is one.
    swish(alpha): Float, wide, |e, x| {
        let scaled = e.binary(Binary::Mul, alpha, x)?;
        let gate = e.unary(Unary::Sigmoid, scaled)?;
        e.binary(Binary::Mul, x, gate)
    };
    /// `min(max(alpha x + beta, 0), 1)`. PyTorch has 1/6 and 1/2, ONNX 0.2 and 0.5 where they are left out.
    hard_sigmoid(alpha, beta): Float, wide, |e, x| hard_sigmoid(e, x, alpha, beta);
    /// `x` where it is above `alpha`, else zero; NaN stays.
    thresholded_relu(alpha): Float, wide, |e, x| {
        let (below, zero) = (e.compare(Compare::Le, x, alpha)?, e.number(0.0)?);
        e.select(below, zero, x)
    };
    /// `x + bias` where it is below `-lambda`, else `x - bias` where it is above `lambda`, else zero; NaN stays. Soft
    /// shrinkage has `bias` equal to `lambda`, hard shrinkage zero.
    shrink(bias, lambda): Float, wide, |e, x| {
        let (zero, negative) = (e.number(0.0)?, e.unary(Unary::Neg, lambda)?);
        let (inside, low) = (e.compare(Compare::Le, x, lambda)?, e.compare(Compare::Lt, x, negative)?);
        let (lowered, raised) = (e.binary(Binary::Sub, x, bias)?, e.binary(Binary::Add, x, bias)?);
        let high = e.select(inside, zero, lowered)?;
        e.select(low, raised, high)
    };
}

fn or_if_negative(e: &mut Terms, x: Value, other: Value) -> Built {
    let zero = e.number(0.0)?;
    let negative = e.compare(Compare::Lt, x, zero)?;
    e.select(negative, other, x)
}

fn leaky(e: &mut Terms, x: Value, slope: Value) -> Built {
    let scaled = e.binary(Binary::Mul, slope, x)?;
    or_if_negative(e, x, scaled)
}

fn hard_sigmoid(e: &mut Terms, x: Value, alpha: Value, beta: Value) -> Built {
    let scaled = e.binary(Binary::Mul, alpha, x)?;
    let moved = e.binary(Binary::Add, scaled, beta)?;
    let (zero, one) = (e.number(0.0)?, e.number(1.0)?);
    let raised = e.binary(Binary::Max, moved, zero)?;
    e.binary(Binary::Min, raised, one)
}
