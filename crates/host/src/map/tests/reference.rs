//! A slow and plain evaluation of expressions, one element at a time.

use std::sync::Arc;

use streampool_conformance::halves::{nearest_bf16, nearest_f16};
use streampool_device::{Binary, Compare, DType, Expr, Layout, Node, Scalar, Unary};

use crate::team::Solo;

use super::{Buffer, execute};

/// The value of one element, of whatever type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Element {
    Float(f64),
    Int(i128),
    Bool(bool),
}

use Element::{Bool, Float, Int};

impl Element {
    pub(super) fn read(bytes: &[u8], dtype: DType) -> Element {
        macro_rules! number {
            ($type:ty) => {
                <$type>::from_ne_bytes(bytes.try_into().unwrap())
            };
        }
        match dtype {
            DType::F32 => Float(f64::from(number!(f32))),
            DType::F64 => Float(number!(f64)),
            DType::F16 => Float(half::f16::from_bits(number!(u16)).to_f64()),
            DType::BF16 => Float(half::bf16::from_bits(number!(u16)).to_f64()),
            DType::I8 => Int(i128::from(number!(i8))),
            DType::U8 => Int(i128::from(number!(u8))),
            DType::I16 => Int(i128::from(number!(i16))),
            DType::U16 => Int(i128::from(number!(u16))),
            DType::I32 => Int(i128::from(number!(i32))),
            DType::U32 => Int(i128::from(number!(u32))),
            DType::I64 => Int(i128::from(number!(i64))),
            DType::U64 => Int(i128::from(number!(u64))),
            DType::Bool => Bool(match bytes {
                [0] => false,
                [1] => true,
                other => panic!("a bool is {other:?}"),
            }),
        }
    }

    pub(super) fn write(self, dtype: DType) -> Vec<u8> {
        match (self, dtype) {
            (Float(x), DType::F32) => (x as f32).to_ne_bytes().to_vec(),
            (Float(x), DType::F64) => x.to_ne_bytes().to_vec(),
            (Float(x), DType::F16) => nearest_f16(x).to_bits().to_ne_bytes().to_vec(),
            (Float(x), DType::BF16) => nearest_bf16(x).to_bits().to_ne_bytes().to_vec(),
            (Int(x), dtype) if dtype.is_integer() => x.to_le_bytes()[..dtype.size()].to_vec(),
            (Bool(x), DType::Bool) => vec![u8::from(x)],
            other => panic!("no such element: {other:?}"),
        }
    }

    /// Whether both are the same value; every NaN is the same.
    pub(super) fn same(self, other: Element) -> bool {
        match (self, other) {
            (Float(x), Float(y)) => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
            _ => self == other,
        }
    }

    fn float(self) -> f64 {
        match self {
            Float(x) => x,
            Int(x) => x as f64,
            Bool(x) => f64::from(u8::from(x)),
        }
    }

    fn int(self) -> i128 {
        match self {
            Float(x) => x as i128,
            Int(x) => x,
            Bool(x) => i128::from(x),
        }
    }
}

/// The nearest float with this many bits of mantissa and this least exponent, ties to even.
fn nearest(x: f64, mantissa: i32, least: i32, largest: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
    let step = 2f64.powi(exponent - mantissa);
    let rounded = (x / step).round_ties_even() * step;
    if rounded.abs() > largest {
        f64::INFINITY.copysign(x)
    } else {
        rounded.copysign(x)
    }
}

pub(super) fn round_to(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F16 => nearest(x, 10, -14, 65504.0),
        DType::BF16 => nearest(x, 7, -126, f64::from(f32::MAX)),
        _ => x,
    }
}

/// The least and the largest value of an integer type.
fn range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size();
    if dtype.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

pub(super) fn wrap(x: i128, dtype: DType) -> i128 {
    let (low, high) = range(dtype);
    (x - low).rem_euclid(high - low + 1) + low
}

pub(super) fn cast(x: Element, to: DType) -> Element {
    match (x, to) {
        (Float(x), DType::Bool) => Bool(x != 0.0),
        (Int(x), DType::Bool) => Bool(x != 0),
        (x, DType::Bool) => x,
        (Int(x), DType::F32) => Float(f64::from(x as f32)),
        (Int(x), DType::BF16) if x.unsigned_abs() >> 53 != 0 => {
            // Too long for a double: what the rounding to a brain float cannot see becomes one bit.
            let sticky = i128::from(x & 0xffff != 0) << 16;
            Float(round_to((x & !0xffff | sticky) as f64, to))
        }
        (x, to) if to.is_float() => Float(round_to(x.float(), to)),
        (Float(x), to) => {
            let (low, high) = range(to);
            Int((x as i128).clamp(low, high))
        }
        (x, to) => Int(wrap(x.int(), to)),
    }
}

pub(super) fn constant(value: Scalar, dtype: DType) -> Element {
    let element = match value {
        Scalar::Float(x) => Float(x),
        Scalar::Int(x) if dtype.is_float() => Float(x as f64),
        Scalar::Int(x) => Int(i128::from(x)),
        Scalar::Bool(x) => Bool(x),
    };
    cast(element, dtype)
}

/// One function alone, by the code under test: its values are checked elsewhere; here it matters that
/// fusing does not change them.
fn alone(expr: Expr, operands: &[(Element, DType)]) -> Element {
    let scalar = Layout::contiguous(&[]).unwrap();
    let mut buffers: Vec<_> = operands
        .iter()
        .map(|(element, dtype)| (Buffer::of(&element.write(*dtype)), *dtype))
        .collect();
    let inputs: Vec<_> = buffers
        .iter_mut()
        .map(|(buffer, dtype)| buffer.view(*dtype, scalar))
        .collect();
    let dtype = expr.dtype(expr.outputs()[0]);
    let mut output = Buffer::new(dtype.size());
    let view = output.view(dtype, scalar);
    execute(&Arc::new(expr), &inputs, &[view], &Solo);
    Element::read(output.bytes(), dtype)
}

fn unary(function: Unary, x: Element, dtype: DType) -> Element {
    match (function, x) {
        (Unary::Not, Bool(x)) => Bool(!x),
        (Unary::Not, Int(x)) => Int(wrap(!x, dtype)),
        (Unary::Neg, Int(x)) => Int(wrap(-x, dtype)),
        (Unary::Abs, Int(x)) => Int(wrap(x.abs(), dtype)),
        (Unary::Sign, Int(x)) => Int(x.signum()),
        (Unary::Relu, Int(x)) => Int(x.max(0)),
        (Unary::Neg, Float(x)) => Float(-x),
        (Unary::Abs, Float(x)) => Float(x.abs()),
        (Unary::Relu, Float(x)) if x <= 0.0 => Float(0.0),
        (Unary::Relu, x) => x,
        (Unary::Sqrt, Float(x)) => Float(round_to(x.sqrt(), dtype)),
        (Unary::Recip, Float(x)) => Float(round_to(1.0 / x, dtype)),
        (Unary::Floor, Float(x)) => Float(x.floor()),
        (Unary::Ceil, Float(x)) => Float(x.ceil()),
        (Unary::Trunc, Float(x)) => Float(x.trunc()),
        (Unary::Round, Float(x)) => Float(x.round_ties_even()),
        (Unary::IsNan, Float(x)) => Bool(x.is_nan()),
        (Unary::IsInf, Float(x)) => Bool(x.is_infinite()),
        (function, x) => alone(Expr::unary(function, dtype).unwrap(), &[(x, dtype)]),
    }
}

fn power(base: i128, exponent: i128, dtype: DType) -> i128 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, exponent) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        // The wrapping powers of a base repeat within the width; reduce step by step.
        (base, exponent) => {
            let mut result = 1i128;
            for bit in (0..64).rev() {
                result = wrap(result.wrapping_mul(result), dtype);
                if exponent >> bit & 1 == 1 {
                    result = wrap(result.wrapping_mul(base), dtype);
                }
            }
            result
        }
    }
}

pub(super) fn binary(function: Binary, x: Element, y: Element, dtype: DType) -> Element {
    use Binary::{Add, And, Atan2, Div, Max, Min, Mul, Or, Pow, Rem, Shl, Shr, Sub, Xor};
    match (x, y) {
        (Bool(x), Bool(y)) => Bool(match function {
            And => x && y,
            Or => x || y,
            _ => x != y,
        }),
        (Int(x), Int(y)) => {
            let bits = (dtype.size() * 8) as i128;
            let result = match function {
                Add => x + y,
                Sub => x - y,
                Mul => x.wrapping_mul(y),
                Div => x.checked_div(y).unwrap_or(0),
                Rem => x.checked_rem(y).unwrap_or(0),
                Pow => power(x, y, dtype),
                Min => x.min(y),
                Max => x.max(y),
                And => x & y,
                Or => x | y,
                Xor => x ^ y,
                Shl => x << y.rem_euclid(bits),
                Shr => x >> y.rem_euclid(bits),
                Atan2 => panic!("not of integers"),
            };
            Int(wrap(result, dtype))
        }
        (Float(a), Float(b)) => match function {
            Add => Float(round_to(a + b, dtype)),
            Sub => Float(round_to(a - b, dtype)),
            Mul => Float(round_to(a * b, dtype)),
            Div => Float(round_to(a / b, dtype)),
            Rem => Float(round_to(a % b, dtype)),
            Min | Max if a.is_nan() || b.is_nan() => Float(f64::NAN),
            Min => {
                if a < b {
                    x
                } else {
                    y
                }
            }
            Max => {
                if a > b {
                    x
                } else {
                    y
                }
            }
            _ => alone(
                Expr::binary(function, dtype).unwrap(),
                &[(x, dtype), (y, dtype)],
            ),
        },
        other => panic!("operands of different types: {other:?}"),
    }
}

pub(super) fn compare(comparison: Compare, x: Element, y: Element) -> bool {
    let order = match (x, y) {
        (Float(x), Float(y)) => x.partial_cmp(&y),
        (Int(x), Int(y)) => Some(x.cmp(&y)),
        _ => Some(x.int().cmp(&y.int())),
    };
    match comparison {
        Compare::Eq => order.is_some_and(|order| order.is_eq()),
        Compare::Ne => order.is_none_or(|order| order.is_ne()),
        Compare::Lt => order.is_some_and(|order| order.is_lt()),
        Compare::Le => order.is_some_and(|order| order.is_le()),
        Compare::Gt => order.is_some_and(|order| order.is_gt()),
        Compare::Ge => order.is_some_and(|order| order.is_ge()),
    }
}

/// The values of all nodes for one element of each input.
pub(super) fn evaluate(expr: &Expr, inputs: &[Element]) -> Vec<Element> {
    let mut values: Vec<Element> = Vec::new();
    for &(node, dtype) in expr.nodes() {
        let value = match node {
            Node::Input(index) => inputs[usize::from(index)],
            Node::Const(value) => constant(value, dtype),
            Node::Unary(function, x) => unary(function, values[x.index()], expr.dtype(x)),
            Node::Binary(function, x, y) => {
                binary(function, values[x.index()], values[y.index()], dtype)
            }
            Node::Compare(comparison, x, y) => {
                Bool(compare(comparison, values[x.index()], values[y.index()]))
            }
            Node::Select(condition, x, y) => match values[condition.index()] {
                Bool(true) => values[x.index()],
                _ => values[y.index()],
            },
            Node::Cast(x) => cast(values[x.index()], dtype),
        };
        values.push(value);
    }
    values
}
