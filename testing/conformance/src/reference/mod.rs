//! What each op means, computed one element at a time in `f64` and `i128`: slow and obviously right.

mod attention;
mod conv;
mod index;
mod map;
mod matmul;
mod norm;
mod order;
mod pool;
mod random;
mod reduce;
mod resize;
mod rnn;
mod softmax;
mod tally;

pub(crate) use map::activation;

use streampool_device::{DType, Op, Scalar};

use crate::num::Num;
use crate::operand::Operand;

/// What one element has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The true value, not yet rounded to the element's type.
    pub(crate) value: Num,
    /// The magnitude of what it was computed from: rounding errors are a part of it. Zero asks for the
    /// exact value.
    pub(crate) scale: f64,
}

impl Expected {
    pub(crate) fn exact(value: Num) -> Expected {
        Expected { value, scale: 0.0 }
    }
}

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
        Op::Norm(op) => vec![(op.dst, norm::norm(op, operands))],
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
        Op::NonZero(op) => {
            let [indices, count] = tally::nonzero(op, operands);
            vec![(op.indices, indices), (op.count, count)]
        }
        other => panic!("{} has no reference", other.kind()),
    }
}

/// A constant in the type it is used with.
pub(crate) fn constant(value: Scalar, dtype: DType) -> Num {
    if dtype == DType::Bool {
        Num::Int(i128::from(value.to_bool()))
    } else if dtype.is_float() {
        Num::Float(value.to_f64()).cast(dtype)
    } else {
        match value {
            Scalar::Float(value) => Num::Float(value).cast(dtype),
            other => Num::whole(other.to_i64()).cast(dtype),
        }
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

/// For each index of `to`, the row-major number of the element of `from` that broadcasts to it.
pub(crate) fn broadcast(from: &[usize], to: &[usize]) -> Vec<usize> {
    let lead = to.len() - from.len();
    (0..to.iter().product())
        .map(|index: usize| {
            let (mut rest, mut number, mut step) = (index, 0, 1);
            for axis in (0..to.len()).rev() {
                let at = rest % to[axis];
                rest /= to[axis];
                if axis >= lead {
                    let size = from[axis - lead];
                    number += if size == 1 { 0 } else { at * step };
                    step *= size;
                }
            }
            number
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_repeats_ones_and_missing_dimensions() {
        assert_eq!(broadcast(&[2, 1], &[2, 3]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(broadcast(&[3], &[2, 3]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(broadcast(&[], &[2]), [0, 0]);
        assert!(broadcast(&[1], &[0]).is_empty());
    }
}
