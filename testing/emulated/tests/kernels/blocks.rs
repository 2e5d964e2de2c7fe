//! Products by simdgroup matrices, executed on the CPU.

use streampool_device::{Activation, DType, Layout, MatMul, Op};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_same_as_host, emulate, prepare};
use streampool_kernels::{Dialect, Limits, lower_to_simdgroups};

/// Processors: with one, tiles are large.
const SIZES: [u32; 2] = [1, 132];
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// As on an Apple GPU with so many processors.
fn emulator(compute_units: u32) -> Option<Emulator> {
    let limits = Limits {
        compute_units,
        shared_bytes: 32 << 10,
        buffers: 30,
    };
    let emulator = Emulator::or_skip()?.with_dialect(Dialect::Metal);
    let emulator = emulator.with_limits(limits);
    Some(emulator.with_lowering(lower_to_simdgroups))
}

/// Sums are in `f32`, and each is rounded once to its type.
fn tolerance(dtype: DType) -> Tolerance {
    match dtype {
        DType::F16 => Tolerance::Within(2e-4, 2e-3),
        DType::BF16 => Tolerance::Within(1e-3, 1.6e-2),
        _ => Tolerance::Within(1e-5, 1e-5),
    }
}

/// Executes what `ops` makes of each type of floats.
#[track_caller]
fn compare(compute_units: u32, ops: impl Fn(DType) -> Vec<MatMul<Tensor>>) {
    let Some(emulator) = emulator(compute_units) else {
        return;
    };
    let ops_of = |dtype| ops(dtype).into_iter().map(Op::MatMul);
    let ops = FLOATS.map(|dtype| (dtype, ops_of(dtype).collect::<Vec<_>>()));
    let all = ops.iter().flat_map(|(_, ops)| ops);
    prepare(&emulator, all).unwrap_or_else(|why| panic!("{why}"));
    for (dtype, ops) in &ops {
        for op in ops {
            assert_same_as_host(&emulator, op, tolerance(*dtype));
        }
    }
}

fn tensor(dtype: DType, seed: u64, shape: &[usize]) -> Tensor {
    Tensor::new(dtype, shape).uniform(seed, -1.0, 1.0)
}

/// The matrix `[columns, rows]` in memory, seen as `[rows, columns]`.
fn turned(dtype: DType, [rows, columns]: [usize; 2]) -> Tensor {
    let stored = Layout::contiguous(&[columns, rows]).expect("it is small");
    let layout = stored.permute(&[1, 0]).expect("these are its dimensions");
    Tensor::laid_out(dtype, layout)
}

fn strided(dtype: DType, shape: &[usize], strides: &[isize], offset: usize) -> Tensor {
    let layout = Layout::strided(shape, strides, offset).expect("a layout");
    Tensor::laid_out(dtype, layout)
}

fn product(a: Tensor, b: Tensor, out: Tensor) -> MatMul<Tensor> {
    MatMul {
        a,
        b,
        out,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn products_of_any_sizes_and_orders_are_those_of_the_host() {
    let ops = |dtype| {
        let mut ops = Vec::new();
        let sizes = [
            [32, 32, 16],
            [64, 64, 32],
            [17, 70, 16],
            [65, 33, 37],
            [97, 130, 100],
        ];
        for (seed, [m, n, k]) in (0..).step_by(10).zip(sizes) {
            for (a_turned, b_turned) in [(false, false), (false, true), (true, false), (true, true)]
            {
                let of = |is_turned, shape| match is_turned {
                    true => turned(dtype, shape),
                    false => Tensor::new(dtype, &shape),
                };
                ops.push(product(
                    of(a_turned, [m, k]).uniform(seed, -1.0, 1.0),
                    of(b_turned, [k, n]).uniform(seed + 1, -1.0, 1.0),
                    Tensor::new(dtype, &[m, n]),
                ));
            }
        }
        ops
    };
    for units in SIZES {
        compare(units, ops);
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn views_need_not_be_dense() {
    compare(SIZES[1], |dtype| {
        let a = strided(dtype, &[50, 40], &[-90, 2], 49 * 90 + 1).uniform(1, -1.0, 1.0);
        let b = strided(dtype, &[40, 35], &[3, -120], 34 * 120 + 2).uniform(2, -1.0, 1.0);
        let repeated = strided(dtype, &[40, 35], &[0, 1], 0).uniform(3, -1.0, 1.0);
        let apart = strided(dtype, &[50, 35], &[100, 2], 7);
        let backwards = strided(dtype, &[50, 35], &[-35, -1], 50 * 35 - 1);
        vec![
            product(a.clone(), b.clone(), turned(dtype, [50, 35])),
            product(a.clone(), b, apart),
            product(a, repeated, backwards),
        ]
    });
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn each_matrix_of_a_batch_finds_its_own() {
    compare(SIZES[1], |dtype| {
        let shapes = [
            [&[3, 40, 24][..], &[3, 24, 36], &[3, 40, 36]],
            [&[2, 1, 20, 24], &[3, 24, 36], &[2, 3, 20, 36]],
            [&[20, 24], &[2, 24, 36], &[2, 20, 36]],
        ];
        let op = |[a, b, out]: [&[usize]; 3]| {
            product(
                tensor(dtype, 1, a),
                tensor(dtype, 2, b),
                Tensor::new(dtype, out),
            )
        };
        shapes.map(op).into()
    });
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn what_follows_the_sum_is_applied() {
    let ops = |dtype| {
        let ends = [
            (&[72][..], Activation::Gelu),
            (&[3, 1, 72], Activation::Relu),
            (&[66, 1], Activation::Silu),
            (&[3, 66, 72], Activation::None),
        ];
        let op = |(shape, activation): (&[usize], _)| MatMul {
            bias: Some(tensor(dtype, 3, shape)),
            activation,
            alpha: 0.5,
            ..product(
                tensor(dtype, 1, &[3, 66, 48]),
                tensor(dtype, 2, &[3, 48, 72]),
                Tensor::new(dtype, &[3, 66, 72]),
            )
        };
        ends.map(op).into()
    };
    for units in SIZES {
        compare(units, ops);
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn what_is_not_finite_spoils_only_its_own_results() {
    const M: usize = 40;
    const N: usize = 37;
    const K: usize = 21;
    let mut a: Vec<f64> = (0..M * K).map(|at| (at % 7) as f64 - 3.0).collect();
    let mut b: Vec<f64> = (0..K * N).map(|at| (at % 5) as f64 - 2.0).collect();
    // The last of a row and of a column, beside what is filled up with zeros.
    for (row, value) in [
        (1, f64::NAN),
        (9, f64::INFINITY),
        (M - 1, f64::NEG_INFINITY),
    ] {
        a[row * K + K - 1] = value;
    }
    b[(K - 1) * N..].fill(2.0);
    b[(K - 1) * N + N - 1] = f64::NAN;
    b[(K - 2) * N + 3] = f64::INFINITY;
    compare(SIZES[1], |dtype| {
        vec![product(
            Tensor::new(dtype, &[M, K]).values(&a),
            Tensor::new(dtype, &[K, N]).values(&b),
            Tensor::new(dtype, &[M, N]),
        )]
    });
}

#[test]
fn what_it_does_not_pay_for_is_left_to_others() {
    let Some(emulator) = emulator(SIZES[1]) else {
        return;
    };
    for (dtype, [m, k, n]) in [
        (DType::F32, [16, 64, 64]),
        (DType::F32, [64, 64, 16]),
        (DType::F32, [64, 15, 64]),
        (DType::F64, [64, 64, 64]),
        (DType::I8, [64, 64, 64]),
    ] {
        let result = if dtype.is_float() { dtype } else { DType::I32 };
        let op = product(
            Tensor::new(dtype, &[m, k]),
            Tensor::new(dtype, &[k, n]),
            Tensor::new(result, &[m, n]),
        );
        let refused = emulate(&emulator, &Op::MatMul(op));
        assert!(refused.is_err_and(|why| why.contains("no kernel")));
    }
}
