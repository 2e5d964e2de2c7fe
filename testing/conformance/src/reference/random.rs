//! Random numbers, one at a time and step by step as the contract states them: every device has these bits.

use streampool_device::{DType, Distribution, Random};

use super::expected::Expected;
use crate::num::{Num, rounded};
use crate::operand::Operand;

pub(crate) fn random(op: &Random<usize>, operands: &[Operand]) -> Vec<Expected> {
    let dst = &operands[op.dst];
    (0..dst.layout.elements() as u64)
        .map(|index| {
            let place = op.offset.wrapping_add(index);
            Expected::exact(match dst.dtype {
                DType::F64 | DType::I64 | DType::U64 => long::element(op, dst.dtype, place),
                dtype => short::element(op, dtype, place),
            })
        })
        .collect()
}

/// The block of a counter.
pub(crate) fn philox(seed: u64, mut counter: [u32; 4]) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let one = u64::from(counter[0]) * 0xD251_1F53;
        let two = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (two >> 32) as u32 ^ counter[1] ^ key[0],
            two as u32,
            (one >> 32) as u32 ^ counter[3] ^ key[1],
            one as u32,
        ];
        key[0] = key[0].wrapping_add(0x9E37_79B9);
        key[1] = key[1].wrapping_add(0xBB67_AE85);
    }
    counter
}

fn block(seed: u64, number: u64, third: u32, fourth: u32) -> [u32; 4] {
    philox(seed, [number as u32, (number >> 32) as u32, third, fourth])
}

/// `(-1)ⁿ / m!` or `1 / m!`, whatever the sign says.
fn factorial(m: u32) -> f64 {
    (1..=m).map(f64::from).product()
}

/// The recipe in one float type; the types differ in their words and in how many terms their series have.
macro_rules! recipe {
    ($name:ident, $real:ty, $word:ty, $signed:ty, $dtype:expr, $kept:expr, $terms:expr, $least:expr,
     $positive:expr, $words:expr, $attempt:expr) => {
        mod $name {
            use super::*;

            /// The logarithm's series ends with the power `2 L + 1` of `s`, sine's and cosine's and that of the
            /// exponential with these powers.
            const TERMS: [u32; 4] = $terms;
            /// Bits of a word that a float holds, and those it does not.
            const KEPT: u32 = $kept;
            const LOST: u32 = <$word>::BITS - KEPT;

            fn step() -> $real {
                (2.0 as $real).powi(-(KEPT as i32))
            }

            fn log(x: $real) -> $real {
                let (mut m, mut e) = (x, 0);
                // Exact: powers of two.
                while m < std::f64::consts::FRAC_1_SQRT_2 as $real {
                    (m, e) = (m * 2.0, e - 1);
                }
                while m >= 2.0 * (std::f64::consts::FRAC_1_SQRT_2 as $real) {
                    (m, e) = (m / 2.0, e + 1);
                }
                let s = (m - 1.0) / (m + 1.0);
                let square = s * s;
                let mut sum = 1.0 / (2 * TERMS[0] + 1) as $real;
                for term in (1..TERMS[0]).rev() {
                    sum = sum.mul_add(square, 1.0 / (2 * term + 1) as $real);
                }
                let twice = s + s;
                let near = twice.mul_add(square * sum, twice);
                (e as $real).mul_add(std::f64::consts::LN_2 as $real, near)
            }

            fn exp(x: $real) -> $real {
                if x.is_nan() || x < $least {
                    return 0.0;
                }
                let n = (x * std::f64::consts::LOG2_E as $real).round_ties_even();
                let rest = (-n).mul_add(std::f64::consts::LN_2 as $real, x);
                let mut sum = (1.0 / factorial(TERMS[3])) as $real;
                for term in (0..TERMS[3]).rev() {
                    sum = sum.mul_add(rest, (1.0 / factorial(term)) as $real);
                }
                sum * (2.0 as $real).powi(n as i32)
            }

            /// The terms of sine (from the third power on) or cosine (from the second on), without the first.
            fn alternating(from: u32, to: u32, square: $real) -> $real {
                let term = |power: u32| {
                    let sign = if power / 2 % 2 == 1 { -1.0 } else { 1.0 };
                    (sign / factorial(power)) as $real
                };
                let mut sum = term(to);
                let mut power = to;
                while power > from {
                    power -= 2;
                    sum = sum.mul_add(square, term(power));
                }
                sum
            }

            fn turned(word: $word) -> [$real; 2] {
                let turn = (word >> LOST) as $signed;
                let quarter = (turn + (1 << (KEPT - 3))) >> (KEPT - 2);
                let beyond = (turn - (quarter << (KEPT - 2))) as $real * step();
                let x = beyond * std::f64::consts::TAU as $real;
                let square = x * x;
                let sine = x.mul_add(square * alternating(3, TERMS[1], square), x);
                let cosine = square.mul_add(alternating(2, TERMS[2], square), 1.0);
                match quarter % 4 {
                    0 => [cosine, sine],
                    1 => [-sine, cosine],
                    2 => [-cosine, -sine],
                    _ => [sine, -cosine],
                }
            }

            fn positive(word: $word) -> $real {
                let positive: fn($word) -> $real = $positive;
                positive(word)
            }

            fn radius(word: $word) -> $real {
                (2.0 * (0.0 - log(positive(word)))).sqrt()
            }

            /// The word of a place.
            fn word(seed: u64, place: u64) -> $word {
                let words: fn(u64, u64) -> $word = $words;
                words(seed, place)
            }

            fn nearest(dtype: DType, value: f64) -> $real {
                let largest = match dtype {
                    DType::F16 => 65504.0,
                    DType::BF16 => f64::from(half::bf16::MAX),
                    DType::F64 => f64::MAX,
                    _ => f64::from(f32::MAX),
                };
                rounded(dtype, value).clamp(-largest, largest) as $real
            }

            fn gamma(seed: u64, place: u64, concentration: f64) -> $real {
                let raised = if concentration < 1.0 {
                    concentration + 1.0
                } else {
                    concentration
                };
                let exact = raised - 1.0 / 3.0;
                let (d, c) = (
                    nearest($dtype, exact),
                    nearest($dtype, 1.0 / (9.0 * exact).sqrt()),
                );
                let (mut result, mut last) = (d, 0);
                for number in 0..64 {
                    let attempt: fn(u64, u64, u32) -> [$word; 4] = $attempt;
                    let [far, turn, level, boost] = attempt(seed, place, number);
                    last = boost;
                    let x = radius(far) * turned(turn)[0];
                    let root = c.mul_add(x, 1.0);
                    if root <= 0.0 {
                        continue;
                    }
                    let v = root * root * root;
                    let most = d.mul_add((1.0 - v) + log(v), 0.5 * x * x);
                    if log(positive(level)) < most {
                        result = d * v;
                        break;
                    }
                }
                if concentration < 1.0 {
                    result *= exp(log(positive(last)) * nearest($dtype, 1.0 / concentration));
                }
                result
            }

            pub(super) fn element(op: &Random<usize>, dtype: DType, place: u64) -> Num {
                let word = |place| word(op.seed, place);
                let float = |value: $real| Num::Float(rounded(dtype, f64::from(value)));
                match op.distribution {
                    Distribution::Bits => Num::Int(i128::from(word(place))).cast(dtype),
                    Distribution::Integers { low, high } => {
                        let range = i128::from(high) - i128::from(low);
                        let share = (word(place) as u128 * range as u128) >> <$word>::BITS;
                        Num::Int(i128::from(low) + share as i128).cast(dtype)
                    }
                    Distribution::Bernoulli { probability } => {
                        let threshold = (probability * 4_294_967_296.0).round_ties_even() as u64;
                        let head = u64::from(word(place) >> (<$word>::BITS - 32));
                        Num::Int(i128::from(head < threshold)).cast(dtype)
                    }
                    Distribution::Uniform { low, high } => {
                        let (low, high) = (nearest(dtype, low), nearest(dtype, high));
                        let span = nearest($dtype, f64::from(high) - f64::from(low));
                        let unit = (word(place) >> LOST) as $real * step();
                        let value = float(unit.mul_add(span, low));
                        match value.float() >= f64::from(high) {
                            true => float(low),
                            false => value,
                        }
                    }
                    Distribution::Normal { mean, deviation } => {
                        let pair = [word(place & !1), word(place | 1)];
                        let number = radius(pair[0]) * turned(pair[1])[(place % 2) as usize];
                        let (mean, deviation) = (nearest($dtype, mean), nearest($dtype, deviation));
                        float(number.mul_add(deviation, mean))
                    }
                    Distribution::Exponential { rate } => {
                        let rate = nearest($dtype, rate).max(<$real>::MIN_POSITIVE);
                        float((0.0 - log(positive(word(place)))) / rate)
                    }
                    Distribution::Gamma { concentration } => {
                        float(gamma(op.seed, place, concentration))
                    }
                }
            }
        }
    };
}

recipe!(
    short,
    f32,
    u32,
    i32,
    DType::F32,
    24,
    [4, 9, 10, 7],
    -87.0,
    |word| (word as f32).mul_add(2f32.powi(-32), 2f32.powi(-33)),
    |seed, place| block(seed, place / 4, 0, 0)[(place % 4) as usize],
    |seed, place, number| block(seed, place, 2, number)
);

recipe!(
    long,
    f64,
    u64,
    i64,
    DType::F64,
    53,
    [10, 17, 18, 13],
    -708.0,
    |word| ((word >> 11) + 1) as f64 * 2f64.powi(-53),
    |seed, place| pairs(block(seed, place / 2, 1, 0))[(place % 2) as usize],
    |seed, place, number| {
        let [first, second] = pairs(block(seed, place, 3, 2 * number));
        let [third, fourth] = pairs(block(seed, place, 3, 2 * number + 1));
        [first, second, third, fourth]
    }
);

/// Words of 64 bits, the lower half first.
fn pairs(words: [u32; 4]) -> [u64; 2] {
    let [a, b, c, d] = words.map(u64::from);
    [a | b << 32, c | d << 32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that the authors of Philox publish.
    #[test]
    fn known_answers() {
        let cases = [
            (
                0,
                [0; 4],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                u64::MAX,
                [u32::MAX; 4],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                0x299f_31d0_a409_3822,
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (seed, counter, block) in cases {
            assert_eq!(philox(seed, counter), block);
        }
    }
}
