//! Factorisations and solves of matrices large enough for every way of dividing the work.

use streampool_device::{DType, Linalg, Op};

use crate::kernels::simd::forced::at_each_level;
use crate::kernels::{Prepared, execute};
use crate::team::Solo;

use super::tensor::{Number, Random, Tensor, Threads, run_on};

/// Matrices with a large element in each row, off the diagonal.
fn sound(random: &mut Random, dtype: DType, shape: &[usize]) -> Tensor {
    let size = shape[shape.len() - 1];
    let mut tensor = Tensor::new(random, dtype, shape, false);
    for index in tensor.indices() {
        let [.., row, column] = index[..] else {
            panic!("an index of matrices");
        };
        let large = (row * 7 + column + 1) % size == 0;
        let value = random.number() + if large { 2.0 * size as f64 } else { 0.0 };
        tensor.set(&index, Number::Float(value));
    }
    tensor
}

/// The largest element of `|A X - 1|` for square matrices of rank two.
fn distance_from_unit(a: &Tensor, x: &Tensor, size: usize) -> f64 {
    let read = |tensor: &Tensor| -> Vec<f64> {
        let indices = tensor.indices();
        indices
            .iter()
            .map(|index| tensor.get(index).float())
            .collect()
    };
    let (a, x) = (read(a), read(x));
    let mut worst = 0.0f64;
    for row in 0..size {
        let mut sums = vec![0.0; size];
        for inner in 0..size {
            let factor = a[row * size + inner];
            for (sum, &x) in sums.iter_mut().zip(&x[inner * size..][..size]) {
                *sum += factor * x;
            }
        }
        sums[row] -= 1.0;
        worst = sums.iter().fold(worst, |worst, sum| {
            if sum.is_nan() {
                f64::INFINITY
            } else {
                worst.max(sum.abs())
            }
        });
    }
    worst
}

#[test]
fn large_inverses() {
    let mut random = Random(5);
    for (dtype, size) in [(DType::F32, 257), (DType::F64, 300), (DType::F32, 520)] {
        let src = sound(&mut random, dtype, &[size, size]);
        let mut dst = Tensor::new(&mut random, dtype, &[size, size], false);
        let op = Op::Linalg(Linalg::Inverse {
            src: src.view,
            dst: dst.view,
        });
        let epsilon = if dtype == DType::F64 {
            f64::EPSILON
        } else {
            f64::from(f32::EPSILON)
        };
        at_each_level(|level| {
            dst.clear();
            run_on(&op, &Threads(3));
            assert!(dst.gaps_untouched());
            let worst = distance_from_unit(&src, &dst, size);
            assert!(
                worst < epsilon * size as f64,
                "{dtype} {size} at {level:?}: {worst}"
            );
        });
    }
}

#[test]
fn threads_make_no_difference() {
    let mut random = Random(6);
    for shape in [&[400, 400][..], &[2, 200, 200], &[9, 40, 40]] {
        let src = sound(&mut random, DType::F32, shape);
        let mut factors = Tensor::plain(DType::F32, shape);
        let mut pivots = Tensor::plain(DType::I32, &shape[..shape.len() - 1]);
        let mut dst = Tensor::plain(DType::F32, shape);
        let ops = [
            Op::Linalg(Linalg::Lu {
                src: src.view,
                factors: factors.view,
                pivots: pivots.view,
            }),
            Op::Linalg(Linalg::LuSolve {
                factors: factors.view,
                pivots: pivots.view,
                rhs: src.view,
                dst: dst.view,
            }),
        ];
        let mut results = Vec::new();
        for threads in [1, 2, 5] {
            for tensor in [&mut factors, &mut pivots, &mut dst] {
                tensor.clear();
            }
            ops.iter().for_each(|op| run_on(op, &Threads(threads)));
            results.push([&factors, &pivots, &dst].map(|tensor| tensor.bytes().to_vec()));
        }
        assert!(
            results[0] == results[1] && results[0] == results[2],
            "{shape:?}"
        );
    }
}

#[test]
fn pivots_that_are_no_rows_are_refused() {
    for stray in [-1, 3, i32::MAX] {
        let unit = Tensor::plain(DType::F64, &[3, 3]).fill(|| Number::Float(1.0));
        let pivots = Tensor::plain(DType::I32, &[3]).fill(|| Number::Int(i128::from(stray)));
        let dst = Tensor::plain(DType::F64, &[3, 3]);
        let op = Op::Linalg(Linalg::LuSolve {
            factors: unit.view,
            pivots: pivots.view,
            rhs: unit.view,
            dst: dst.view,
        });
        // SAFETY: the operands are alive and nobody else uses them.
        let refused = unsafe { execute(&op, &Prepared::Plain, &Solo) };
        assert!(refused.is_err_and(|why| why.contains("pivot")), "{stray}");
    }
}
