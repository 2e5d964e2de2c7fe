//! Random numbers that depend on nothing but a seed and a place.

use crate::check::{float, invalid, require, writable};
use crate::{Access, OpKind, Result, View};

/// What random numbers are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Every value of an integer type is as likely as any other.
    Bits,
    /// Integers from `low` to below `high`, in any number type.
    Integers {
        /// The lowest.
        low: i64,
        /// Above the highest; more than `low`.
        high: i64,
    },
    /// Floats from `low` to below `high`.
    Uniform {
        /// The lowest.
        low: f64,
        /// Above the highest.
        high: f64,
    },
    /// Normally distributed floats.
    Normal {
        /// Their mean.
        mean: f64,
        /// Their standard deviation; not negative.
        deviation: f64,
    },
    /// Exponentially distributed floats.
    Exponential {
        /// How many there are to a unit; positive.
        rate: f64,
    },
    /// 1 (or true) with this probability, else 0; any type.
    Bernoulli {
        /// From 0 to 1.
        probability: f64,
    },
    /// Floats with a gamma distribution of scale 1.
    Gamma {
        /// Its shape; positive.
        concentration: f64,
    },
}

/// `dst =` random numbers.
///
/// Element `i`, counted row-major, is a function of `seed`, `offset + i`, the distribution and the type, and
/// nothing else: it is the same on every device, to the bit, whatever the layout. So ops whose ranges of places do
/// not meet are independent of each other.
///
/// # Words
///
/// They come from Philox 4x32-10 keyed by the seed's lower and upper half. A place `q = offset + i` (modulo 2⁶⁴) of a
/// type of up to 32 bits takes word `q % 4` of the block with the counter `[q / 4 lower, q / 4 upper, 0, 0]`; one of
/// 64 bits takes words `2 * (q % 2)` (lower half) and the next of `[q / 2 lower, q / 2 upper, 1, 0]`; gamma takes the
/// blocks `[q lower, q upper, 2 or 3, n]` for as many `n` as it needs.
///
/// # From words to elements
///
/// `f16` and `bf16` are computed in `f32` and rounded at the end. The numbers of a distribution are rounded to the
/// type computed in, to the largest finite one at most. Each step is one operation of IEEE arithmetic, rounded to
/// nearest, ties to even; `fma(a, b, c)` is `a b + c` rounded once. Of a word `w` of 32 (64) bits these are made:
///
/// - `unit(w)`: its upper 24 (53) bits times 2⁻²⁴ (2⁻⁵³), from 0 to below 1.
/// - `positive(w)`: `fma(w, 2⁻³², 2⁻³³)`, `w` rounded before; of 64 bits its upper 53, plus one, times 2⁻⁵³. From above 0
///   to 1.
/// - `log(x)`: `x = m 2ᵉ` with `m` from √½ to below √2; `s = (m - 1) / (m + 1)`, `z = s s`, `t = s + s`; the result is
///   `fma(e, ln 2, fma(t, z P(z), t))` with `P(z) = 1/3 + z/5 + …` to `z³/9` (`z⁹/21`).
/// - `turn(w)`: of the upper bits `u` of `unit`, the nearest quarter of a turn, halves upwards, and what is left,
///   `x = left 2π`; `y = x x`, sine `fma(x, y S(y), x)` and cosine `fma(y, C(y), 1)` by their Taylor series to `x⁹`
///   (`x¹⁷`) and `x¹⁰` (`x¹⁸`), turned by the quarters.
/// - `exp(x)`, for `x` up to 0: zero below -87 (-708); else `n = round(x log₂ e)`, `r = fma(-n, ln 2, x)`, the Taylor
///   series to `r⁷` (`r¹³`), times `2ⁿ`.
///
/// Polynomials are evaluated by Horner's rule with `fma`. Then:
///
/// - `Bits`: the lower bits of the word.
/// - `Integers`: `low` plus the word times `high - low`, without its lower 32 (64) bits; cast to the type.
/// - `Bernoulli`: whether the upper 32 bits of the word are below `round(probability 2³²)`.
/// - `Uniform`: `low` and `high` are rounded to the type; `fma(unit(w), high - low, low)`, and what that rounds to `high`
///   or above becomes `low`.
/// - `Normal`: of the words `a` and `b` of the places `q & !1` and `q | 1`, the radius is `√(2 (0 - log(positive(a))))`; the
///   even place takes it times the cosine of `turn(b)`, the odd one times the sine, as `z`: `fma(z, deviation, mean)`.
/// - `Exponential`: `(0 - log(positive(w))) / rate`.
/// - `Gamma`: Marsaglia and Tsang. The concentration, raised by one if it is below one, less 1/3 is `d`; `c = 1 / √(9 d)`;
///   both are computed in `f64` and rounded. Attempt `n` from 0 takes four words: those of block `n`, or the pairs of
///   blocks `2 n` and `2 n + 1`. The first two make the cosine's normal number `x`; `r = fma(c, x, 1)` has to be
///   positive; `v = r r r`; it is accepted if `log(positive(third)) < fma(d, (1 - v) + log(v), 0.5 x x)`, and `d v` is the
///   result (after 64 attempts, `d`). A raised concentration multiplies it by `exp(log(positive(fourth)) /
///   concentration)`, by way of the inverse of the concentration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Random<T = View> {
    /// What the numbers are like.
    pub distribution: Distribution,
    /// The result.
    pub dst: T,
    /// Which sequence.
    pub seed: u64,
    /// Where in the sequence the first element is.
    pub offset: u64,
}

impl<T> Random<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Random<U>, E> {
        Ok(Random {
            distribution: self.distribution,
            dst: f("dst", Access::Write, &self.dst)?,
            seed: self.seed,
            offset: self.offset,
        })
    }
}

impl Random<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let (kind, dst) = (OpKind::Random, &self.dst);
        writable(kind, "dst", dst)?;
        let (holds, expected) = match self.distribution {
            Distribution::Bits if !dst.dtype().is_integer() => {
                return Err(invalid(
                    kind,
                    "dst",
                    format_args!("of type {}", dst.dtype()),
                    "an integer type",
                ));
            }
            Distribution::Bits => (true, ""),
            Distribution::Integers { low, high } => {
                require(
                    kind,
                    "dst",
                    dst.dtype() != crate::DType::Bool,
                    "of type bool",
                    "a number type",
                )?;
                (low < high, "low below high")
            }
            Distribution::Uniform { low, high } => (
                low <= high && (high - low).is_finite(),
                "finite, and low not above high",
            ),
            Distribution::Normal { mean, deviation } => (
                mean.is_finite() && deviation >= 0.0 && deviation.is_finite(),
                "a finite mean and a finite deviation that is not negative",
            ),
            Distribution::Exponential { rate } => {
                (rate > 0.0 && rate.is_finite(), "a positive rate")
            }
            Distribution::Bernoulli { probability } => (
                (0.0..=1.0).contains(&probability),
                "a probability from 0 to 1",
            ),
            Distribution::Gamma { concentration } => (
                concentration > 0.0 && concentration.is_finite(),
                "a positive concentration",
            ),
        };
        require(
            kind,
            "distribution",
            holds,
            format_args!("{:?}", self.distribution),
            expected,
        )?;
        match self.distribution {
            Distribution::Uniform { .. }
            | Distribution::Normal { .. }
            | Distribution::Exponential { .. }
            | Distribution::Gamma { .. } => float(kind, "dst", dst),
            _ => Ok(()),
        }
    }
}
