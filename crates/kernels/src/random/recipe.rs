//! The numbers that random elements are computed with, on the host and in kernels.

use half::{bf16, f16};
use streampool_device::{DType, Distribution};

/// A distribution for elements of one type. Floats are values of the type that elements are computed in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Recipe {
    /// The lower bits of the word.
    Bits,
    /// The lowest integer, and how many there are.
    Integers {
        /// The lowest.
        low: i64,
        /// How many: not zero.
        range: u64,
    },
    /// Whether the upper 32 bits of the word are below this.
    Bernoulli {
        /// From 0 to 2³².
        threshold: u64,
    },
    /// From `low` on, over `span`; what comes to `high` becomes `low`.
    Uniform {
        /// The lowest.
        low: f64,
        /// What is not reached.
        high: f64,
        /// Their distance.
        span: f64,
    },
    /// `fma(standard normal, deviation, mean)`.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// Divided by the rate.
    Exponential {
        /// The rate.
        rate: f64,
    },
    /// Marsaglia and Tsang's `d` and `c`.
    Gamma {
        /// `concentration - 1/3`, of the raised concentration.
        d: f64,
        /// `1 / √(9 d)`.
        c: f64,
        /// `1 / concentration`, where it is below one and was raised by one.
        boost: Option<f64>,
    },
}

impl Recipe {
    /// The recipe of `distribution` for elements of `dtype`.
    pub fn of(distribution: &Distribution, dtype: DType) -> Recipe {
        let wide = match dtype {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        match *distribution {
            Distribution::Bits => Recipe::Bits,
            Distribution::Integers { low, high } => Recipe::Integers {
                low,
                range: high.wrapping_sub(low) as u64,
            },
            Distribution::Bernoulli { probability } => Recipe::Bernoulli {
                threshold: (probability * TWO_32).round_ties_even() as u64,
            },
            Distribution::Uniform { low, high } => {
                let (low, high) = (nearest(dtype, low), nearest(dtype, high));
                Recipe::Uniform {
                    low,
                    high,
                    span: nearest(wide, high - low),
                }
            }
            Distribution::Normal { mean, deviation } => Recipe::Normal {
                mean: nearest(wide, mean),
                deviation: nearest(wide, deviation),
            },
            Distribution::Exponential { rate } => Recipe::Exponential {
                rate: nearest(wide, rate).max(smallest(wide)),
            },
            Distribution::Gamma { concentration } => {
                let raised = concentration < 1.0;
                let shape = concentration + f64::from(u8::from(raised));
                let d = shape - 1.0 / 3.0;
                Recipe::Gamma {
                    d: nearest(wide, d),
                    c: nearest(wide, 1.0 / (9.0 * d).sqrt()),
                    boost: raised.then(|| nearest(wide, 1.0 / concentration)),
                }
            }
        }
    }
}

const TWO_32: f64 = 4_294_967_296.0;

/// The nearest value of a float type, the largest finite one for what is larger.
fn nearest(dtype: DType, value: f64) -> f64 {
    let (rounded, largest) = match dtype {
        DType::F16 => (f16::from_f64(value).to_f64(), f16::MAX.to_f64()),
        DType::BF16 => (bf16::from_f64(value).to_f64(), bf16::MAX.to_f64()),
        DType::F64 => (value, f64::MAX),
        _ => (f64::from(value as f32), f64::from(f32::MAX)),
    };
    rounded.clamp(-largest, largest)
}

fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_type() {
        let uniform = Distribution::Uniform {
            low: 0.1,
            high: 1e6,
        };
        let Recipe::Uniform { low, high, span } = Recipe::of(&uniform, DType::F16) else {
            panic!("a uniform distribution stays one");
        };
        assert_eq!(low, f16::from_f64(0.1).to_f64());
        assert_eq!((high, span), (65504.0, f64::from((65504.0 - low) as f32)));
        let all = Distribution::Integers {
            low: i64::MIN,
            high: i64::MAX,
        };
        assert_eq!(
            Recipe::of(&all, DType::I64),
            Recipe::Integers {
                low: i64::MIN,
                range: u64::MAX
            }
        );
        let sure = Distribution::Bernoulli { probability: 1.0 };
        assert_eq!(
            Recipe::of(&sure, DType::Bool),
            Recipe::Bernoulli { threshold: 1 << 32 }
        );
    }

    #[test]
    fn no_number_is_infinite_or_divides_by_zero() {
        for (distribution, dtype) in [
            (Distribution::Exponential { rate: 1e-300 }, DType::F32),
            (
                Distribution::Gamma {
                    concentration: 1e-310,
                },
                DType::F64,
            ),
            (
                Distribution::Gamma {
                    concentration: 1e300,
                },
                DType::BF16,
            ),
            (
                Distribution::Normal {
                    mean: -1e300,
                    deviation: 1e300,
                },
                DType::F32,
            ),
        ] {
            let all_good = match Recipe::of(&distribution, dtype) {
                Recipe::Exponential { rate } => rate > 0.0,
                Recipe::Gamma { d, c, boost } => {
                    d.is_finite() && c.is_finite() && boost.unwrap_or(1.0).is_finite()
                }
                Recipe::Normal { mean, deviation } => mean.is_finite() && deviation.is_finite(),
                _ => false,
            };
            assert!(all_good, "{distribution:?}");
        }
    }
}
