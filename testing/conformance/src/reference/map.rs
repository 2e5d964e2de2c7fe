//! Fused elementwise expressions, interpreted node by node.

use streampool_device::{Activation, Binary, Compare, DType, Expr, Node, Unary, Value};

use super::expected::{Expected, broadcast, constant};
use crate::num::{Num, tolerance, wrapped};
use crate::operand::Operand;

/// `outputs = expr(inputs)`.
pub(super) fn map(
    expr: &Expr,
    inputs: &[usize],
    outputs: &[usize],
    operands: &[Operand],
) -> Vec<(usize, Vec<Expected>)> {
    let shape = operands[outputs[0]].shape();
    let columns: Vec<Vec<Num>> = inputs
        .iter()
        .map(|&input| {
            let values = operands[input].values();
            let numbers = broadcast(operands[input].shape(), shape);
            numbers.into_iter().map(|number| values[number]).collect()
        })
        .collect();
    let mut results: Vec<(usize, Vec<Expected>)> =
        outputs.iter().map(|&output| (output, Vec::new())).collect();
    for index in 0..shape.iter().product() {
        let element: Vec<Num> = columns.iter().map(|column| column[index]).collect();
        for (result, expected) in results.iter_mut().zip(evaluate(expr, &element)) {
            result.1.push(expected);
        }
    }
    results
}

fn evaluate(expr: &Expr, inputs: &[Num]) -> Vec<Expected> {
    let mut values: Vec<Expected> = Vec::with_capacity(expr.nodes().len());
    for &(node, dtype) in expr.nodes() {
        let of = |value: Value| values[value.index()];
        // What the error of an operand becomes.
        let passed = |from: Value, value: Num, function: &dyn Fn(Num) -> Num| {
            let operand = of(from);
            spread(operand, value, expr.dtype(from), function).max(operand.scale)
        };
        let step = match node {
            Node::Input(input) => Expected::exact(inputs[usize::from(input)]),
            Node::Const(value) => Expected::exact(constant(value, dtype)),
            Node::Unary(function, x) => {
                let x_type = expr.dtype(x);
                let apply = |x| unary(function, x, x_type);
                let value = apply(of(x).value);
                // What is left of one less nearly one has no more digits than the one had.
                let tail = match function {
                    Unary::Gelu | Unary::GeluTanh if x_type == DType::F64 => {
                        0.01 * rounding(of(x).value, false)
                    }
                    _ => 0.0,
                };
                Expected {
                    value,
                    scale: passed(x, value, &apply) + rounding(value, is_exact(function)) + tail,
                }
            }
            Node::Binary(function, x, y) => {
                let (left, right) = (of(x).value, of(y).value);
                let value = binary(function, left, right, dtype);
                let exact = matches!(function, Binary::Min | Binary::Max);
                let operands = if exact { 0.0 } else { larger(left, right) };
                let from_left = passed(x, value, &|left| binary(function, left, right, dtype));
                let from_right = passed(y, value, &|right| binary(function, left, right, dtype));
                Expected {
                    value,
                    scale: from_left + from_right + rounding(value, exact) + operands,
                }
            }
            Node::Compare(comparison, x, y) => {
                Expected::exact(truth(compare(comparison, of(x).value, of(y).value)))
            }
            Node::Select(condition, x, y) => of(if of(condition).value.is_true() { x } else { y }),
            Node::Cast(x) => Expected {
                value: of(x).value.cast(dtype),
                scale: of(x).scale,
            },
        };
        values.push(step);
    }
    expr.outputs()
        .iter()
        .map(|&output| {
            let expected = values[output.index()];
            let is_finite = expected.value.float().is_finite();
            match expr.dtype(output).is_float() && (is_finite || expected.scale.is_infinite()) {
                true => expected,
                false => Expected::exact(expected.value),
            }
        })
        .collect()
}

/// How much a function's value changes where its operand changes by its error, in parts of the operand's precision: near a pole, or
/// of a small difference of large numbers, far more than the operand. Infinite if the value may be none at all.
fn spread(operand: Expected, value: Num, dtype: DType, function: &dyn Fn(Num) -> Num) -> f64 {
    let Num::Float(x) = operand.value else {
        return 0.0;
    };
    let error = operand.scale * tolerance(dtype);
    if error == 0.0 || !x.is_finite() {
        return 0.0;
    }
    // Poles are at zero.
    let middle = if x.abs() < error { 0.0 } else { x };
    let around = [x - error, middle, x + error].map(|x| function(Num::Float(x)).float());
    let value = value.float();
    if value.is_finite() && around.iter().all(|other| other.is_finite()) {
        let changes = around.map(|other| (other - value).abs());
        return changes.into_iter().fold(0.0, f64::max) / tolerance(dtype);
    }
    let is_same = |other: &f64| *other == value || other.is_nan() && value.is_nan();
    match around.iter().all(is_same) {
        true => 0.0,
        false => f64::INFINITY,
    }
}

/// What the rounding of one more step may add, in parts of an element's precision.
fn rounding(value: Num, exact: bool) -> f64 {
    match value {
        Num::Float(value) if !exact && value.is_finite() => value.abs(),
        _ => 0.0,
    }
}

/// Sums and remainders are as wrong as their larger operand.
fn larger(x: Num, y: Num) -> f64 {
    match (x, y) {
        (Num::Float(x), Num::Float(y)) if x.is_finite() && y.is_finite() => {
            0.1 * x.abs().max(y.abs())
        }
        _ => 0.0,
    }
}

fn is_exact(function: Unary) -> bool {
    use Unary::{Abs, Ceil, Floor, Neg, Relu, Round, Sign, Trunc};
    matches!(
        function,
        Neg | Abs | Sign | Relu | Floor | Ceil | Round | Trunc
    )
}

fn truth(value: bool) -> Num {
    Num::Int(i128::from(value))
}

fn unary(function: Unary, x: Num, dtype: DType) -> Num {
    match x {
        Num::Float(x) => match function {
            Unary::IsNan => truth(x.is_nan()),
            Unary::IsInf => truth(x.is_infinite()),
            _ => Num::Float(unary_float(function, x)),
        },
        Num::Int(x) => Num::Int(wrapped(
            dtype,
            match function {
                Unary::Neg => x.wrapping_neg(),
                Unary::Abs => x.wrapping_abs(),
                Unary::Sign => x.signum(),
                Unary::Relu => x.max(0),
                Unary::Not if dtype == DType::Bool => 1 - x,
                Unary::Not => !x,
                other => panic!("{other:?} is not of integers"),
            },
        )),
    }
}

fn unary_float(function: Unary, x: f64) -> f64 {
    match function {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => x.signum(),
        Unary::Relu if x > 0.0 || x.is_nan() => x,
        Unary::Relu => 0.0,
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Tanh => x.tanh(),
        Unary::Asinh => x.asinh(),
        // The difference from one is exact, so that its own precision is left near there.
        Unary::Acosh if (1.0..1e9).contains(&x) => {
            (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p()
        }
        Unary::Acosh => x.acosh(),
        Unary::Atanh => x.atanh(),
        Unary::Erf => erf(x),
        Unary::Sigmoid => sigmoid(x),
        Unary::Silu => x * sigmoid(x),
        Unary::Gelu => activation(Activation::Gelu, x),
        Unary::GeluTanh => activation(Activation::GeluTanh, x),
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
        other => panic!("{other:?} is not of floats"),
    }
}

fn binary(function: Binary, x: Num, y: Num, dtype: DType) -> Num {
    match (x, y) {
        (Num::Float(x), Num::Float(y)) => Num::Float(match function {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div => x / y,
            Binary::Rem => x % y,
            Binary::Pow => x.powf(y),
            Binary::Min | Binary::Max if x.is_nan() || y.is_nan() => f64::NAN,
            Binary::Min => x.min(y),
            Binary::Max => x.max(y),
            Binary::Atan2 => x.atan2(y),
            other => panic!("{other:?} is not of floats"),
        }),
        (x, y) => Num::Int(wrapped(
            dtype,
            binary_int(function, x.int(), y.int(), dtype),
        )),
    }
}

fn binary_int(function: Binary, x: i128, y: i128, dtype: DType) -> i128 {
    let bits = 8 * dtype.size() as i128;
    match function {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div | Binary::Rem if y == 0 => 0,
        Binary::Div => x.wrapping_div(y),
        Binary::Rem => x.wrapping_rem(y),
        Binary::Pow => power(x, y),
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => x.wrapping_shl(y.rem_euclid(bits) as u32),
        Binary::Shr => x >> y.rem_euclid(bits),
        Binary::Atan2 => panic!("Atan2 is not of integers"),
    }
}

fn power(x: i128, y: i128) -> i128 {
    match (x, y) {
        (1, _) => 1,
        (-1, y) => {
            if y % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, y) if y < 0 => 0,
        (x, y) => {
            let (mut result, mut base, mut left) = (1i128, x, y);
            while left > 0 {
                if left % 2 == 1 {
                    result = result.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                left /= 2;
            }
            result
        }
    }
}

fn compare(comparison: Compare, x: Num, y: Num) -> bool {
    let order = match (x, y) {
        (Num::Int(x), Num::Int(y)) => Some(x.cmp(&y)),
        (x, y) => x.float().partial_cmp(&y.float()),
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

/// What a matrix product applies to its elements.
pub(crate) fn activation(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu if x > 0.0 || x.is_nan() => x,
        Activation::Relu => 0.0,
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x * sigmoid(x),
        Activation::Sigmoid => sigmoid(x),
        Activation::Tanh => x.tanh(),
        Activation::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function by the series whose terms are all positive.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let distance = x.abs();
    if distance > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (distance, 0.0, 0.0);
    while term > sum * 1e-18 {
        sum += term;
        n += 1.0;
        term *= 2.0 * distance * distance / (2.0 * n + 1.0);
    }
    let scale = 2.0 / std::f64::consts::PI.sqrt() * (-distance * distance).exp();
    (scale * sum).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_difference_grows_with_what_is_made_of_it() {
        // 1 / (3 x - 1) of nearly a third: the difference is exact here, and one or two steps of a float there.
        let build = |x: f32| {
            let mut expr = Expr::builder();
            let input = expr.input(DType::F32).unwrap();
            let [three, one] = [3.0, 1.0].map(|value| expr.constant(value, DType::F32).unwrap());
            let product = expr.binary(Binary::Mul, input, three).unwrap();
            let difference = expr.binary(Binary::Sub, product, one).unwrap();
            let result = expr.unary(Unary::Recip, difference).unwrap();
            evaluate(
                &expr.finish(&[result]).unwrap(),
                &[Num::Float(f64::from(x))],
            )[0]
        };
        // It may be infinite, or of the other sign.
        assert_eq!(build(1.0 / 3.0).scale, f64::INFINITY);
        // The error of a hundredth is a hundred times as large a part of it.
        let near = build(1.01 / 3.0);
        let relative = near.scale / near.value.float().abs();
        assert!((50.0..500.0).contains(&relative), "{relative}");
        assert!(build(2.0 / 3.0).scale < 10.0);
    }

    #[test]
    fn the_error_function_has_its_known_values() {
        for (x, y) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (3.0, 0.999_977_909_503_001_4),
        ] {
            assert!((erf(x) - y).abs() < 1e-15, "{x}");
            assert!((erf(-x) + y).abs() < 1e-15, "-{x}");
        }
    }

    #[test]
    fn integer_powers_wrap_and_invert_only_exactly() {
        assert_eq!(power(3, 4), 81);
        assert_eq!(power(2, 128), 0);
        assert_eq!(
            (power(1, -5), power(-1, -5), power(-1, -4), power(2, -1)),
            (1, -1, 1, 0)
        );
        assert_eq!(wrapped(DType::I8, power(3, 5)), -13);
    }
}
