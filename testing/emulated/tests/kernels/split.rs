//! Products on tensor cores, executed on the CPU.

use streampool_device::{Activation, DType, Layout, MatMul, Op};
use streampool_emulated::{Emulator, Tensor, Written, emulate, on_host};
use streampool_kernels::{Limits, product_of_many, tensor_core_product};

/// Processors: with one, tiles are large.
const SIZES: [u32; 2] = [1, 132];
/// With so few, products of half the bits have tiles of each size.
const FEW: u32 = 8;

/// Of a sum of so many products of numbers up to one: both sides round.
fn tolerance(dtype: DType, terms: usize) -> f64 {
    match dtype {
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        _ => 1e-7 * terms as f64,
    }
}

/// As on a GPU with so many processors.
pub fn emulator(compute_units: u32) -> Option<Emulator> {
    let limits = Limits {
        compute_units,
        shared_bytes: 48 << 10,
        buffers: 480,
    };
    let emulator = Emulator::or_skip()?.with_limits(limits);
    Some(emulator.with_lowering(|op, limits| match op {
        Op::MatMul(op) => tensor_core_product(op, limits),
        _ => None,
    }))
}

pub fn factor(dtype: DType, seed: u64, shape: &[usize], turned: bool) -> Tensor {
    let layout = match (turned, shape) {
        (true, &[rows, columns]) => {
            let stored = Layout::contiguous(&[columns, rows]).expect("it is small");
            stored.permute(&[1, 0]).expect("these are its dimensions")
        }
        _ => Layout::contiguous(shape).expect("it is small"),
    };
    Tensor::laid_out(dtype, layout).uniform(seed, -1.0, 1.0)
}

pub fn product(a: Tensor, b: Tensor, out: &[usize]) -> MatMul<Tensor> {
    MatMul {
        out: Tensor::new(a.dtype, out),
        a,
        b,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }
}

pub fn only(written: Result<Vec<Written>, String>) -> Vec<f64> {
    written.unwrap_or_else(|why| panic!("{why}"))[0].values()
}

#[track_caller]
pub fn compare(emulator: &Emulator, terms: usize, op: MatMul<Tensor>) {
    let tolerance = tolerance(op.a.dtype, terms);
    let op = Op::MatMul(op);
    let (wanted, got) = (only(on_host(&op)), only(emulate(emulator, &op)));
    let same = |wanted: f64, got: f64| {
        wanted == got
            || wanted.is_nan() && got.is_nan()
            || (wanted - got).abs() <= tolerance * (1.0 + wanted.abs())
    };
    for (place, (&wanted, &got)) in wanted.iter().zip(&got).enumerate() {
        assert!(same(wanted, got), "element {place}: {wanted} and {got}");
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn products_of_any_sizes_are_as_exact_as_f32() {
    for size in SIZES {
        let Some(emulator) = emulator(size) else {
            return;
        };
        for (number, [m, n, k]) in [
            [64, 64, 32],
            [64, 68, 36],
            [65, 68, 100],
            [130, 100, 52],
            [97, 132, 260],
        ]
        .into_iter()
        .enumerate()
        {
            let seed = 10 * number as u64;
            for turned in [false, true] {
                let (a, b) = (
                    factor(DType::F32, seed, &[m, k], false),
                    factor(DType::F32, seed + 1, &[k, n], turned),
                );
                compare(&emulator, k, product(a, b, &[m, n]));
            }
        }
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn what_follows_the_sum_is_applied() {
    for (size, dtype) in [
        (SIZES[0], DType::F32),
        (SIZES[1], DType::F16),
        (FEW, DType::BF16),
    ] {
        let Some(emulator) = emulator(size) else {
            return;
        };
        for (shape, activation) in [
            (vec![72], Activation::Gelu),
            (vec![3, 1, 72], Activation::Relu),
            (vec![66, 1], Activation::None),
        ] {
            let (a, b) = (
                factor(dtype, 1, &[3, 66, 48], false),
                factor(dtype, 2, &[3, 48, 72], false),
            );
            let op = MatMul {
                bias: Some(factor(dtype, 3, &shape, false)),
                activation,
                alpha: 0.5,
                ..product(a, b, &[3, 66, 72])
            };
            compare(&emulator, 48, op);
        }
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn products_of_half_the_bits_are_right() {
    for (size, dtype) in [
        (SIZES[1], DType::F16),
        (FEW, DType::BF16),
        (FEW, DType::F16),
    ] {
        let Some(emulator) = emulator(size) else {
            return;
        };
        for (number, [m, n, k]) in [
            [64, 64, 32],
            [33, 72, 40],
            [100, 64, 104],
            [57, 120, 264],
            [100, 152, 72],
        ]
        .into_iter()
        .enumerate()
        {
            let seed = 10 * number as u64;
            for turned in [false, true] {
                let n = if turned { n - 3 } else { n };
                let (a, b) = (
                    factor(dtype, seed, &[m, k], false),
                    factor(dtype, seed + 1, &[k, n], turned),
                );
                compare(&emulator, k, product(a, b, &[m, n]));
            }
        }
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn one_of_many_streams_gets_the_same_bits() {
    const UNITS: u32 = 16;
    let Some(alone) = emulator(UNITS) else {
        return;
    };
    let of_many = emulator(UNITS).expect("there was one");
    let of_many = of_many.with_lowering(|op, limits| match op {
        Op::MatMul(op) => product_of_many(op, limits),
        _ => None,
    });
    // By one stream alone in tiles of each size, with four, two and one parts of the terms. A part may end in the middle of a
    // tile, and have no terms.
    for (number, [m, n, k]) in [
        [128, 64, 40],
        [100, 72, 360],
        [128, 64, 520],
        [97, 152, 40],
        [128, 136, 264],
        [128, 296, 72],
    ]
    .into_iter()
    .enumerate()
    {
        let (seed, dtype) = (10 * number as u64, [DType::F16, DType::BF16][number % 2]);
        for turned in [false, true] {
            let (a, b) = (
                factor(dtype, seed, &[m, k], false),
                factor(dtype, seed + 1, &[k, n], turned),
            );
            let op = Op::MatMul(product(a, b, &[m, n]));
            let bits = |emulator| only(emulate(emulator, &op)).into_iter().map(f64::to_bits);
            assert!(bits(&alone).eq(bits(&of_many)), "{m} x {n}, {k} terms");
        }
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn a_turned_result_is_the_product_of_turned_factors() {
    for dtype in [DType::F32, DType::F16] {
        let Some(emulator) = emulator(FEW) else {
            return;
        };
        let (a, b) = (
            factor(dtype, 1, &[72, 48], true),
            factor(dtype, 2, &[48, 72], true),
        );
        compare(&emulator, 48, product(a, b, &[72, 72]));
    }
}

/// A product of whole numbers, of infinity, NaN, and numbers whose products are beyond the last.
pub fn special_product() -> MatMul<Tensor> {
    const SIDE: usize = 72;
    let values = |special: &[(usize, f64)]| {
        let mut values: Vec<f64> = (0..SIDE * 64).map(|at| (at % 13) as f64 - 6.0).collect();
        special.iter().for_each(|&(at, value)| values[at] = value);
        values
    };
    let greatest = f64::from(f32::MAX);
    let a = values(&[
        (5, f64::INFINITY),
        (64 + 7, f64::NAN),
        (128 + 9, greatest),
        (192, 1e30),
    ]);
    let mut b = values(&[]);
    b[5 * SIDE..6 * SIDE].fill(0.25);
    b[9 * SIDE..10 * SIDE].fill(1.0);
    b[0] = 1e30;
    product(
        Tensor::new(DType::F32, &[SIDE, 64]).values(&a),
        Tensor::new(DType::F32, &[64, SIDE]).values(&b),
        &[SIDE, SIDE],
    )
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn what_is_not_finite_spoils_only_its_own_results() {
    let Some(emulator) = emulator(SIZES[1]) else {
        return;
    };
    compare(&emulator, 64, special_product());
}

#[test]
fn what_is_not_laid_out_for_it_is_left_to_others() {
    let shape = |dtype, m, k, n| {
        (
            Tensor::new(dtype, &[m, k]),
            Tensor::new(dtype, &[k, n]),
            [m, n],
        )
    };
    for (a, b, out) in [
        shape(DType::F32, 60, 64, 64),
        shape(DType::F32, 64, 66, 64),
        shape(DType::F32, 64, 64, 66),
        shape(DType::F32, 64, 28, 64),
        shape(DType::F32, 64, 4096, 64),
        shape(DType::F16, 31, 64, 64),
        shape(DType::F16, 64, 68, 64),
        shape(DType::BF16, 64, 64, 68),
        shape(DType::BF16, 64, 24, 64),
        shape(DType::F16, 1088, 64, 1024),
    ] {
        let op = product(a, b, &out);
        let Some(emulator) = emulator(SIZES[1]) else {
            return;
        };
        let refused = emulate(&emulator, &Op::MatMul(op));
        assert!(refused.is_err_and(|why| why.contains("no kernel")));
    }
}
