//! What each op means, computed one element at a time in `f64` and `i64`: slow and obviously right.

mod map;
mod matmul;
mod norm;
mod reduce;
mod softmax;

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
        } => map::map(expr, inputs, outputs, operands),
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
        other => panic!("{} has no reference", other.kind()),
    }
}

/// A constant in the type it is used with.
pub(crate) fn constant(value: Scalar, dtype: DType) -> Num {
    if dtype == DType::Bool {
        Num::Int(i64::from(value.to_bool()))
    } else if dtype.is_float() {
        Num::Float(value.to_f64()).cast(dtype)
    } else {
        Num::Int(value.to_i64()).cast(dtype)
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
    (0..dst.layout.elements() as i64)
        .map(|index| match (start, step) {
            (Num::Int(start), Num::Int(step)) => {
                let value = start.wrapping_add(index.wrapping_mul(step));
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
