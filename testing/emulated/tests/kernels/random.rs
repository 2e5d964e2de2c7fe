//! Random numbers on the host and on the emulator: the same bits.

use streampool_device::{DType, Distribution, Layout, Op, Random};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

fn random(distribution: Distribution, dst: Tensor, offset: u64) -> Op<Tensor> {
    Op::Random(Random {
        distribution,
        dst,
        seed: 0x0123_4567_89ab_cdef,
        offset,
    })
}

fn distributions(dtype: DType) -> Vec<Distribution> {
    let mut all = vec![Distribution::Bernoulli { probability: 0.3 }];
    if dtype.is_integer() {
        all.push(Distribution::Bits);
    }
    if dtype != DType::Bool {
        all.push(Distribution::Integers {
            low: -7,
            high: 1 << 40,
        });
        all.push(Distribution::Integers { low: 0, high: 100 });
    }
    if dtype.is_float() {
        all.extend([
            Distribution::Uniform {
                low: -1.5,
                high: 2.5,
            },
            Distribution::Normal {
                mean: 0.5,
                deviation: 2.0,
            },
            Distribution::Exponential { rate: 1.7 },
            Distribution::Gamma { concentration: 0.4 },
            Distribution::Gamma { concentration: 3.5 },
        ]);
    }
    all
}

/// The layouts that one kernel each is made for, and where in the sequence they begin.
fn places(dtype: DType) -> Vec<(Tensor, u64)> {
    let turned = Layout::contiguous(&[7, 5, 11]).and_then(|layout| layout.permute(&[2, 0, 1]));
    let gaps = Layout::strided(&[13, 9], &[-20, 2], 250);
    let [turned, gaps] = [turned, gaps].map(|layout| layout.expect("a layout"));
    vec![
        (Tensor::new(dtype, &[1030]), 0),
        (Tensor::new(dtype, &[1030]), (1 << 40) + 3),
        (Tensor::new(dtype, &[]), u64::MAX),
        (Tensor::laid_out(dtype, turned), u64::MAX - 100),
        (Tensor::laid_out(dtype, gaps), 8),
    ]
}

#[test]
fn every_distribution_has_the_bits_of_the_host() {
    let mut ops = Vec::new();
    for dtype in DType::ALL {
        for distribution in distributions(dtype) {
            let places = places(dtype).into_iter();
            ops.extend(places.map(|(dst, offset)| random(distribution, dst, offset)));
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Exact);
}

#[test]
fn extreme_numbers_have_the_bits_of_the_host() {
    let everywhere = [
        Distribution::Uniform {
            low: -3e38,
            high: 3e38,
        },
        Distribution::Uniform {
            low: 1.0,
            high: 1.0,
        },
        Distribution::Uniform {
            low: 0.0,
            high: 1e-44,
        },
        Distribution::Normal {
            mean: 1e9,
            deviation: 0.0,
        },
        Distribution::Exponential { rate: 1e-300 },
        Distribution::Exponential { rate: 1e300 },
        Distribution::Gamma {
            concentration: 1e-3,
        },
        Distribution::Gamma { concentration: 1.0 },
        Distribution::Gamma {
            concentration: 1e12,
        },
        Distribution::Bernoulli { probability: 0.0 },
        Distribution::Bernoulli { probability: 1.0 },
        Distribution::Integers {
            low: i64::MIN,
            high: i64::MAX,
        },
        Distribution::Integers { low: 5, high: 6 },
    ];
    let mut ops = Vec::new();
    for distribution in everywhere {
        for dtype in FLOATS {
            ops.push(random(distribution, Tensor::new(dtype, &[300]), 1));
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Exact);
}
