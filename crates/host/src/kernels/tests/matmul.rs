//! Matrix products of sizes around the blocks that they are computed in.

use streampool_conformance::rng::Rng;
use streampool_device::{Activation, DType, MatMul, Op};

use super::ops::{Tensor, run};
use crate::kernels::simd::forced::{at_each_level, on_matrix_unit};

const TYPES: [DType; 6] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I8,
    DType::U8,
];

/// A product without an epilogue.
pub(super) fn product(a: &Tensor, b: &Tensor, out: &Tensor) -> MatMul {
    MatMul {
        a: a.view,
        b: b.view,
        out: out.view,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }
}

fn result_of(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::I32 }
}

/// Multiplies `m` rows by `n` columns of `k` elements, each of both as it lies or turned.
fn multiply(rng: &mut Rng, dtype: DType, batch: usize, [m, n, k]: [usize; 3]) {
    for (turned_a, turned_b) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut of = |rows, columns, turned| match turned {
            false => Tensor::small(dtype, &[batch, rows, columns], rng),
            true => Tensor::small(dtype, &[batch, columns, rows], rng).turned(),
        };
        let (a, b) = (of(m, k, turned_a), of(k, n, turned_b));
        let out = Tensor::zeros(result_of(dtype), &[batch, m, n]);
        run(&Op::MatMul(product(&a, &b, &out)));
    }
}

fn every_size(rng: &mut Rng, dtype: DType) {
    for rows in 1..=26 {
        multiply(rng, dtype, 1, [rows, 33, 7]);
    }
    for columns in [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 34, 47, 63, 65] {
        multiply(rng, dtype, 1, [5, columns, 9]);
    }
    for sizes in [
        [3, 90, 40],
        [90, 2, 40],
        [8, 140, 20],
        [17, 33, 70],
        [70, 70, 70],
        // Several panels.
        [9, 40, 1400],
        [1, 100, 2500],
        [33, 34, 450],
        // Several tiles of rows.
        [300, 40, 9],
    ] {
        multiply(rng, dtype, 1, sizes);
    }
    // More rows than columns, so that the transposed products are computed.
    multiply(rng, dtype, 3, [40, 2, 6]);
}

#[test]
fn products_of_every_size() {
    let mut rng = Rng::new(5);
    at_each_level(|_| {
        TYPES
            .into_iter()
            .for_each(|dtype| every_size(&mut rng, dtype))
    });
    on_matrix_unit(|| {
        TYPES
            .into_iter()
            .for_each(|dtype| every_size(&mut rng, dtype))
    });
}

/// Products of 50 rows and 45 columns, with a bias of this shape, an inner dimension and a factor, and each activation.
fn epilogues(rng: &mut Rng, cases: &[(&[usize], usize, f64)]) {
    for activation in [
        Activation::None,
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::HardSwish,
    ] {
        for &(bias, k, alpha) in cases {
            for dtype in [DType::F32, DType::BF16] {
                let (a, b) = (
                    Tensor::small(dtype, &[50, k], rng),
                    Tensor::small(dtype, &[k, 45], rng),
                );
                let (bias, out) = (
                    Tensor::small(dtype, bias, rng),
                    Tensor::zeros(dtype, &[50, 45]),
                );
                run(&Op::MatMul(MatMul {
                    bias: Some(bias.view),
                    activation,
                    alpha,
                    ..product(&a, &b, &out)
                }));
            }
        }
    }
}

/// Epilogues of sums with a factor, and of those that need none, for which rows may be multiplied where they lie.
fn every_epilogue() {
    let with_factor: [(&[usize], _, _); 3] = [
        (&[45], 20, -0.5),
        (&[50, 1], 70, -0.5),
        (&[50, 45], 0, -0.5),
    ];
    epilogues(&mut Rng::new(6), &with_factor);
    let without: [(&[usize], _, _); 3] =
        [(&[45], 20, 1.0), (&[45], 600, 1.0), (&[50, 45], 20, 1.0)];
    epilogues(&mut Rng::new(7), &without);
}

#[test]
fn epilogues_of_blocks() {
    at_each_level(|_| every_epilogue());
    on_matrix_unit(every_epilogue);
}

#[test]
fn extreme_bytes_are_summed_exactly() {
    at_each_level(|_| {
        for (dtype, value) in [(DType::I8, -128.0), (DType::U8, 255.0)] {
            let a = Tensor::of(dtype, &[2, 301], || value);
            let b = Tensor::of(dtype, &[301, 3], || value);
            let out = Tensor::zeros(DType::I32, &[2, 3]);
            run(&Op::MatMul(product(&a, &b, &out)));
        }
    });
}
