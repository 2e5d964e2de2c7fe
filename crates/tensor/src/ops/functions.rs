//! Functions of floats, each element by itself; the result has the tensor's type.

use streampool_device::{Binary, Unary};

use super::formula::unary;

unary! {
    /// `e` to the power of each element.
    exp: Float, own, |e, x| e.unary(Unary::Exp, x);
    /// Two to the power of each element.
    exp2: Float, wide, |e, x| {
        let two = e.number(2.0)?;
        e.binary(Binary::Pow, two, x)
    };
    /// `exp(x) - 1`, exact near zero.
    expm1: Float, own, |e, x| e.unary(Unary::Expm1, x);
    /// The natural logarithm.
    log: Float, own, |e, x| e.unary(Unary::Log, x);
    /// The logarithm of base two.
    log2: Float, wide, |e, x| {
        let (log, scale) = (e.unary(Unary::Log, x)?, e.number(std::f64::consts::LOG2_E)?);
        e.binary(Binary::Mul, log, scale)
    };
    /// The logarithm of base ten.
    log10: Float, wide, |e, x| {
        let (log, scale) = (e.unary(Unary::Log, x)?, e.number(std::f64::consts::LOG10_E)?);
        e.binary(Binary::Mul, log, scale)
    };
    /// `log(1 + x)`, exact near zero.
    log1p: Float, own, |e, x| e.unary(Unary::Log1p, x);
    /// The square root.
    sqrt: Float, own, |e, x| e.unary(Unary::Sqrt, x);
    /// `1 / sqrt(x)`.
    rsqrt: Float, own, |e, x| e.unary(Unary::Rsqrt, x);
    /// `1 / x`.
    reciprocal: Float, own, |e, x| e.unary(Unary::Recip, x);
    /// The sine.
    sin: Float, own, |e, x| e.unary(Unary::Sin, x);
    /// The cosine.
    cos: Float, own, |e, x| e.unary(Unary::Cos, x);
    /// The tangent.
    tan: Float, own, |e, x| e.unary(Unary::Tan, x);
    /// The angle of this sine, from -π/2 to π/2.
    asin: Float, own, |e, x| e.unary(Unary::Asin, x);
    /// The angle of this cosine, from 0 to π.
    acos: Float, own, |e, x| e.unary(Unary::Acos, x);
    /// The angle of this tangent, from -π/2 to π/2.
    atan: Float, own, |e, x| e.unary(Unary::Atan, x);
    /// The hyperbolic sine.
    sinh: Float, own, |e, x| e.unary(Unary::Sinh, x);
    /// The hyperbolic cosine.
    cosh: Float, own, |e, x| e.unary(Unary::Cosh, x);
    /// The hyperbolic tangent.
    tanh: Float, own, |e, x| e.unary(Unary::Tanh, x);
    /// The number with this hyperbolic sine.
    asinh: Float, own, |e, x| e.unary(Unary::Asinh, x);
    /// The number that is not negative and has this hyperbolic cosine; NaN below one.
    acosh: Float, own, |e, x| e.unary(Unary::Acosh, x);
    /// The number with this hyperbolic tangent; NaN beyond one.
    atanh: Float, own, |e, x| e.unary(Unary::Atanh, x);
    /// The error function.
    erf: Float, own, |e, x| e.unary(Unary::Erf, x);
    /// The largest whole number that is not larger.
    floor: Float, own, |e, x| e.unary(Unary::Floor, x);
    /// The smallest whole number that is not smaller.
    ceil: Float, own, |e, x| e.unary(Unary::Ceil, x);
    /// The nearest whole number, halves to the even one.
    round: Float, own, |e, x| e.unary(Unary::Round, x);
    /// The whole number before the point.
    trunc: Float, own, |e, x| e.unary(Unary::Trunc, x);
}
