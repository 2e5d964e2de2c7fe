//! Random numbers: the bits that the contract states, and the distributions that they follow.

use streampool_device::{DType, Distribution, Op, OpKind, Random};

use crate::execute::{Example, bits, check};
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::operand::Operand;
use crate::random::{FLOATS, any_shape, target};
use crate::rng::Rng;

fn random(distribution: Distribution, seed: u64, offset: u64) -> Op<usize> {
    Op::Random(Random {
        distribution,
        dst: 0,
        seed,
        offset,
    })
}

fn distribution(rng: &mut Rng, dtype: DType) -> Distribution {
    let low = rng.real(-3.0, 3.0);
    let kinds = match dtype {
        DType::Bool => 1,
        _ if dtype.is_integer() => 3,
        _ => 7,
    };
    match rng.below(kinds) {
        0 => Distribution::Bernoulli {
            probability: rng.pick(&[0.0, 0.1, 0.5, 1.0]),
        },
        1 => {
            let low = rng.between(-100, 100);
            let width = rng.pick(&[1, 2, 7, 1000, 1 << 31, 1 << 40]);
            Distribution::Integers {
                low,
                high: low + width,
            }
        }
        2 if dtype.is_integer() => Distribution::Bits,
        2 | 3 => Distribution::Uniform {
            low,
            high: low + rng.pick(&[0.0, 1e-3, 1.0, 1e4]),
        },
        4 => Distribution::Normal {
            mean: low,
            deviation: rng.pick(&[0.0, 0.3, 1.0, 40.0]),
        },
        5 => Distribution::Exponential {
            rate: rng.real(0.1, 9.0),
        },
        _ => Distribution::Gamma {
            concentration: rng.pick(&[0.02, 0.5, 0.999, 1.0, 2.5, 300.0]),
        },
    }
}

/// Any distribution, in any layout, from any place on.
pub(crate) fn any_random(rng: &mut Rng, dtype: DType) -> Example {
    let shape = any_shape(rng, 600);
    let dst = target(rng, dtype, &shape);
    let offset = match rng.below(4) {
        0 => 0,
        1 => rng.bits() >> 30,
        2 => u64::MAX - rng.bits() % 500,
        _ => rng.bits(),
    };
    let op = random(distribution(rng, dtype), rng.bits(), offset);
    (op, vec![dst])
}

/// The recipe's bits, for every type and distribution, in any layout, from any place on.
pub fn random_numbers_are_those_of_the_recipe(fixture: &Fixture) {
    if !fixture.supports(OpKind::Random) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(90);
    for dtype in DType::ALL {
        for _ in 0..40 {
            let (op, operands) = any_random(&mut rng, dtype);
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// Rows of lengths around the blocks that a device may draw in, from places around them.
pub fn random_numbers_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Random) {
        return;
    }
    let mut lane = fixture.lane();
    for (dtype, distribution) in [
        (
            DType::F32,
            Distribution::Normal {
                mean: 0.0,
                deviation: 1.0,
            },
        ),
        (
            DType::F64,
            Distribution::Uniform {
                low: 0.0,
                high: 1.0,
            },
        ),
        (DType::U8, Distribution::Bits),
    ] {
        for block in [0, 4, 64, 512, 1024, 4096] {
            for length in [block, block + 1, block + 3] {
                for offset in [0, 1, 3, 63] {
                    let dst = Operand::row_major(dtype, &[length]);
                    check(fixture, &mut lane, &random(distribution, 5, offset), &[dst]);
                }
            }
        }
    }
}

/// A sequence drawn at once is the same as one drawn in parts.
pub fn parts_of_a_sequence_are_the_sequence(fixture: &Fixture) {
    if !fixture.supports(OpKind::Random) {
        return;
    }
    let mut lane = fixture.lane();
    let normal = Distribution::Normal {
        mean: 1.0,
        deviation: 2.0,
    };
    const LENGTH: usize = 3000;
    for dtype in fixture.of(FLOATS) {
        let mut draw = |from: usize, length: usize| {
            let dst = [Operand::row_major(dtype, &[length])];
            let mut bytes =
                bits(fixture, &mut lane, &random(normal, 77, from as u64), &dst).remove(0);
            bytes.truncate(length * dtype.size());
            bytes
        };
        let whole = draw(0, LENGTH);
        let mut parts = Vec::new();
        for (from, to) in [(0, 1), (1, 130), (130, 1027), (1027, LENGTH)] {
            parts.extend(draw(from, to - from));
        }
        assert!(whole == parts, "{dtype}");
    }
}

/// The numbers of a distribution, sorted.
fn sorted(
    fixture: &Fixture,
    lane: &mut Lane,
    dtype: DType,
    distribution: Distribution,
    count: usize,
) -> Vec<f64> {
    let mut dst = Operand::row_major(dtype, &[count]);
    let op = random(distribution, 2024, 0);
    dst.replace(bits(fixture, lane, &op, &[dst.clone()]).remove(0));
    let mut values: Vec<f64> = dst
        .values()
        .into_iter()
        .map(|value| value.float())
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Mean, deviation and the greatest distance from the distribution function are what chance allows.
pub fn random_numbers_follow_their_distribution(fixture: &Fixture) {
    if !fixture.supports(OpKind::Random) {
        return;
    }
    let mut lane = fixture.lane();
    const COUNT: usize = 1 << 16;
    let root = (COUNT as f64).sqrt();
    type Function = fn(f64) -> f64;
    let cases: [(Distribution, f64, f64, Function); 5] = [
        (
            Distribution::Uniform {
                low: -1.0,
                high: 3.0,
            },
            1.0,
            4.0 / 12f64.sqrt(),
            |x| (x + 1.0) / 4.0,
        ),
        (
            Distribution::Normal {
                mean: -2.0,
                deviation: 3.0,
            },
            -2.0,
            3.0,
            |x| normal((x + 2.0) / 3.0),
        ),
        (Distribution::Exponential { rate: 2.0 }, 0.5, 0.5, |x| {
            1.0 - (-2.0 * x).exp()
        }),
        // A chi-square distribution of one degree, halved.
        (
            Distribution::Gamma { concentration: 0.5 },
            0.5,
            0.5f64.sqrt(),
            |x| 2.0 * normal((2.0 * x).sqrt()) - 1.0,
        ),
        (
            Distribution::Gamma { concentration: 3.0 },
            3.0,
            3f64.sqrt(),
            |x| 1.0 - (-x).exp() * (1.0 + x + x * x / 2.0),
        ),
    ];
    for dtype in fixture.of([DType::F32, DType::F64]) {
        for (distribution, mean, deviation, function) in cases {
            let values = sorted(fixture, &mut lane, dtype, distribution, COUNT);
            let found = values.iter().sum::<f64>() / COUNT as f64;
            assert!(
                (found - mean).abs() < 5.0 * deviation / root,
                "{distribution:?} of {dtype}: the mean is {found}"
            );
            let square = values
                .iter()
                .map(|x| (x - found) * (x - found))
                .sum::<f64>();
            let spread = (square / COUNT as f64).sqrt() / deviation;
            assert!(
                (spread - 1.0).abs() < 10.0 / root,
                "{distribution:?} of {dtype}: {spread} of the deviation"
            );
            let worst = values
                .iter()
                .enumerate()
                .map(|(index, &x)| (function(x) - (index as f64 + 0.5) / COUNT as f64).abs())
                .fold(0.0, f64::max);
            assert!(
                worst * root < 2.0,
                "{distribution:?} of {dtype} is {worst} away from its distribution"
            );
        }
    }
    let counted = sorted(
        fixture,
        &mut lane,
        DType::I32,
        Distribution::Integers { low: -3, high: 4 },
        COUNT,
    );
    for value in -3..4 {
        let share = counted.iter().filter(|&&x| x == f64::from(value)).count();
        let expected = COUNT as f64 / 7.0;
        assert!(
            (share as f64 - expected).abs() < 5.0 * expected.sqrt(),
            "{value}: {share}"
        );
    }
    let sure = Distribution::Bernoulli { probability: 0.2 };
    let chosen: f64 = sorted(fixture, &mut lane, DType::Bool, sure, COUNT)
        .iter()
        .sum();
    assert!(
        (chosen / COUNT as f64 - 0.2).abs() < 5.0 * 0.4 / root,
        "{chosen}"
    );
}

/// The standard normal distribution function, by its series and its continued fraction.
fn normal(x: f64) -> f64 {
    let size = x.abs();
    let density = (-size * size / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let tail = if size < 3.0 {
        let (mut term, mut sum, mut odd) = (size, size, 1.0);
        while term > 1e-17 {
            odd += 2.0;
            term *= size * size / odd;
            sum += term;
        }
        0.5 - density * sum
    } else {
        let fraction = (1..100)
            .rev()
            .fold(size, |fraction, n| size + f64::from(n) / fraction);
        density / fraction
    };
    if x < 0.0 { tail } else { 1.0 - tail }
}
