//! Functions of the floats that random numbers are computed in: basic operations only, none of them fused by a
//! compiler's choice, so that every device comes to the same bits.

use streampool_kernels::random::{SERIES_F32, SERIES_F64, Series};

use super::philox::Word;
use crate::kernels::real::Real;

/// A float, and the word that it is made of.
pub(super) trait Exact: Real + Send + Sync + 'static {
    type Word: Word;
    const SERIES: Series<Self>;
    const LN_2: Self;
    const LOG2_E: Self;
    const TURN: Self;
    /// Below this the exponential is zero.
    const LEAST_POWER: Self;
    /// `self * x + y`, rounded once.
    fn fma(self, x: Self, y: Self) -> Self;
    /// From 0 to below 1, in even steps.
    fn unit(word: Self::Word) -> Self;
    /// From above 0 to 1.
    fn positive(word: Self::Word) -> Self;
    /// `(mantissa, exponent)` of a positive normal number, the mantissa from √½ to √2.
    fn parts(self) -> (Self, Self);
    /// The nearest quarter of the turn, from 0 to 4, and what is left of the turn.
    fn quarters(word: Self::Word) -> (u32, Self);
    /// The nearest whole number, ties to even.
    fn nearest(self) -> Self;
    /// `2ⁿ`, a normal number.
    fn power_of_two(n: Self) -> Self;
    /// `self` with its sign changed if `negative`.
    fn negated_if(self, negative: bool) -> Self;
}

impl Exact for f32 {
    type Word = u32;
    const SERIES: Series<f32> = SERIES_F32;
    const LN_2: f32 = std::f32::consts::LN_2;
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const TURN: f32 = std::f32::consts::TAU;
    const LEAST_POWER: f32 = -87.0;

    #[inline(always)]
    fn fma(self, x: f32, y: f32) -> f32 {
        self.mul_add(x, y)
    }

    #[inline(always)]
    fn unit(word: u32) -> f32 {
        (word >> 8) as i32 as f32 * (1.0 / 16_777_216.0)
    }

    #[inline(always)]
    fn positive(word: u32) -> f32 {
        const STEP: f32 = 1.0 / 4_294_967_296.0;
        (word as f32).mul_add(STEP, 0.5 * STEP)
    }

    #[inline(always)]
    fn parts(self) -> (f32, f32) {
        const ROOT: u32 = 0x3f35_04f3;
        let above = self.to_bits().wrapping_sub(ROOT);
        let mantissa = f32::from_bits((above & 0x7f_ffff) + ROOT);
        (mantissa, (above as i32 >> 23) as f32)
    }

    #[inline(always)]
    fn quarters(word: u32) -> (u32, f32) {
        let turn = word >> 8;
        let quarter = (turn + (1 << 21)) >> 22;
        let beyond = turn as i32 - (quarter << 22) as i32;
        (quarter, beyond as f32 * (1.0 / 16_777_216.0))
    }

    #[inline(always)]
    fn nearest(self) -> f32 {
        self.round_ties_even()
    }

    #[inline(always)]
    fn power_of_two(n: f32) -> f32 {
        f32::from_bits(((n as i32 + 127) as u32) << 23)
    }

    #[inline(always)]
    fn negated_if(self, negative: bool) -> f32 {
        f32::from_bits(self.to_bits() ^ u32::from(negative) << 31)
    }
}

impl Exact for f64 {
    type Word = u64;
    const SERIES: Series<f64> = SERIES_F64;
    const LN_2: f64 = std::f64::consts::LN_2;
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    const TURN: f64 = std::f64::consts::TAU;
    const LEAST_POWER: f64 = -708.0;

    #[inline(always)]
    fn fma(self, x: f64, y: f64) -> f64 {
        self.mul_add(x, y)
    }

    #[inline(always)]
    fn unit(word: u64) -> f64 {
        (word >> 11) as i64 as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    #[inline(always)]
    fn positive(word: u64) -> f64 {
        ((word >> 11) as i64 + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    #[inline(always)]
    fn parts(self) -> (f64, f64) {
        const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
        let above = self.to_bits().wrapping_sub(ROOT);
        let mantissa = f64::from_bits((above & 0xf_ffff_ffff_ffff) + ROOT);
        (mantissa, (above as i64 >> 52) as i32 as f64)
    }

    #[inline(always)]
    fn quarters(word: u64) -> (u32, f64) {
        let turn = word >> 11;
        let quarter = (turn + (1 << 50)) >> 51;
        let beyond = turn as i64 - (quarter << 51) as i64;
        (
            quarter as u32,
            beyond as f64 * (1.0 / 9_007_199_254_740_992.0),
        )
    }

    #[inline(always)]
    fn nearest(self) -> f64 {
        self.round_ties_even()
    }

    #[inline(always)]
    fn power_of_two(n: f64) -> f64 {
        f64::from_bits(((n as i64 + 1023) as u64) << 52)
    }

    #[inline(always)]
    fn negated_if(self, negative: bool) -> f64 {
        f64::from_bits(self.to_bits() ^ u64::from(negative) << 63)
    }
}

/// The polynomial with these coefficients, the highest power first.
#[inline(always)]
fn horner<R: Exact>(coefficients: &[R], x: R) -> R {
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = sum.fma(x, coefficient);
    }
    sum
}

/// The logarithm of a positive normal number.
#[inline(always)]
pub(super) fn log<R: Exact>(x: R) -> R {
    let (mantissa, exponent) = x.parts();
    let s = (mantissa - R::ONE) / (mantissa + R::ONE);
    let (square, twice) = (s * s, s + s);
    let near = twice.fma(square * horner(R::SERIES.log, square), twice);
    exponent.fma(R::LN_2, near)
}

/// The exponential of a number that is not positive; zero far out.
#[inline(always)]
pub(super) fn exp<R: Exact>(x: R) -> R {
    if x >= R::LEAST_POWER {
        let n = (x * R::LOG2_E).nearest();
        horner(R::SERIES.exp, (-n).fma(R::LN_2, x)) * R::power_of_two(n)
    } else {
        R::ZERO
    }
}

/// Cosine and sine of a turn.
#[inline(always)]
pub(super) fn turned<R: Exact>(word: R::Word) -> [R; 2] {
    let (quarter, beyond) = R::quarters(word);
    let x = beyond * R::TURN;
    let square = x * x;
    let sine = x.fma(square * horner(R::SERIES.sin, square), x);
    let cosine = square.fma(horner(R::SERIES.cos, square), R::ONE);
    let across = quarter & 1 == 1;
    let (near, far) = if across {
        (sine, cosine)
    } else {
        (cosine, sine)
    };
    [
        near.negated_if((quarter + 1) & 2 != 0),
        far.negated_if(quarter & 2 != 0),
    ]
}

/// How far from its mean a pair of standard normal numbers lies.
#[inline(always)]
pub(super) fn radius<R: Exact>(word: R::Word) -> R {
    let minus_log = R::ZERO - log(R::positive(word));
    ((R::ONE + R::ONE) * minus_log).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error of `f` over words spread over all, relative to the value or to `floor`.
    fn worst<W>(of: impl Fn(u64) -> W, f: impl Fn(W) -> (f64, f64), floor: f64) -> f64 {
        let words = (0..100_000u64).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let ends = [
            0,
            1,
            u64::MAX,
            1 << 63,
            (1 << 63) - 1,
            1 << 61,
            (1 << 61) - 1,
        ];
        words
            .chain(ends)
            .map(|word| {
                let (got, wanted) = f(of(word));
                (got - wanted).abs() / wanted.abs().max(floor)
            })
            .fold(0.0, f64::max)
    }

    fn head(word: u64) -> u32 {
        (word >> 32) as u32
    }

    #[test]
    fn logarithms() {
        let short = worst(
            head,
            |word| {
                let x = f32::positive(word);
                (f64::from(log(x)), f64::from(x).ln())
            },
            1e-30,
        );
        assert!(short < 2.5e-7, "{short}");
        let long = worst(
            |word| word,
            |word| {
                let x = f64::positive(word);
                (log(x), x.ln())
            },
            1e-30,
        );
        assert!(long < 5e-16, "{long}");
        assert_eq!((log(1.0f32), log(1.0f64)), (0.0, 0.0));
        assert!((log(1e30f64) - 1e30f64.ln()).abs() < 1e-13, "beyond one");
    }

    #[test]
    fn turns() {
        let short = worst(
            head,
            |word| {
                let angle = f64::from(word >> 8) / 16_777_216.0 * std::f64::consts::TAU;
                (f64::from(turned::<f32>(word)[0]), angle.cos())
            },
            1.0,
        );
        assert!(short < 1.5e-7, "{short}");
        let long = worst(
            |word| word,
            |word| {
                let angle = (word >> 11) as f64 / 2f64.powi(53) * std::f64::consts::TAU;
                (turned::<f64>(word)[1], angle.sin())
            },
            1.0,
        );
        assert!(long < 1e-15, "{long}");
        assert_eq!(turned::<f32>(0), [1.0, 0.0]);
        assert_eq!(turned::<f32>(1 << 30)[1], 1.0, "a quarter");
        assert_eq!(turned::<f64>(1 << 63)[0], -1.0, "a half");
    }

    #[test]
    fn exponentials() {
        for step in 0..=1000 {
            let x = -f64::from(step) * 0.08;
            let (short, long) = (f64::from(exp(x as f32)), exp(x));
            let wanted = f64::from(x as f32).exp();
            assert!((short / wanted - 1.0).abs() < 6e-6, "{x}: {short}");
            assert!((long / x.exp() - 1.0).abs() < 2e-14, "{x}: {long}");
        }
        assert_eq!((exp(-88.0f32), exp(f64::NEG_INFINITY)), (0.0, 0.0));
    }

    #[test]
    fn words_become_numbers_in_their_range() {
        assert_eq!((f32::unit(0), f64::unit(0)), (0.0, 0.0));
        assert!(f32::unit(u32::MAX) < 1.0 && f64::unit(u64::MAX) < 1.0);
        assert!(f32::positive(0) > 0.0 && f64::positive(0) > 0.0);
        assert_eq!(
            (f32::positive(u32::MAX), f64::positive(u64::MAX)),
            (1.0, 1.0)
        );
    }
}
