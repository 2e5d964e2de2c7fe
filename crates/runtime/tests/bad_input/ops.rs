//! Ops on what does not fit them.

use std::sync::Arc;

use streampool_runtime::{
    Activation, Axes, Binary, DType, Expr, MatMul, Norm, NormKind, Op, ReduceKind, Unary,
};

use crate::{Case, Outcome, World, done};

impl World {
    fn matmul(&self, a: (DType, &[usize]), b: (DType, &[usize]), out: &[usize]) -> Outcome {
        let (left, right, mut result) = (self.buffer(), self.buffer(), self.buffer());
        self.stream.encode(Op::MatMul(MatMul {
            a: left.read(a.0, a.1)?,
            b: right.read(b.0, b.1)?,
            out: result.write(DType::F32, out)?,
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }))?;
        Ok(())
    }

    fn map(&self, expr: Expr, input: (DType, &[usize]), output: (DType, &[usize])) -> Outcome {
        let (a, mut b) = (self.buffer(), self.buffer());
        self.stream.encode(Op::Map {
            expr: Arc::new(expr),
            inputs: vec![a.read(input.0, input.1)?],
            outputs: vec![b.write(output.0, output.1)?],
        })?;
        Ok(())
    }
}

pub const CASES: &[Case] = &[
    (
        "a product of shapes that do not fit",
        |w| w.matmul((DType::F32, &[2, 3]), (DType::F32, &[4, 2]), &[2, 2]),
        &["matmul", "b", "[4, 2]", "3 rows"],
    ),
    (
        "a product into the wrong shape",
        |w| w.matmul((DType::F32, &[2, 3]), (DType::F32, &[3, 2]), &[2, 3]),
        &["matmul", "out", "[2, 3]", "[2, 2]"],
    ),
    (
        "a product of types that differ",
        |w| w.matmul((DType::F32, &[2, 3]), (DType::F16, &[3, 2]), &[2, 2]),
        &["matmul", "b", "f16", "f32"],
    ),
    (
        "a product of a type it cannot take",
        |w| w.matmul((DType::Bool, &[2, 3]), (DType::Bool, &[3, 2]), &[2, 2]),
        &["matmul", "a", "bool", "a float type"],
    ),
    (
        "an expression over another type",
        |w| {
            w.map(
                Expr::unary(Unary::Exp, DType::F32)?,
                (DType::F64, &[4]),
                (DType::F32, &[4]),
            )
        },
        &["map", "input", "f64", "f32"],
    ),
    (
        "an expression over shapes that do not broadcast",
        |w| {
            w.map(
                Expr::unary(Unary::Exp, DType::F32)?,
                (DType::F32, &[3]),
                (DType::F32, &[4]),
            )
        },
        &["map", "[3]", "broadcasts to [4]"],
    ),
    (
        "an expression with an operand missing",
        |w| {
            w.map(
                Expr::binary(Binary::Add, DType::F32)?,
                (DType::F32, &[4]),
                (DType::F32, &[4]),
            )
        },
        &["map", "inputs is 1", "2 operands"],
    ),
    (
        "a function that a type has not",
        |_| done(Expr::unary(Unary::Exp, DType::I32)?),
        &["i32 for Exp", "a float"],
    ),
    (
        "the mean of integers",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::I32, &[4])?, b.write(DType::I32, &[1])?);
            done(w.stream.encode(Op::Reduce {
                kind: ReduceKind::Mean,
                src,
                dst,
                axes: Axes::new(&[0])?,
            })?)
        },
        &["reduce", "src", "i32", "a float type"],
    ),
    (
        "the largest of nothing",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::F32, &[0])?, b.write(DType::F32, &[1])?);
            done(w.stream.encode(Op::Reduce {
                kind: ReduceKind::Max,
                src,
                dst,
                axes: Axes::new(&[0])?,
            })?)
        },
        &["reduce", "at least one element"],
    ),
    (
        "softmax along an axis that is not there",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::F32, &[4])?, b.write(DType::F32, &[4])?);
            done(w.stream.encode(Op::Softmax {
                src,
                dst,
                axis: 1,
                log: false,
            })?)
        },
        &["softmax", "axis is 1", "below 1"],
    ),
    (
        "a norm with a negative epsilon",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::F32, &[4])?, b.write(DType::F32, &[4])?);
            done(w.stream.encode(Op::Norm(Norm {
                added: None,
                sum: None,
                kind: NormKind::Layer,
                src,
                dst,
                scale: None,
                bias: None,
                axis: 0,
                epsilon: -1.0,
            }))?)
        },
        &["norm", "epsilon is -1", "not negative"],
    ),
    (
        "writing what was given for reading",
        |w| {
            let b = w.buffer();
            let dst = b.read(DType::F32, &[4])?;
            done(w.stream.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "`write`"],
    ),
];
