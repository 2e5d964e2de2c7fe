//! Factorisations and solves on the host and on the emulator.

use streampool_device::{DType, Layout, Linalg, Op};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host, on_host};
use streampool_kernels::Limits;

const TYPES: [DType; 2] = [DType::F32, DType::F64];
/// Sizes within a block of a large matrix and around its ends, and in several.
const SIZES: [usize; 9] = [1, 2, 5, 31, 32, 33, 64, 87, 97];
/// So little shared memory that the largest of the sizes do not fit.
const LIMITS: Limits = Limits {
    compute_units: 8,
    shared_bytes: 32 << 10,
    buffers: 480,
};

/// Values of matrices far from singular: large on the diagonal, or across it, which takes exchanges.
fn values(shape: &[usize], seed: u64, across: bool) -> Vec<f64> {
    let [.., rows, columns] = *shape else {
        panic!("a shape of matrices");
    };
    let mut bits = seed;
    (0..shape.iter().product())
        .map(|index: usize| {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let noise = (bits >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
            let (row, column) = (index / columns % rows, index % columns);
            let large = if across {
                row + column + 1 == rows.min(columns)
            } else {
                row == column
            };
            noise + if large { rows.max(columns) as f64 } else { 0.0 }
        })
        .collect()
}

/// Symmetric and positive definite ones; what lies above the diagonal is not to be read.
fn definite(shape: &[usize], seed: u64) -> Vec<f64> {
    let [.., size, _] = *shape else {
        panic!("a shape of matrices");
    };
    let mut values = values(shape, seed, false);
    for (index, value) in values.iter_mut().enumerate() {
        if index % size > index / size % size {
            *value = f64::NAN;
        }
    }
    values
}

/// Row-major, or with the last two dimensions exchanged in memory.
fn laid_out(dtype: DType, shape: &[usize], turned: bool) -> Tensor {
    let rank = shape.len();
    let mut order: Vec<usize> = (0..rank).collect();
    if turned {
        order.swap(rank - 2, rank - 1);
    }
    let stored: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let layout = Layout::contiguous(&stored).and_then(|layout| layout.permute(&order));
    Tensor::laid_out(dtype, layout.expect("a layout"))
}

fn lu(dtype: DType, shape: &[usize], turned: bool) -> Op<Tensor> {
    let [batch @ .., rows, columns] = shape else {
        panic!("a shape of matrices");
    };
    let pivots = [batch, &[*rows.min(columns)]].concat();
    Op::Linalg(Linalg::Lu {
        src: laid_out(dtype, shape, turned).values(&values(shape, 7, true)),
        factors: laid_out(dtype, shape, !turned),
        pivots: Tensor::new(DType::I32, &pivots),
    })
}

/// A solve with what the host's factorisation leaves.
fn lu_solve(dtype: DType, size: usize, columns: usize) -> Op<Tensor> {
    let op = lu(dtype, &[2, size, size], false);
    let written = on_host(&op).unwrap_or_else(|why| panic!("{why}"));
    Op::Linalg(Linalg::LuSolve {
        factors: Tensor::new(dtype, &[2, size, size]).values(&written[0].values()),
        pivots: Tensor::new(DType::I32, &[2, size]).values(&written[1].values()),
        rhs: laid_out(dtype, &[2, size, columns], true).random(3),
        dst: laid_out(dtype, &[2, size, columns], false),
    })
}

fn triangular(dtype: DType, size: usize, columns: usize, [upper, unit]: [bool; 2]) -> Op<Tensor> {
    let mut system = values(&[size, size], 9, false);
    for (index, value) in system.iter_mut().enumerate() {
        let (row, column) = (index / size, index % size);
        if unit && row != column {
            *value /= size as f64;
        }
        if unit && row == column || if upper { column < row } else { column > row } {
            // Not to be read.
            *value = f64::NAN;
        }
    }
    Op::Linalg(Linalg::Triangular {
        src: laid_out(dtype, &[size, size], upper).values(&system),
        rhs: laid_out(dtype, &[size, columns], unit).random(4),
        dst: laid_out(dtype, &[size, columns], upper),
        upper,
        unit,
    })
}

fn compare(ops: &[Op<Tensor>]) {
    let emulators = Emulator::of_each_dialect().map(|emulator| emulator.with_limits(LIMITS));
    assert_all_same_as_host(emulators, ops, Tolerance::Within(1e-4, 1e-4));
}

fn ops() -> Vec<Op<Tensor>> {
    let mut ops = Vec::new();
    for dtype in TYPES {
        for size in SIZES {
            for shape in [
                vec![size, size],
                vec![2, size + 40, size],
                vec![3, 1, size, size + 40],
            ] {
                ops.push(lu(dtype, &shape, size % 2 == 0));
            }
            ops.push(lu_solve(dtype, size, 1 + size % 3));
            for flags in [[false, false], [false, true], [true, false], [true, true]] {
                ops.push(triangular(dtype, size, 70 - size / 2, flags));
            }
            let shape = [2, size, size];
            ops.push(Op::Linalg(Linalg::Cholesky {
                src: laid_out(dtype, &shape, true).values(&definite(&shape, 11)),
                dst: laid_out(dtype, &shape, size % 2 == 1),
            }));
            ops.push(Op::Linalg(Linalg::Inverse {
                src: laid_out(dtype, &shape, false).values(&values(&shape, 13, true)),
                dst: laid_out(dtype, &shape, size % 2 == 1),
            }));
        }
    }
    ops
}

#[test]
fn factorisations_and_solves_come_to_the_same() {
    compare(&ops());
}

#[test]
fn singular_matrices_have_factors_and_nan_hurts_nobody_else() {
    let mut ops = Vec::new();
    for size in [3, 90] {
        let shape = [3, size, size];
        let mut some = values(&shape, 5, false);
        some[..size * size].fill(0.0);
        some[size * size + 1] = f64::NAN;
        let src = Tensor::new(DType::F32, &shape).values(&some);
        ops.push(Op::Linalg(Linalg::Lu {
            src,
            factors: Tensor::new(DType::F32, &shape),
            pivots: Tensor::new(DType::I32, &shape[..2]),
        }));
    }
    compare(&ops);
}
