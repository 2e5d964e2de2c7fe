//! What each op means, computed one element at a time in `f64` and `i128`: slow and obviously right.

mod attention;
mod conv;
mod expected;
mod index;
mod linalg;
mod map;
mod matmul;
mod norm;
mod order;
mod pool;
mod random;
mod reduce;
mod regions;
mod resize;
mod rnn;
mod softmax;
mod tally;
mod trees;

pub(crate) use expected::Expected;
pub(crate) use linalg::{check as linalg, epsilon};
pub use map::erf;

use streampool_device::{DType, Op, Scalar};

use expected::constant;

use crate::num::Num;
use crate::operand::Operand;

/// The values of each written operand in row-major order, by its index in `operands`.
pub(crate) fn expected(op: &Op<usize>, operands: &[Operand]) -> Vec<(usize, Vec<Expected>)> {
    match op {
        Op::Copy { src, dst } => vec![(*dst, copy(&operands[*src], operands[*dst].dtype))],
        Op::Fill { dst, value } => {
            let value = constant(*value, operands[*dst].dtype);
            let count = operands[*dst].layout.elements();
            vec![(*dst, vec![Expected::exact(value); count])]
        }
        Op::Iota { dst, start, step } => vec![(*dst, iota(&operands[*dst], *start, *step))],
        Op::Map {
            expr,
            inputs,
            outputs,
        } => {
            let groups = outputs.chunks(expr.outputs().len()).enumerate();
            let reads = expr.inputs().len();
            groups
                .flat_map(|(group, outputs)| {
                    map::map(expr, &inputs[group * reads..][..reads], outputs, operands)
                })
                .collect()
        }
        Op::Reduce {
            kind,
            src,
            dst,
            axes,
        } => vec![(*dst, reduce::reduce(*kind, &operands[*src], *axes))],
        Op::Softmax {
            src,
            dst,
            axis,
            log,
        } => vec![(*dst, softmax::softmax(&operands[*src], *axis, *log))],
        Op::Norm(op) => {
            let [normalised, sum] = norm::norm(op, operands);
            let sum = op.sum.map(|operand| (operand, sum));
            std::iter::once((op.dst, normalised)).chain(sum).collect()
        }
        Op::MatMul(op) => vec![(op.out, matmul::matmul(op, operands))],
        Op::Attention(op) => vec![(op.out, attention::attention(op, operands))],
        Op::Rnn(op) => rnn::rnn(op, operands),
        Op::Conv(op) => vec![(op.dst, conv::conv(op, operands))],
        Op::Pool(op) => {
            let [results, indices] = pool::pool(op, operands);
            let indices = op.indices.map(|operand| (operand, indices));
            std::iter::once((op.dst, results)).chain(indices).collect()
        }
        Op::Resize(op) => vec![(op.dst, resize::resize(op, operands))],
        Op::Regions(op) => vec![(op.dst, regions::regions(op, operands))],
        Op::Random(op) => vec![(op.dst, random::random(op, operands))],
        Op::Gather(op) => vec![(op.dst, index::gather(op, operands))],
        Op::Scatter(op) => vec![(op.dst, index::scatter(op, operands))],
        Op::Scan(op) => vec![(op.dst, order::scan(op, &operands[op.src]))],
        Op::Sort(op) => {
            let [values, indices] = order::sort(op, operands);
            let indices = op.indices.map(|operand| (operand, indices));
            std::iter::once((op.values, values))
                .chain(indices)
                .collect()
        }
        Op::Histogram(op) => vec![(op.dst, tally::histogram(op, operands))],
        Op::Trees(op) => vec![(op.dst, trees::trees(op, operands))],
        Op::NonZero(op) => {
            let [indices, count] = tally::nonzero(op, operands);
            vec![(op.indices, indices), (op.count, count)]
        }
        other => panic!("{} has no reference", other.kind()),
    }
}

fn copy(src: &Operand, to: DType) -> Vec<Expected> {
    // A value of 64 bits may be rounded twice on its way to 16.
    let wide = matches!(src.dtype, DType::F64 | DType::I64 | DType::I32);
    let twice = wide && matches!(to, DType::F16 | DType::BF16);
    let also_f32 = src.dtype == DType::I64 && to == DType::F32;
    src.values()
        .into_iter()
        .map(|value| Expected {
            value: value.cast(to),
            scale: if twice || also_f32 {
                value.float().abs()
            } else {
                0.0
            },
        })
        .map(|expected| match expected.scale.is_finite() {
            true => expected,
            false => Expected::exact(expected.value),
        })
        .collect()
}

fn iota(dst: &Operand, start: Scalar, step: Scalar) -> Vec<Expected> {
    let (start, step) = (constant(start, dst.dtype), constant(step, dst.dtype));
    (0..dst.layout.elements())
        .map(|index| match (start, step) {
            (Num::Int(start), Num::Int(step)) => {
                let value = start.wrapping_add((index as i128).wrapping_mul(step));
                Expected::exact(Num::Int(value).cast(dst.dtype))
            }
            _ => {
                let distance = index as f64 * step.float();
                Expected {
                    value: Num::Float(start.float() + distance),
                    scale: start.float().abs() + distance.abs(),
                }
            }
        })
        .collect()
}
