//! Constants of fused expressions, which kernels get as parameters, on the host and on the emulator: the same results.

use std::sync::Arc;

use streampool_device::{Binary, DType, Expr, Op, Scalar};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};

/// Values at the ends of each type, and beyond.
const VALUES: [Scalar; 14] = [
    Scalar::Float(0.1),
    Scalar::Float(-0.0),
    Scalar::Float(f64::MIN_POSITIVE / 3.0),
    Scalar::Float(1.0 + f64::EPSILON),
    Scalar::Float(65504.0),
    Scalar::Float(f64::NEG_INFINITY),
    Scalar::Float(f64::NAN),
    Scalar::Int(i64::MIN),
    Scalar::Int(i64::MAX),
    Scalar::Int(-1),
    Scalar::Int(-128),
    Scalar::Int(300),
    Scalar::Int(1 << 53 | 1),
    Scalar::Bool(true),
];

/// The constants themselves, and what comes of one beside an input, for so many groups of operands.
fn with_constants(dtype: DType, values: &[Scalar], groups: usize) -> Op<Tensor> {
    let mut expr = Expr::builder();
    let x = expr.input(dtype).unwrap();
    let constants: Vec<_> = values
        .iter()
        .map(|&value| expr.constant(value, dtype).unwrap())
        .collect();
    let combine = match dtype {
        DType::Bool => Binary::Xor,
        _ => Binary::Min,
    };
    let mut outputs = constants.clone();
    outputs.push(expr.binary(combine, x, constants[0]).unwrap());
    let written = groups * outputs.len();
    Op::Map {
        expr: Arc::new(expr.finish(&outputs).unwrap()),
        inputs: (0..groups as u64)
            .map(|seed| Tensor::new(dtype, &[37]).random(seed))
            .collect(),
        outputs: (0..written).map(|_| Tensor::new(dtype, &[37])).collect(),
    }
}

fn compare(ops: &[Op<Tensor>]) {
    assert_all_same_as_host(Emulator::of_each_dialect(), ops, Tolerance::Exact);
}

#[test]
fn constants_of_every_type_arrive_with_all_their_bits() {
    let mut ops = Vec::new();
    for dtype in DType::ALL {
        for values in VALUES.chunks(4) {
            ops.push(with_constants(dtype, values, 1));
        }
        ops.push(with_constants(dtype, &VALUES[..3], 5));
    }
    compare(&ops);
}

#[test]
fn a_shared_kernel_computes_with_the_constants_of_each_launch() {
    let scaled: Vec<_> = (1..5)
        .map(|factor| with_constants(DType::F32, &[Scalar::Float(f64::from(factor) / 7.0)], 1))
        .collect();
    compare(&scaled);
}

#[test]
fn an_expression_may_have_more_constants_than_a_kernel_is_passed() {
    let mut expr = Expr::builder();
    let mut y = expr.input(DType::I64).unwrap();
    for value in 0..100 {
        let constant = expr.constant(value * value, DType::I64).unwrap();
        y = expr.binary(Binary::Add, y, constant).unwrap();
    }
    compare(&[Op::Map {
        expr: Arc::new(expr.finish(&[y]).unwrap()),
        inputs: vec![Tensor::new(DType::I64, &[3, 11]).random(1)],
        outputs: vec![Tensor::new(DType::I64, &[3, 11])],
    }]);
}
