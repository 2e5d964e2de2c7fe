//! Functions of the floats that kernels compute in, written so that loops over `f32` vectorise.
//!
//! There is no fused multiply-add here: the result is the same on every machine. Those that have it are in
//! [`smooth`](super::smooth).

use streampool_device::Activation;

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
    /// The exponential.
    fn exp(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The standard normal distribution function.
    fn phi(self) -> Self;

    /// The larger; NaN wins.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        // A comparison with NaN is false, and NaN differs from itself.
        let larger = if other > self { other } else { self };
        if is_nan(other) { other } else { larger }
    }

    /// `1 / (1 + e⁻ˣ)`.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
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
    fn exp(self) -> f32 {
        // Beyond these the result is infinite or zero; comparisons, not `clamp`, let NaN through.
        let x = if self > 89.0 { 89.0 } else { self };
        let x = if x < -104.0 { -104.0 } else { x };
        // Adding this leaves the nearest integer in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        // ln 2 in two parts, the first exact in products with n.
        let r = x - n * 0.693_359_4;
        let r = r - n * -2.121_944_4e-4;
        let mut p = 1.0 / 5040.0;
        for coefficient in [
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            p = p * r + coefficient;
        }
        // 2ⁿ in two factors, so that each is a normal number.
        let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
        let half = n >> 1;
        p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
    }

    #[inline(always)]
    fn tanh(self) -> f32 {
        let magnitude = self.abs();
        // Near zero the quotient would cancel: the odd series does not.
        let z = self * self;
        let mut p = 21_844.0 / 6_081_075.0;
        for coefficient in [
            -1382.0 / 155_925.0,
            62.0 / 2835.0,
            -17.0 / 315.0,
            2.0 / 15.0,
            -1.0 / 3.0,
        ] {
            p = p * z + coefficient;
        }
        let near = self + self * z * p;
        let far = 1.0 - 2.0 / ((magnitude + magnitude).exp() + 1.0);
        if magnitude < 0.5 {
            near
        } else {
            far.copysign(self)
        }
    }

    #[inline(always)]
    fn phi(self) -> f32 {
        let z = self.abs() * std::f32::consts::FRAC_1_SQRT_2;
        // erfc(z) = e^(-z²) t P(t), t = 1 / (1 + 0.4 z): P interpolates at Chebyshev points.
        let t = 1.0 / (1.0 + 0.4 * z);
        let mut p = 0.049_262_524;
        for coefficient in [
            -0.178_659_17,
            0.161_587_94,
            0.001_556_209,
            0.137_409_83,
            0.169_891_22,
            0.207_580_39,
            0.225_696_38,
            0.225_674_78,
        ] {
            p = p * t + coefficient;
        }
        let tail = 0.5 * p * t * (-(z * z)).exp();
        if self < 0.0 { tail } else { 1.0 - tail }
    }
}

/// `2ⁿ` for `n` from -126 to 127; anything for others.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
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
    fn exp(self) -> f64 {
        f64::exp(self)
    }

    #[inline(always)]
    fn tanh(self) -> f64 {
        f64::tanh(self)
    }

    #[inline(always)]
    fn phi(self) -> f64 {
        let tail = 0.5 * erfc(self.abs() * std::f64::consts::FRAC_1_SQRT_2);
        if self < 0.0 { tail } else { 1.0 - tail }
    }
}

/// The complementary error function of a value that is not negative.
fn erfc(z: f64) -> f64 {
    if z > 27.0 {
        return 0.0;
    }
    let scale = (-z * z).exp() / std::f64::consts::PI.sqrt();
    if z < 2.0 {
        // erf(z) = 2 e^(-z²)/√π Σ 2ⁿ z²ⁿ⁺¹ / (2n+1)!!: all terms positive.
        let (mut term, mut sum, mut odd) = (z, z, 1.0);
        while term > sum * 1e-17 {
            odd += 2.0;
            term *= 2.0 * z * z / odd;
            sum += term;
        }
        return 1.0 - 2.0 * scale * sum;
    }
    // erfc(z) = e^(-z²)/√π / (z + (1/2)/(z + (2/2)/(z + (3/2)/(z + …)))).
    let mut fraction = z;
    for n in (1..=80).rev() {
        fraction = z + f64::from(n) * 0.5 / fraction;
    }
    if z.is_nan() { z } else { scale / fraction }
}

/// Applies `activation` to each value in place.
#[inline(always)]
pub(crate) fn activate<R: Real>(activation: Activation, values: &mut [R]) {
    // Each arm spells its loop out, so that the function is inlined into it and the loop vectorised.
    match activation {
        Activation::None => {}
        Activation::Relu => values
            .iter_mut()
            .for_each(|value| *value = R::ZERO.larger(*value)),
        Activation::Gelu => values.iter_mut().for_each(|value| *value = gelu(*value)),
        Activation::GeluTanh => values
            .iter_mut()
            .for_each(|value| *value = gelu_tanh(*value)),
        Activation::Silu => values.iter_mut().for_each(|value| *value = silu(*value)),
        Activation::Sigmoid => values.iter_mut().for_each(|value| *value = value.sigmoid()),
        Activation::Tanh => values.iter_mut().for_each(|value| *value = value.tanh()),
    }
}

#[inline(always)]
fn silu<R: Real>(x: R) -> R {
    // At -inf the product would be infinity times zero; the limit is zero.
    let product = x * x.sigmoid();
    if x == R::NEG_INFINITY {
        -R::ZERO
    } else {
        product
    }
}

#[inline(always)]
fn gelu<R: Real>(x: R) -> R {
    let product = x * x.phi();
    if x == R::NEG_INFINITY {
        -R::ZERO
    } else {
        product
    }
}

#[inline(always)]
fn gelu_tanh<R: Real>(x: R) -> R {
    // (1 + tanh u) / 2 = σ(2u), which does not cancel for negative u.
    let twice = R::from_f64(2.0 * 0.797_884_560_802_865_4);
    let product = x * (twice * (x + R::from_f64(0.044_715) * x * x * x)).sigmoid();
    if x == R::NEG_INFINITY {
        -R::ZERO
    } else {
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error relative to the value, or to one where the value is smaller than `floor`.
    fn worst(
        f: impl Fn(f32) -> f32,
        exact: impl Fn(f64) -> f64,
        from: f32,
        to: f32,
        floor: f64,
    ) -> f64 {
        (0..=200_000)
            .map(|i| from + (to - from) * (i as f32 / 200_000.0))
            .map(|x| {
                let wanted = exact(f64::from(x));
                (f64::from(f(x)) - wanted).abs() / wanted.abs().max(floor)
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn short_functions_are_accurate() {
        let smallest = f64::from(f32::MIN_POSITIVE);
        assert!(worst(Real::exp, f64::exp, -87.0, 88.7, smallest) < 2e-7);
        assert!(worst(Real::tanh, f64::tanh, -10.0, 10.0, 1e-30) < 4e-7);
        assert!(worst(Real::phi, Real::phi, -12.0, 12.0, smallest) < 2e-5);
        assert!(worst(Real::phi, Real::phi, -3.0, 12.0, smallest) < 2e-6);
    }

    #[test]
    fn limits_and_nan() {
        assert_eq!(Real::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(Real::exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(Real::exp(0.0f32), 1.0);
        assert!(Real::exp(-100.0f32) > 0.0, "gradual underflow");
        assert_eq!(
            (Real::tanh(f32::NEG_INFINITY), Real::tanh(f32::INFINITY)),
            (-1.0, 1.0)
        );
        assert!(
            Real::exp(f32::NAN).is_nan()
                && Real::tanh(f32::NAN).is_nan()
                && f32::NAN.phi().is_nan()
        );
        assert!(f64::NAN.phi().is_nan());
        assert!(Real::larger(f32::NAN, 1.0).is_nan() && Real::larger(1.0, f32::NAN).is_nan());
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
            let mut values = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0];
            activate(activation, &mut values);
            assert!(
                values[0] == 0.0
                    && values[1] == f32::INFINITY
                    && values[2].is_nan()
                    && values[3] == 0.0
            );
        }
    }

    #[test]
    fn the_normal_distribution_in_f64() {
        // Reference values with 16 digits.
        for (x, wanted) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (-2.0, 0.022_750_131_948_179_21),
            (-5.0, 2.866_515_718_791_939e-7),
            (-10.0, 7.619_853_024_160_527e-24),
        ] {
            assert!((f64::phi(x) / wanted - 1.0f64).abs() < 1e-13, "{x}");
        }
    }
}
