//! Functions, comparisons, choices and casts of every type.

use std::sync::Arc;

use streampool_conformance::rng::Rng;
use streampool_device::{Binary, Compare, DType, Expr, Layout, Unary};

use super::{BINARY, COMPARE, UNARY, on_each_level};
use crate::kernels::simd::forced::at_each_level;
use crate::kernels::tests::ops::{Tensor, map, run};

const COUNT: usize = 500;

/// Values of a type that include its bounds and awkward ones.
fn samples(dtype: DType, rng: &mut Rng) -> Tensor {
    const FLOATS: [f64; 8] = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        255.5,
        -128.5,
        1e19,
    ];
    if dtype.is_float() {
        return Tensor::of(dtype, &[COUNT], || match rng.below(8) {
            0 => rng.pick(&FLOATS),
            1 => f64::from(f32::from_bits(rng.bits() as u32)),
            2 => (rng.bits() as i64 >> 40) as f64 / 16.0,
            _ => (rng.bits() as i64 >> 54) as f64 / 8.0,
        });
    }
    let bits = |rng: &mut Rng| match (dtype, rng.below(4)) {
        (DType::Bool, _) => rng.bits() & 1,
        (_, 0) => rng.pick(&[
            0,
            1,
            u64::MAX,
            1 << 63,
            u64::MAX >> 1,
            1 << 31,
            1 << 15,
            1 << 7,
        ]),
        (_, 1) => rng.bits(),
        (_, 2) => (rng.bits() as i64 >> 32) as u64,
        _ => (rng.bits() as i64 >> 59) as u64,
    };
    let bytes: Vec<u8> = (0..COUNT)
        .flat_map(|_| bits(rng).to_le_bytes()[..dtype.size()].to_vec())
        .collect();
    let layout = Layout::contiguous(&[COUNT]).unwrap();
    Tensor::holding(dtype, layout, &bytes)
}

/// Runs an expression over one output at each level.
fn check(expr: Expr, inputs: &[&Tensor]) {
    let expr = Arc::new(expr);
    let outputs = expr.outputs().iter();
    let outputs: Vec<Tensor> = outputs
        .map(|&value| Tensor::zeros(expr.dtype(value), &[COUNT]))
        .collect();
    at_each_level(|_| run(&map(&expr, inputs, &outputs)));
}

#[test]
fn functions() {
    let mut rng = Rng::new(5);
    for dtype in DType::ALL {
        let (x, y) = (samples(dtype, &mut rng), samples(dtype, &mut rng));
        // Those of floats have a test of their own, which is stricter.
        for function in UNARY.into_iter().filter(|_| !dtype.is_float()) {
            if let Ok(expr) = Expr::unary(function, dtype) {
                check(expr, &[&x]);
            }
        }
        for function in BINARY {
            if let Ok(expr) = Expr::binary(function, dtype) {
                check(expr, &[&x, &y]);
            }
        }
    }
}

#[test]
fn comparisons_and_choices() {
    let mut rng = Rng::new(7);
    for dtype in DType::ALL {
        let (xs, ys) = (samples(dtype, &mut rng), samples(dtype, &mut rng));
        for comparison in COMPARE {
            let mut expr = Expr::builder();
            let x = expr.input(dtype).unwrap();
            let y = expr.input(dtype).unwrap();
            let holds = expr.compare(comparison, x, y).unwrap();
            let chosen = expr.select(holds, x, y).unwrap();
            check(expr.finish(&[holds, chosen]).unwrap(), &[&xs, &ys]);
        }
    }
}

#[test]
fn casts() {
    let mut rng = Rng::new(9);
    for from in DType::ALL {
        let xs = samples(from, &mut rng);
        for to in DType::ALL {
            let mut expr = Expr::builder();
            let x = expr.input(from).unwrap();
            let y = expr.cast(x, to).unwrap();
            check(expr.finish(&[y]).unwrap(), &[&xs]);
        }
    }
}

#[test]
fn truth_values_are_zero_or_one_whatever_comes_in() {
    let six = Layout::contiguous(&[6]).unwrap();
    let dirty = Tensor::holding(DType::Bool, six, &[0, 1, 2, 128, 255, 0]);
    let ones = Tensor::of(DType::Bool, &[6], || 1.0);
    let mut expr = Expr::builder();
    let x = expr.input(DType::Bool).unwrap();
    let y = expr.input(DType::Bool).unwrap();
    let not = expr.unary(Unary::Not, x).unwrap();
    let equal = expr.compare(Compare::Eq, x, y).unwrap();
    let number = expr.cast(x, DType::U8).unwrap();
    let and = expr.binary(Binary::And, x, y).unwrap();
    let expr = Arc::new(expr.finish(&[x, not, equal, number, and]).unwrap());
    on_each_level(&expr, &[&dirty, &ones], &[6], |_, results| {
        let truth = [0, 1, 1, 1, 1, 0];
        let results: Vec<&[u8]> = results.iter().map(Tensor::bytes).collect();
        assert_eq!(results, [truth, [1, 0, 0, 0, 0, 1], truth, truth, truth]);
    });
}
