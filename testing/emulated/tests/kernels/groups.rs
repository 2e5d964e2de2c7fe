//! Expressions over several groups of operands: the kernels come to what the host comes to.

use std::sync::Arc;

use streampool_device::{Binary, DType, Expr, Layout, Op, Unary};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};
use streampool_kernels::Limits;

/// `a * exp(b)`, and `a + b`.
fn two_results(dtype: DType) -> Arc<Expr> {
    let expr = || {
        let mut expr = Expr::builder();
        let (a, b) = (expr.input(dtype)?, expr.input(dtype)?);
        let power = expr.unary(Unary::Exp, b)?;
        let product = expr.binary(Binary::Mul, a, power)?;
        let sum = expr.binary(Binary::Add, a, b)?;
        expr.finish(&[product, sum])
    };
    Arc::new(expr().expect("types agree"))
}

fn over(dtype: DType, shapes: &[&[usize]], strange: usize) -> Op<Tensor> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for (number, shape) in shapes.iter().enumerate() {
        inputs.push(Tensor::new(dtype, shape).random(number as u64));
        let second = match (number + 1) % strange {
            // One for all, or turned, or some neighbours apart.
            0 if number % 2 == 0 => Tensor::new(dtype, &[]),
            0 => {
                let backwards: Vec<usize> = shape.iter().rev().copied().collect();
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                let turned =
                    Layout::contiguous(&backwards).and_then(|layout| layout.permute(&order));
                Tensor::laid_out(dtype, turned.expect("a layout"))
            }
            _ => Tensor::new(dtype, shape),
        };
        inputs.push(second.random(100 + number as u64));
        outputs.extend([Tensor::new(dtype, shape), Tensor::new(dtype, shape)]);
    }
    Op::Map {
        expr: two_results(dtype),
        inputs,
        outputs,
    }
}

#[test]
fn groups_of_operands() {
    let lengths: [&[usize]; 11] = [
        &[5],
        &[1024],
        &[3, 7],
        &[],
        &[0],
        &[1],
        &[4096],
        &[4097],
        &[2, 3, 5],
        &[255],
        &[30_000],
    ];
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::F64] {
        for count in [2, 3, 4, 5, 11] {
            ops.push(over(dtype, &lengths[..count], usize::MAX));
            ops.push(over(dtype, &lengths[..count], 3));
        }
    }
    let many: Vec<&[usize]> = (0..70)
        .map(|number| lengths[number % lengths.len()])
        .collect();
    ops.push(over(DType::F32, &many, usize::MAX));
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Usual);
    let small = Emulator::of_each_dialect().map(|emulator| {
        emulator.with_limits(Limits {
            compute_units: 1,
            shared_bytes: 32 << 10,
            buffers: 30,
        })
    });
    assert_all_same_as_host(small, &[over(DType::F32, &many, 5)], Tolerance::Usual);
}
