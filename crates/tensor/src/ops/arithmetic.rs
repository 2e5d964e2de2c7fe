//! Arithmetic. Tensors broadcast as in NumPy and are of one type, which is the result's; a number is taken as one
//! of that type.

use streampool_device::{Binary, Compare, Unary, Value};

use super::formula::{Built, Terms, formulas, unary};

formulas! {
    /// `self + other`; integers wrap.
    add(other): Number, own, |e, x, y| e.binary(Binary::Add, x, y);
    /// `self - other`; integers wrap.
    sub(other): Number, own, |e, x, y| e.binary(Binary::Sub, x, y);
    /// `other - self`; integers wrap.
    rsub(other): Number, own, |e, x, y| e.binary(Binary::Sub, y, x);
    /// `self * other`; integers wrap.
    mul(other): Number, own, |e, x, y| e.binary(Binary::Mul, x, y);
    /// `self / other`; of integers, rounded towards zero, and zero where `other` is zero.
    div(other): Number, own, |e, x, y| e.binary(Binary::Div, x, y);
    /// `other / self`; of integers, rounded towards zero, and zero where `self` is zero.
    rdiv(other): Number, own, |e, x, y| e.binary(Binary::Div, y, x);
    /// The largest whole number that is at most `self / other`, as Python's `//`; of integers zero where `other` is
    /// zero.
    floor_div(other): Number, wide, |e, x, y| floor_div(e, x, y);
    /// The remainder of a division that rounds towards zero: it has the sign of `self`. That of an integer by zero is
    /// zero. In C `fmod`.
    rem(other): Number, own, |e, x, y| e.binary(Binary::Rem, x, y);
    /// `other` modulo `self`, as [`rem`](Self::rem) of the two changed about.
    rrem(other): Number, own, |e, x, y| e.binary(Binary::Rem, y, x);
    /// The remainder of a division that rounds down, as Python's `%`: it has the sign of `other`. That of an integer
    /// by zero is zero.
    modulo(other): Number, wide, |e, x, y| modulo(e, x, y);
    /// `self` to the power of `other`. Integers wrap, and are zero for a negative power, unless they are one or minus
    /// one.
    pow(other): Number, own, |e, x, y| e.binary(Binary::Pow, x, y);
    /// `other` to the power of `self`, as [`pow`](Self::pow) of the two changed about.
    rpow(other): Number, own, |e, x, y| e.binary(Binary::Pow, y, x);
    /// The smaller of the two; NaN where one is.
    minimum(other): Number, own, |e, x, y| e.binary(Binary::Min, x, y);
    /// The larger of the two; NaN where one is.
    maximum(other): Number, own, |e, x, y| e.binary(Binary::Max, x, y);
    /// The angle of the point whose ordinate is `self` and whose abscissa is `other`, from -π to π.
    atan2(other): Float, own, |e, x, y| e.binary(Binary::Atan2, x, y);
    /// `min(max(self, low), high)`; NaN stays, and `high` wins where `low` is above it.
    clamp(low, high): Number, own, |e, x, low, high| {
        let raised = e.binary(Binary::Max, x, low)?;
        e.binary(Binary::Min, raised, high)
    };
    /// `self + weight * (end - self)`, and exactly `end` for a weight of one.
    lerp(end, weight): Float, wide, |e, x, end, weight| lerp(e, x, end, weight);
    /// `self + value * a * b`.
    addcmul(a, b, value): Number, wide, |e, x, a, b, value| {
        let product = e.binary(Binary::Mul, a, b)?;
        let scaled = e.binary(Binary::Mul, value, product)?;
        e.binary(Binary::Add, x, scaled)
    };
    /// `self + value * a / b`.
    addcdiv(a, b, value): Float, wide, |e, x, a, b, value| {
        let quotient = e.binary(Binary::Div, a, b)?;
        let scaled = e.binary(Binary::Mul, value, quotient)?;
        e.binary(Binary::Add, x, scaled)
    };
}

unary! {
    /// `-self`; integers wrap.
    neg: Number, own, |e, x| e.unary(Unary::Neg, x);
    /// The absolute value; the lowest of a signed integer type stays.
    abs: Number, own, |e, x| e.unary(Unary::Abs, x);
    /// -1, 0 or 1; zeros keep their sign, and NaN stays.
    sign: Number, own, |e, x| e.unary(Unary::Sign, x);
    /// `self * self`; integers wrap.
    square: Number, own, |e, x| e.binary(Binary::Mul, x, x);
}

/// A division's remainder with the dividend's sign, and whether the divisor's is the other one.
fn remainder(e: &mut Terms, x: Value, y: Value) -> streampool_device::Result<(Value, Value)> {
    let zero = e.number(0.0)?;
    let rest = e.binary(Binary::Rem, x, y)?;
    let below = e.compare(Compare::Lt, rest, zero)?;
    let divisor_below = e.compare(Compare::Lt, y, zero)?;
    let apart = e.binary(Binary::Xor, below, divisor_below)?;
    let left = e.compare(Compare::Ne, rest, zero)?;
    Ok((rest, e.binary(Binary::And, left, apart)?))
}

fn modulo(e: &mut Terms, x: Value, y: Value) -> Built {
    let (rest, moves) = remainder(e, x, y)?;
    let moved = e.binary(Binary::Add, rest, y)?;
    e.select(moves, moved, rest)
}

/// Not just `floor(x / y)`: that of 1 / 0.1 would be 10, where 0.1 is a little more than a tenth.
fn floor_div(e: &mut Terms, x: Value, y: Value) -> Built {
    let (rest, moves) = remainder(e, x, y)?;
    let plain = e.binary(Binary::Div, x, y)?;
    let truncated = if e.computes_floats() {
        let divisible = e.binary(Binary::Sub, x, rest)?;
        // Whole but for rounding.
        let quotient = e.binary(Binary::Div, divisible, y)?;
        e.unary(Unary::Round, quotient)?
    } else {
        plain
    };
    let (zero, one) = (e.number(0.0)?, e.number(1.0)?);
    let below = e.binary(Binary::Sub, truncated, one)?;
    let floor = e.select(moves, below, truncated)?;
    let by_zero = e.compare(Compare::Eq, y, zero)?;
    e.select(by_zero, plain, floor)
}

/// From the nearer end, so that it is exact at both.
pub(super) fn lerp(e: &mut Terms, start: Value, end: Value, weight: Value) -> Built {
    let distance = e.binary(Binary::Sub, end, start)?;
    let (half, one) = (e.number(0.5)?, e.number(1.0)?);
    let ahead = e.binary(Binary::Mul, weight, distance)?;
    let forward = e.binary(Binary::Add, start, ahead)?;
    let rest = e.binary(Binary::Sub, one, weight)?;
    let back = e.binary(Binary::Mul, rest, distance)?;
    let backward = e.binary(Binary::Sub, end, back)?;
    let near = e.compare(Compare::Lt, weight, half)?;
    e.select(near, forward, backward)
}
