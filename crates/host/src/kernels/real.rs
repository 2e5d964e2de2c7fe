//! What kernels need of the floats that they compute in. Functions such as exponentials are in
//! [`smooth`](super::smooth).

/// A float that kernels compute in.
pub(crate) trait Real:
    Copy
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    /// The root.
    fn sqrt(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// It to the power of another.
    fn powf(self, exponent: Self) -> Self;

    /// The larger; NaN wins.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        // A comparison with NaN is false, and NaN differs from itself.
        let larger = if other > self { other } else { self };
        if is_nan(other) { other } else { larger }
    }
}

#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
pub(crate) fn is_nan<R: PartialOrd + Copy>(value: R) -> bool {
    value != value
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    #[inline(always)]
    fn ln(self) -> f32 {
        f32::ln(self)
    }

    #[inline(always)]
    fn powf(self, exponent: f32) -> f32 {
        f32::powf(self, exponent)
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;

    #[inline(always)]
    fn from_f64(value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    #[inline(always)]
    fn ln(self) -> f64 {
        f64::ln(self)
    }

    #[inline(always)]
    fn powf(self, exponent: f64) -> f64 {
        f64::powf(self, exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_larger() {
        assert!(Real::larger(f32::NAN, 1.0).is_nan() && Real::larger(1.0, f32::NAN).is_nan());
        assert_eq!(Real::larger(2.0f64, 1.0), 2.0);
    }
}
