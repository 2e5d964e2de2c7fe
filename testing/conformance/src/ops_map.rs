//! The functions of elementwise expressions, each against the reference.

use std::sync::Arc;

use streampool_device::{Binary, Compare, DType, Expr, Op, Unary};

use crate::execute::check;
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, INTEGERS, any_value};
use crate::rng::Rng;

/// The op over operands by index.
pub(crate) fn map(expr: Expr, inputs: &[usize], outputs: &[usize]) -> Op<usize> {
    Op::Map {
        expr: Arc::new(expr),
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
    }
}

/// Functions of a float, each with where its arguments come from.
const FLOAT_UNARY: [(Unary, f64, f64); 34] = [
    (Unary::Neg, -9.0, 9.0),
    (Unary::Abs, -9.0, 9.0),
    (Unary::Sign, -9.0, 9.0),
    (Unary::Relu, -9.0, 9.0),
    (Unary::Exp, -5.0, 5.0),
    (Unary::Log, 0.05, 20.0),
    (Unary::Log1p, -0.8, 20.0),
    (Unary::Expm1, -5.0, 5.0),
    (Unary::Sqrt, 0.0, 20.0),
    (Unary::Rsqrt, 0.05, 20.0),
    (Unary::Recip, 0.05, 20.0),
    (Unary::Sin, -1.5, 1.5),
    (Unary::Cos, -1.0, 1.0),
    (Unary::Tan, -1.2, 1.2),
    (Unary::Asin, -0.9, 0.9),
    (Unary::Acos, -0.9, 0.7),
    (Unary::Atan, -9.0, 9.0),
    (Unary::Sinh, -4.0, 4.0),
    (Unary::Cosh, -4.0, 4.0),
    (Unary::Tanh, -4.0, 4.0),
    (Unary::Asinh, -9.0, 9.0),
    (Unary::Acosh, 1.1, 9.0),
    (Unary::Atanh, -0.9, 0.9),
    (Unary::Erf, -4.0, 4.0),
    (Unary::Sigmoid, -8.0, 8.0),
    (Unary::Silu, -3.0, 8.0),
    (Unary::Gelu, -2.0, 8.0),
    (Unary::GeluTanh, -2.0, 8.0),
    (Unary::Softplus, -8.0, 8.0),
    (Unary::Floor, -9.0, 9.0),
    (Unary::Ceil, -9.0, 9.0),
    (Unary::Round, -9.0, 9.0),
    (Unary::Trunc, -9.0, 9.0),
    (Unary::IsNan, -9.0, 9.0),
];

/// Every function of a float, in every float type.
pub fn float_functions(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(20);
    for dtype in FLOATS {
        for (function, low, high) in FLOAT_UNARY {
            let expr = Expr::unary(function, dtype).expect("it is of floats");
            let to = expr.dtype(expr.outputs()[0]);
            let values: Vec<Num> = (0..150).map(|_| Num::Float(rng.real(low, high))).collect();
            let src = Operand::of(dtype, &[150], values);
            check(
                fixture,
                &mut lane,
                &map(expr, &[0], &[1]),
                &[src, Operand::row_major(to, &[150])],
            );
        }
    }
}

/// Functions saturate, or give infinities, far out; and ties round to even.
pub fn float_functions_far_out(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let far = [-1e4, -100.0, 100.0, 1e4, f64::INFINITY, f64::NEG_INFINITY].map(Num::Float);
    for dtype in FLOATS {
        for function in [
            Unary::Tanh,
            Unary::Sigmoid,
            Unary::Erf,
            Unary::Atan,
            Unary::Asinh,
            Unary::Relu,
            Unary::Abs,
        ] {
            let expr = Expr::unary(function, dtype).expect("it is of floats");
            let operands = [
                Operand::of(dtype, &[6], far),
                Operand::row_major(dtype, &[6]),
            ];
            check(fixture, &mut lane, &map(expr, &[0], &[1]), &operands);
        }
        let large = [100.0, 1e4, f64::INFINITY, f64::NEG_INFINITY].map(Num::Float);
        for function in [
            Unary::Silu,
            Unary::Gelu,
            Unary::GeluTanh,
            Unary::Softplus,
            Unary::Acosh,
            Unary::Sqrt,
        ] {
            let expr = Expr::unary(function, dtype).expect("it is of floats");
            let operands = [
                Operand::of(dtype, &[4], large),
                Operand::row_major(dtype, &[4]),
            ];
            check(fixture, &mut lane, &map(expr, &[0], &[1]), &operands);
        }
        let ties = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.0].map(Num::Float);
        for function in [
            Unary::Round,
            Unary::Floor,
            Unary::Ceil,
            Unary::Trunc,
            Unary::Sign,
        ] {
            let expr = Expr::unary(function, dtype).expect("it is of floats");
            let operands = [
                Operand::of(dtype, &[8], ties),
                Operand::row_major(dtype, &[8]),
            ];
            check(fixture, &mut lane, &map(expr, &[0], &[1]), &operands);
        }
    }
}

/// NaN goes through, wins in `Min` and `Max`, equals nothing, and is told apart from infinity.
pub fn nan_and_infinity(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
    ];
    let pairs: Vec<(Num, Num)> = special
        .iter()
        .flat_map(|&x| special.iter().map(move |&y| (Num::Float(x), Num::Float(y))))
        .collect();
    for dtype in FLOATS {
        let shape = [pairs.len()];
        let x = Operand::of(dtype, &shape, pairs.iter().map(|pair| pair.0));
        let y = Operand::of(dtype, &shape, pairs.iter().map(|pair| pair.1));
        for function in [
            Binary::Add,
            Binary::Sub,
            Binary::Mul,
            Binary::Div,
            Binary::Min,
            Binary::Max,
        ] {
            let expr = Expr::binary(function, dtype).expect("it is of floats");
            let operands = [x.clone(), y.clone(), Operand::row_major(dtype, &shape)];
            check(fixture, &mut lane, &map(expr, &[0, 1], &[2]), &operands);
        }
        for comparison in COMPARISONS {
            let operands = [
                x.clone(),
                y.clone(),
                Operand::row_major(DType::Bool, &shape),
            ];
            check(
                fixture,
                &mut lane,
                &map(compared(comparison, dtype), &[0, 1], &[2]),
                &operands,
            );
        }
        for function in [Unary::IsNan, Unary::IsInf] {
            let expr = Expr::unary(function, dtype).expect("it is of floats");
            let operands = [x.clone(), Operand::row_major(DType::Bool, &shape)];
            check(fixture, &mut lane, &map(expr, &[0], &[1]), &operands);
        }
        for function in [
            Unary::Neg,
            Unary::Exp,
            Unary::Sin,
            Unary::Tanh,
            Unary::Sigmoid,
            Unary::Floor,
        ] {
            let expr = Expr::unary(function, dtype).expect("it is of floats");
            let operands = [
                Operand::of(dtype, &[1], [Num::Float(f64::NAN)]),
                Operand::row_major(dtype, &[1]),
            ];
            check(fixture, &mut lane, &map(expr, &[0], &[1]), &operands);
        }
    }
}

pub(crate) const COMPARISONS: [Compare; 6] = [
    Compare::Eq,
    Compare::Ne,
    Compare::Lt,
    Compare::Le,
    Compare::Gt,
    Compare::Ge,
];

pub(crate) fn compared(comparison: Compare, dtype: DType) -> Expr {
    let build = || {
        let mut expr = Expr::builder();
        let (x, y) = (expr.input(dtype)?, expr.input(dtype)?);
        let z = expr.compare(comparison, x, y)?;
        expr.finish(&[z])
    };
    build().expect("operands of one type compare")
}

/// Functions of integers: they wrap, divide by zero to zero, shift modulo the width.
pub fn integer_functions(fixture: &Fixture) {
    use Binary::{Add, And, Div, Max, Min, Mul, Or, Pow, Rem, Shl, Shr, Sub, Xor};
    let mut lane = fixture.lane();
    let mut rng = Rng::new(21);
    for dtype in INTEGERS {
        let mut any = || -> Vec<Num> { (0..300).map(|_| any_value(&mut rng, dtype)).collect() };
        let (mut x, mut y) = (any(), any());
        for (index, (left, right)) in [(0, 0), (7, 0), (-7, 2), (7, -2), (-128, -1)]
            .into_iter()
            .enumerate()
        {
            (x[index], y[index]) = (Num::whole(left).cast(dtype), Num::whole(right).cast(dtype));
        }
        (x[5], y[5]) = (Num::whole(i64::MIN).cast(dtype), Num::whole(-1).cast(dtype));
        let (x, y) = (Operand::of(dtype, &[300], x), Operand::of(dtype, &[300], y));
        for function in [Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor, Shl, Shr] {
            let expr = Expr::binary(function, dtype).expect("it is of integers");
            let operands = [x.clone(), y.clone(), Operand::row_major(dtype, &[300])];
            check(fixture, &mut lane, &map(expr, &[0, 1], &[2]), &operands);
        }
        for function in [Unary::Neg, Unary::Abs, Unary::Sign, Unary::Relu, Unary::Not] {
            let expr = Expr::unary(function, dtype).expect("it is of integers");
            let operands = [x.clone(), Operand::row_major(dtype, &[300])];
            check(fixture, &mut lane, &map(expr, &[0], &[1]), &operands);
        }
        for comparison in COMPARISONS {
            let operands = [
                x.clone(),
                y.clone(),
                Operand::row_major(DType::Bool, &[300]),
            ];
            check(
                fixture,
                &mut lane,
                &map(compared(comparison, dtype), &[0, 1], &[2]),
                &operands,
            );
        }
        let low = if dtype.is_unsigned() { 0 } else { -4 };
        let powers: Vec<(i64, i64)> = (low..=5)
            .flat_map(|base| (low..=9).map(move |power| (base, power)))
            .collect();
        let powers: Vec<_> = powers
            .into_iter()
            .filter(|&(base, power)| base != 0 || power >= 0)
            .collect();
        let shape = [powers.len()];
        let base = Operand::of(dtype, &shape, powers.iter().map(|pair| Num::whole(pair.0)));
        let power = Operand::of(dtype, &shape, powers.iter().map(|pair| Num::whole(pair.1)));
        let expr = Expr::binary(Pow, dtype).expect("it is of integers");
        let operands = [base, power, Operand::row_major(dtype, &shape)];
        check(fixture, &mut lane, &map(expr, &[0, 1], &[2]), &operands);
    }
}

/// Functions of truth values give truth values.
pub fn truth_functions(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let x = Operand::of(DType::Bool, &[4], [0, 0, 1, 1].map(Num::Int));
    let y = Operand::of(DType::Bool, &[4], [0, 1, 0, 1].map(Num::Int));
    let out = Operand::row_major(DType::Bool, &[4]);
    for function in [Binary::And, Binary::Or, Binary::Xor] {
        let expr = Expr::binary(function, DType::Bool).expect("it is of truth values");
        check(
            fixture,
            &mut lane,
            &map(expr, &[0, 1], &[2]),
            &[x.clone(), y.clone(), out.clone()],
        );
    }
    for comparison in COMPARISONS {
        let expr = compared(comparison, DType::Bool);
        check(
            fixture,
            &mut lane,
            &map(expr, &[0, 1], &[2]),
            &[x.clone(), y.clone(), out.clone()],
        );
    }
    let expr = Expr::unary(Unary::Not, DType::Bool).expect("it is of truth values");
    check(fixture, &mut lane, &map(expr, &[0], &[1]), &[x, out]);
}

/// Functions of two floats.
pub fn float_pairs(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(22);
    for dtype in FLOATS {
        for function in [
            Binary::Add,
            Binary::Sub,
            Binary::Mul,
            Binary::Div,
            Binary::Rem,
            Binary::Min,
            Binary::Max,
            Binary::Atan2,
        ] {
            let mut real =
                || -> Vec<Num> { (0..200).map(|_| Num::Float(rng.real(-9.0, 9.0))).collect() };
            let operands = [
                Operand::of(dtype, &[200], real()),
                Operand::of(dtype, &[200], real()),
                Operand::row_major(dtype, &[200]),
            ];
            let expr = Expr::binary(function, dtype).expect("it is of floats");
            check(fixture, &mut lane, &map(expr, &[0, 1], &[2]), &operands);
        }
        let base: Vec<Num> = (0..200).map(|_| Num::Float(rng.real(0.1, 4.0))).collect();
        let power: Vec<Num> = (0..200).map(|_| Num::Float(rng.real(-2.0, 2.0))).collect();
        let operands = [
            Operand::of(dtype, &[200], base),
            Operand::of(dtype, &[200], power),
            Operand::row_major(dtype, &[200]),
        ];
        let expr = Expr::binary(Binary::Pow, dtype).expect("it is of floats");
        check(fixture, &mut lane, &map(expr, &[0, 1], &[2]), &operands);
    }
}

/// Casts inside an expression follow the same rules as copies.
pub fn casts_inside_expressions(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(23);
    for from in DType::ALL {
        let values: Vec<Num> = (0..120).map(|_| any_value(&mut rng, from)).collect();
        let src = Operand::of(from, &[120], values);
        for to in DType::ALL {
            // Where two roundings may meet there is no one right answer.
            let twice = matches!(from, DType::F64 | DType::I64 | DType::I32)
                && matches!(to, DType::F16 | DType::BF16);
            if twice || (from == DType::I64 && to == DType::F32) {
                continue;
            }
            let mut expr = Expr::builder();
            let x = expr.input(from).expect("there is room");
            let y = expr.cast(x, to).expect("everything casts");
            let expr = expr.finish(&[y]).expect("it has an output");
            check(
                fixture,
                &mut lane,
                &map(expr, &[0], &[1]),
                &[src.clone(), Operand::row_major(to, &[120])],
            );
        }
    }
}
