//! What only the matrix unit does: how exact its sums are, and what becomes of numbers that its parts cannot hold.

use streampool_conformance::rng::Rng;
use streampool_device::{DType, Op};

use super::matmul::product;
use super::ops::{Tensor, execute, run};
use crate::kernels::Prepared;
use crate::kernels::simd::forced::{at_each_level, on_matrix_unit};
use crate::team::Solo;

/// For each element of a product of matrices the sum of its terms in order, as the vector code has it, exactly, and of their
/// magnitudes.
fn sums(a: &Tensor, b: &Tensor, [m, n, k]: [usize; 3]) -> Vec<(f32, f64, f64)> {
    let (a, b) = (a.floats(), b.floats());
    let element = |row: usize, column: usize| {
        let mut sums = (0f32, 0f64, 0f64);
        for step in 0..k {
            let (x, y) = (a[row * k + step], b[step * n + column]);
            let term = f64::from(x) * f64::from(y);
            sums = (x.mul_add(y, sums.0), sums.1 + term, sums.2 + term.abs());
        }
        sums
    };
    let elements = (0..m * n).map(|element_at| element(element_at / n, element_at % n));
    elements.collect()
}

/// The largest error of a product, in parts of the sum of all magnitudes.
fn error_of_product(seed: u64, k: usize) -> f64 {
    let mut rng = Rng::new(seed);
    let (m, n) = (64, 96);
    let a = Tensor::small(DType::F32, &[m, k], &mut rng);
    let b = Tensor::small(DType::F32, &[k, n], &mut rng);
    let out = Tensor::zeros(DType::F32, &[m, n]);
    run(&Op::MatMul(product(&a, &b, &out)));
    let sums = sums(&a, &b, [m, n, k]);
    let errors = out.floats().iter().zip(sums);
    errors.fold(0.0, |worst: f64, (&got, (_, exact, magnitude))| {
        worst.max((f64::from(got) - exact).abs() / magnitude)
    })
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
    const SPECIAL: [f32; 6] = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        0.0,
    ];
    let check = || {
        for (seed, sizes) in (0..).zip([[40, 50, 64], [70, 33, 45], [20, 100, 900]]) {
            let mut rng = Rng::new(seed);
            // Some lines have special elements, and the others stay as they are.
            let mut lines = |rows: usize, columns: usize, by_row: bool| {
                let mut tensor = Tensor::small(DType::F32, &[rows, columns], &mut rng);
                for element in 0..rows * columns {
                    let line = if by_row {
                        element / columns
                    } else {
                        element % columns
                    };
                    if line % 3 == 0 && rng.chance(20) {
                        tensor.set(element, f64::from(rng.pick(&SPECIAL)));
                    }
                }
                tensor
            };
            let [m, n, k] = sizes;
            let (a, b) = (lines(m, k, true), lines(k, n, false));
            let out = Tensor::zeros(DType::F32, &[m, n]);
            execute(&Op::MatMul(product(&a, &b, &out)), &Prepared::Plain, &Solo).unwrap();
            for (&got, (sum, exact, magnitude)) in out.floats().iter().zip(sums(&a, &b, sizes)) {
                let same = got == sum || got.is_nan() && sum.is_nan();
                // In another order it may stay finite.
                let near = (f64::from(got) - exact).abs() <= 1e-5 * magnitude;
                assert!(same || near && got.is_finite(), "{got} for {sum}");
            }
        }
    };
    on_matrix_unit(check);
}

#[test]
fn numbers_too_small_for_planes_count_as_zero() {
    on_matrix_unit(|| {
        let small = f64::from(f32::MIN_POSITIVE / 16.0);
        let a = Tensor::of(DType::F32, &[40, 40], || small);
        let b = Tensor::of(DType::F32, &[40, 40], || 1024.0);
        let out = Tensor::zeros(DType::F32, &[40, 40]);
        execute(&Op::MatMul(product(&a, &b, &out)), &Prepared::Plain, &Solo).unwrap();
        assert!(out.floats().iter().all(|&element| element == 0.0));
    });
}
