//! Random numbers: the same bits with all vector instructions, on any number of threads.

use streampool_device::{DType, Distribution, Op, Random as Draw};

use crate::kernels::simd::forced::at_each_level;

use super::tensor::{Random, Tensor, Threads, run_on};

fn distributions(dtype: DType) -> Vec<Distribution> {
    let mut all = vec![
        Distribution::Bernoulli { probability: 0.4 },
        Distribution::Integers {
            low: -9,
            high: 1000,
        },
    ];
    if dtype.is_float() {
        all.extend([
            Distribution::Uniform {
                low: -1.0,
                high: 2.0,
            },
            Distribution::Normal {
                mean: 1.0,
                deviation: 0.5,
            },
            Distribution::Exponential { rate: 3.0 },
            Distribution::Gamma { concentration: 0.3 },
            Distribution::Gamma { concentration: 7.0 },
        ]);
    } else {
        all.push(Distribution::Bits);
    }
    all
}

#[test]
fn levels_and_threads_make_no_difference() {
    let mut random = Random(1);
    for dtype in DType::ALL {
        if dtype == DType::Bool {
            continue;
        }
        for distribution in distributions(dtype) {
            let mut dst = Tensor::plain(dtype, &[70_001]);
            let op = Op::Random(Draw {
                distribution,
                dst: dst.view,
                seed: random.bits(),
                offset: random.bits(),
            });
            dst.clear();
            run_on(&op, &Threads(1));
            let expected = dst.bytes().to_vec();
            at_each_level(|level| {
                for threads in [1, 3] {
                    dst.clear();
                    run_on(&op, &Threads(threads));
                    assert!(
                        dst.bytes() == expected,
                        "{distribution:?} of {dtype} at {level:?}"
                    );
                }
            });
        }
    }
}

#[test]
fn an_element_depends_on_its_number_alone() {
    let mut random = Random(2);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I8] {
        for _ in 0..40 {
            let (seed, offset) = (random.bits(), random.bits());
            let distribution = match dtype.is_float() {
                true => Distribution::Normal {
                    mean: 0.0,
                    deviation: 1.0,
                },
                false => Distribution::Bits,
            };
            let draw = |view, offset| {
                Op::Random(Draw {
                    distribution,
                    dst: view,
                    seed,
                    offset,
                })
            };
            let shape = random.shape(3, 12);
            let anyhow = Tensor::new(&mut random, dtype, &shape, false);
            let plain = Tensor::plain(dtype, &shape);
            run_on(&draw(anyhow.view, offset), &Threads(2));
            run_on(&draw(plain.view, offset), &Threads(1));
            assert!(anyhow.gaps_untouched());
            for (number, index) in plain.indices().iter().enumerate() {
                assert_eq!(anyhow.get(index), plain.get(index));
                if number % 37 == 0 {
                    let alone = Tensor::plain(dtype, &[1]);
                    run_on(
                        &draw(alone.view, offset.wrapping_add(number as u64)),
                        &Threads(1),
                    );
                    assert_eq!(alone.get(&[0]), plain.get(index));
                }
            }
        }
    }
}
