//! Matrix products on the matrix unit.

use streampool_device::{Activation, DType, MatMul, Op};

use crate::kernels::simd::forced::{at_each_level, on_matrix_unit};

use super::matmul::{product, random_case};
use super::tensor::{Number, Random, Tensor, Threads, run, run_on};

#[test]
fn products_of_any_shape_and_type_are_right() {
    on_matrix_unit(|| {
        for seed in 0..250 {
            for sizes in [[70, 70, 70], [3, 90, 40], [300, 20, 70], [90, 150, 100]] {
                if sizes != [70, 70, 70] && seed % 10 != 0 {
                    continue;
                }
                if let Err(error) = random_case(seed, sizes) {
                    panic!("seed {seed}, sizes {sizes:?}: {error}");
                }
            }
        }
    });
}

#[test]
fn products_of_several_panels_are_right() {
    on_matrix_unit(|| {
        for seed in 0..12 {
            if let Err(error) = random_case(seed, [70, 70, 2500]) {
                panic!("seed {seed}: {error}");
            }
        }
    });
}

#[test]
fn a_team_gives_the_same_bits() {
    let random = &mut Random(5);
    on_matrix_unit(|| {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (batch, m, n, k) in [(1, 300, 1050, 900), (3, 90, 100, 70), (1, 33, 3000, 40)] {
                let a = Tensor::plain(dtype, &[batch, m, k]).small(random);
                let b = Tensor::plain(dtype, &[batch, k, n]).small(random);
                let results = [1, 2, 3, 8].map(|width| {
                    let out = Tensor::plain(dtype, &[batch, m, n]);
                    let op = MatMul {
                        activation: Activation::Gelu,
                        alpha: 0.1,
                        ..product(&a, &b, &out)
                    };
                    run_on(&Op::MatMul(op), &Threads(width));
                    out
                });
                assert!(
                    results.iter().all(|out| out.bytes() == results[0].bytes()),
                    "{dtype} {m} {n} {k}"
                );
            }
        }
    });
}

/// The largest error of a product, in parts of the sum of all magnitudes.
fn error_of_product(seed: u64, k: usize) -> f64 {
    let random = &mut Random(seed);
    let (m, n) = (64, 96);
    let a = Tensor::plain(DType::F32, &[m, k]).small(random);
    let b = Tensor::plain(DType::F32, &[k, n]).small(random);
    let out = Tensor::plain(DType::F32, &[m, n]);
    run(&Op::MatMul(product(&a, &b, &out)));
    let mut worst = 0f64;
    for index in out.indices() {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for step in 0..k {
            let term = a.get(&[index[0], step]).float() * b.get(&[step, index[1]]).float();
            sum += term;
            magnitude += term.abs();
        }
        worst = worst.max((out.get(&index).float() - sum).abs() / magnitude);
    }
    worst
}

#[test]
fn it_is_as_exact_as_vectors_are() {
    for k in [32, 100, 384, 1536] {
        let mut by_vectors = 0.0;
        at_each_level(|_| by_vectors = error_of_product(7, k));
        on_matrix_unit(|| {
            let by_tiles = error_of_product(7, k);
            println!(
                "inner dimension {k}: 2^{:.2} by tiles, 2^{:.2} by vectors",
                by_tiles.log2(),
                by_vectors.log2()
            );
            assert!(by_tiles <= 2f64.powi(-22), "{by_tiles:e} for {k}");
            assert!(by_tiles <= 2.0 * by_vectors, "{by_tiles:e} for {k}");
        });
    }
}

#[test]
fn what_is_not_finite_stays_where_it_belongs() {
    const SPECIAL: [f64; 6] = [
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f32::MAX as f64,
        f32::MIN as f64,
        0.0,
    ];
    on_matrix_unit(|| {
        for (seed, (m, n, k)) in [(40, 50, 64), (70, 33, 45), (20, 100, 900)]
            .iter()
            .enumerate()
        {
            let random = &mut Random(seed as u64);
            // Some lines have special elements, and the others stay as they are.
            let mut lines = |shape: [usize; 2], line: usize| {
                let mut tensor = Tensor::plain(DType::F32, &shape).small(random);
                for index in tensor.indices() {
                    if index[line] % 3 == 0 && random.chance(20) {
                        tensor.set(&index, Number::Float(random.pick(&SPECIAL)));
                    }
                }
                tensor
            };
            let (a, b) = (lines([*m, *k], 0), lines([*k, *n], 1));
            let out = Tensor::plain(DType::F32, &[*m, *n]);
            run(&Op::MatMul(product(&a, &b, &out)));
            for index in out.indices() {
                let (mut sum, mut exact, mut magnitude) = (0f32, 0.0, 0.0);
                for step in 0..*k {
                    let x = a.get(&[index[0], step]).float() as f32;
                    let y = b.get(&[step, index[1]]).float() as f32;
                    sum = x.mul_add(y, sum);
                    let term = f64::from(x) * f64::from(y);
                    exact += term;
                    magnitude += term.abs();
                }
                let (got, sum) = (out.get(&index).float(), f64::from(sum));
                let same = got == sum || got.is_nan() && sum.is_nan();
                // In another order it may stay finite.
                let near = (got - exact).abs() <= 1e-5 * magnitude;
                assert!(
                    same || near && got.is_finite(),
                    "{got} for {sum} at {index:?}"
                );
            }
        }
    });
}

#[test]
fn numbers_too_small_for_planes_count_as_zero() {
    on_matrix_unit(|| {
        let small = f64::from(f32::MIN_POSITIVE / 16.0);
        let a = Tensor::plain(DType::F32, &[40, 40]).fill(|| Number::Float(small));
        let b = Tensor::plain(DType::F32, &[40, 40]).fill(|| Number::Float(1024.0));
        let out = Tensor::plain(DType::F32, &[40, 40]);
        run(&Op::MatMul(product(&a, &b, &out)));
        assert!(out.indices().iter().all(|at| out.get(at).float() == 0.0));
    });
}
