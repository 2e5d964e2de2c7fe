//! Random expressions: functions that are fused come to the same bits as one after the other.

use std::sync::Arc;

use streampool_conformance::rng::Rng;
use streampool_device::{
    Binary, Compare, DType, Expr, ExprBuilder, Layout, Node, Op, Scalar, Unary, Value, View,
};

use super::super::code::Code;
use super::super::lane::Lane;
use super::super::program::Program;
use super::{BINARY, COMPARE, UNARY, floats, on_each_level, outputs};
use crate::kernels::Bounds;
use crate::kernels::simd::Level;
use crate::kernels::simd::forced::at_each_level;
use crate::kernels::tests::ops::{self, Tensor};

/// An expression of about `size` nodes over up to five inputs; values of every type occur.
pub(super) fn random_expr(rng: &mut Rng, size: usize) -> Expr {
    let mut expr = Expr::builder();
    let mut values: Vec<(Value, DType)> = Vec::new();
    for _ in 0..1 + rng.below(5) {
        let dtype = DType::ALL[rng.below(DType::ALL.len())];
        values.push((expr.input(dtype).unwrap(), dtype));
    }
    for _ in 0..size {
        if let Some(made) = random_node(&mut expr, &values, rng) {
            values.push(made);
        }
    }
    let outputs: Vec<Value> = (0..1 + rng.below(3))
        .map(|_| {
            let latest = values.len().saturating_sub(4);
            values[latest + rng.below(values.len() - latest)].0
        })
        .collect();
    expr.finish(&outputs).unwrap()
}

fn random_node(
    expr: &mut ExprBuilder,
    values: &[(Value, DType)],
    rng: &mut Rng,
) -> Option<(Value, DType)> {
    let (x, dtype) = values[rng.below(values.len())];
    // A partner of the same type, if there is another one.
    let start = rng.below(values.len());
    let around = values.iter().cycle().skip(start).take(values.len());
    let y = around
        .filter(|&&(_, other)| other == dtype)
        .map(|&(value, _)| value)
        .next()?;
    match rng.below(12) {
        0..=2 => {
            let function = UNARY[rng.below(UNARY.len())];
            let value = expr.unary(function, x).ok()?;
            let test = matches!(function, Unary::IsNan | Unary::IsInf);
            Some((value, if test { DType::Bool } else { dtype }))
        }
        3..=6 => Some((
            expr.binary(BINARY[rng.below(BINARY.len())], x, y).ok()?,
            dtype,
        )),
        7 => Some((expr.compare(COMPARE[rng.below(6)], x, y).ok()?, DType::Bool)),
        8 => {
            let condition = values
                .iter()
                .rev()
                .find(|(_, dtype)| *dtype == DType::Bool)?
                .0;
            Some((expr.select(condition, x, y).ok()?, dtype))
        }
        9 => {
            let value = match rng.below(3) {
                0 => Scalar::Int(rng.below(600) as i64 - 300),
                1 => Scalar::Bool(rng.below(2) == 1),
                _ => Scalar::Float(rng.below(1000) as f64 / 64.0 - 7.3),
            };
            Some((expr.constant(value, dtype).ok()?, dtype))
        }
        _ => {
            let to = DType::ALL[rng.below(DType::ALL.len())];
            Some((expr.cast(x, to).ok()?, to))
        }
    }
}

/// Row-major elements that are easy to compute with, mostly.
pub(super) fn elements(dtype: DType, shape: &[usize], rng: &mut Rng) -> Tensor {
    Tensor::of(dtype, shape, || match dtype {
        DType::Bool => rng.between(0, 1) as f64,
        DType::U8 => rng.between(0, 255) as f64,
        DType::I8 => rng.between(-128, 127) as f64,
        _ if dtype.is_unsigned() => rng.between(0, 2000) as f64,
        _ if dtype.is_signed() => rng.between(-1000, 1000) as f64,
        _ => match rng.below(40) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -0.0,
            _ => rng.between(-2048, 2048) as f64 / 512.0,
        },
    })
}

/// The expression of a single node, over inputs of its operands' types.
fn alone(expr: &Expr, node: Node, dtype: DType) -> (Expr, Vec<Value>) {
    let operands = match node {
        Node::Input(_) | Node::Const(_) => vec![],
        Node::Unary(_, x) | Node::Cast(x) => vec![x],
        Node::Binary(_, x, y) | Node::Compare(_, x, y) => vec![x, y],
        Node::Select(condition, x, y) => vec![condition, x, y],
    };
    let mut one = Expr::builder();
    let inputs = operands.iter();
    let inputs: Vec<Value> = inputs.map(|&x| one.input(expr.dtype(x)).unwrap()).collect();
    let result = match (node, &inputs[..]) {
        (Node::Const(value), _) => one.constant(value, dtype),
        (Node::Unary(function, _), &[x]) => one.unary(function, x),
        (Node::Cast(_), &[x]) => one.cast(x, dtype),
        (Node::Binary(function, ..), &[x, y]) => one.binary(function, x, y),
        (Node::Compare(comparison, ..), &[x, y]) => one.compare(comparison, x, y),
        (Node::Select(..), &[condition, x, y]) => one.select(condition, x, y),
        other => panic!("{other:?} is no node to compute"),
    };
    (one.finish(&[result.unwrap()]).unwrap(), operands)
}

/// The values of all nodes, each computed by itself.
fn node_by_node(expr: &Expr, inputs: &[Tensor], shape: &[usize]) -> Vec<Tensor> {
    let mut values: Vec<Tensor> = Vec::new();
    for &(node, dtype) in expr.nodes() {
        let value = match node {
            Node::Input(index) => {
                let input = &inputs[usize::from(index)];
                Tensor::holding(dtype, *input.view.layout(), input.bytes())
            }
            node => {
                let (one, operands) = alone(expr, node, dtype);
                let operands: Vec<&Tensor> = operands.iter().map(|x| &values[x.index()]).collect();
                outputs(&Arc::new(one), &operands, shape).remove(0)
            }
        };
        values.push(value);
    }
    values
}

/// The same bytes, or NaN in the same places.
fn same(one: &Tensor, other: &Tensor) -> bool {
    let nan =
        |tensor: &Tensor| -> Vec<bool> { floats(tensor).iter().map(|x| x.is_nan()).collect() };
    one.bytes() == other.bytes()
        || one.view.dtype().is_float() && {
            let size = one.view.dtype().size();
            let pairs = one.bytes().chunks(size).zip(other.bytes().chunks(size));
            let nan = nan(one).into_iter().zip(nan(other));
            pairs
                .zip(nan)
                .all(|((x, y), nan)| x == y || nan == (true, true))
        }
}

fn check(seed: u64, shape: &[usize], size: usize) {
    let mut rng = Rng::new(seed);
    let expr = Arc::new(random_expr(&mut rng, size));
    let inputs = expr.inputs().iter();
    let inputs: Vec<Tensor> = inputs
        .map(|&dtype| elements(dtype, shape, &mut rng))
        .collect();
    let inputs_of_all: Vec<&Tensor> = inputs.iter().collect();
    at_each_level(|level| {
        let values = node_by_node(&expr, &inputs, shape);
        let results = outputs(&expr, &inputs_of_all, shape);
        for (result, value) in results.iter().zip(expr.outputs()) {
            assert!(
                same(result, &values[value.index()]),
                "{value:?} of seed {seed} at {level:?}: {expr:?}"
            );
        }
    });
}

#[test]
fn small_expressions() {
    for seed in 0..300 {
        check(seed, &[1 + seed as usize % 90], seed as usize % 40);
    }
}

#[test]
fn functions_of_bytes_are_tables() {
    let mut rng = Rng::new(5);
    for (from, to) in [
        (DType::U8, DType::U8),
        (DType::U8, DType::I8),
        (DType::I8, DType::U8),
        (DType::U8, DType::F32),
    ] {
        let mut expr = Expr::builder();
        let x = expr.input(from).unwrap();
        let [scale, step, zero] = [0.04, 0.3, 3.0].map(|it| expr.constant(it, DType::F32).unwrap());
        let float = expr.cast(x, DType::F32).unwrap();
        let scaled = expr.binary(Binary::Mul, float, scale).unwrap();
        let smooth = expr.unary(Unary::Silu, scaled).unwrap();
        let divided = expr.binary(Binary::Div, smooth, step).unwrap();
        let whole = expr.unary(Unary::Round, divided).unwrap();
        let moved = expr.binary(Binary::Add, whole, zero).unwrap();
        let result = expr.cast(moved, to).unwrap();
        let expr = Arc::new(expr.finish(&[result]).unwrap());
        at_each_level(|level| {
            assert!(Program::compile(&expr, level).unwrap().table.is_some());
            for shape in [[7, 200], [1, 63], [2, 64]] {
                let x = elements(from, &shape, &mut rng);
                let rows = elements(from, &[shape[1], shape[0]], &mut rng).turned();
                for x in [x, rows] {
                    let results = outputs(&expr, &[&x], &shape);
                    let values = node_by_node(&expr, std::slice::from_ref(&x), &shape);
                    let expected = &values[result.index()];
                    assert!(same(&results[0], expected), "{from} to {to} at {level:?}");
                }
            }
        });
    }
}

#[test]
fn bytes_are_dequantised_and_quantised_in_few_passes() {
    let mut rng = Rng::new(6);
    for byte in [DType::U8, DType::I8] {
        let mut expr = Expr::builder();
        let x = expr.input(byte).unwrap();
        let y = expr.input(DType::F32).unwrap();
        let [zero, scale, step, half] =
            [100.0, 0.1, 0.02, 0.5].map(|it| expr.constant(it, DType::F32).unwrap());
        let float = expr.cast(x, DType::F32).unwrap();
        let less = expr.binary(Binary::Sub, float, zero).unwrap();
        let scaled = expr.binary(Binary::Mul, scale, less).unwrap();
        let sum = expr.binary(Binary::Add, scaled, y).unwrap();
        let divided = expr.binary(Binary::Div, sum, step).unwrap();
        let whole = expr.unary(Unary::Round, divided).unwrap();
        let moved = expr.binary(Binary::Add, half, whole).unwrap();
        let result = expr.cast(moved, byte).unwrap();
        let expr = Arc::new(expr.finish(&[result]).unwrap());
        at_each_level(|level| {
            let program = Program::compile(&expr, level).unwrap();
            let codes: Vec<Code> = program.instructions.iter().map(|each| each.code).collect();
            let lane = Lane::of(byte);
            assert!(codes.contains(&Code::LessTimes), "{codes:?}");
            assert!(codes.contains(&Code::Nearest(lane)), "{codes:?}");
            let shape = [3, 91];
            let inputs = [byte, DType::F32].map(|dtype| elements(dtype, &shape, &mut rng));
            let results = outputs(&expr, &[&inputs[0], &inputs[1]], &shape);
            let values = node_by_node(&expr, &inputs, &shape);
            assert!(
                same(&results[0], &values[result.index()]),
                "{byte} at {level:?}"
            );
        });
    }
}

#[test]
fn hard_swish_is_one_pass() {
    for number in [1.0 / 6.0, 0.2] {
        let mut expr = Expr::builder();
        let x = expr.input(DType::F32).unwrap();
        let [factor, half, zero, one] =
            [number, 0.5, 0.0, 1.0].map(|it| expr.constant(it, DType::F32).unwrap());
        let scaled = expr.binary(Binary::Mul, factor, x).unwrap();
        let moved = expr.binary(Binary::Add, scaled, half).unwrap();
        let raised = expr.binary(Binary::Max, moved, zero).unwrap();
        let gate = expr.binary(Binary::Min, raised, one).unwrap();
        let result = expr.binary(Binary::Mul, x, gate).unwrap();
        let expr = Arc::new(expr.finish(&[result]).unwrap());
        let program = Program::compile(&expr, Level::Baseline).unwrap();
        assert_eq!(
            program.instructions.len(),
            if number == 0.2 { 3 } else { 1 }
        );
        let input = elements(DType::F32, &[3000], &mut Rng::new(1));
        on_each_level(&expr, &[&input], &[3000], |level, results| {
            let values = node_by_node(&expr, std::slice::from_ref(&input), &[3000]);
            assert!(
                same(&results[0], &values[result.index()]),
                "{number} at {level:?}"
            );
        });
    }
}

#[test]
fn more_elements_than_a_block() {
    for seed in 0..60 {
        check(seed, &[3, 200 + 20 * seed as usize], 6);
    }
}

#[test]
fn large_expressions_with_many_constants() {
    for seed in 0..3 {
        check(seed, &[3, 50], 3000);
    }
}

#[test]
fn outputs_may_be_exactly_what_is_read() {
    // Two outputs in the place of two inputs, each needing both: x, y = x - y, x * y.
    let mut expr = Expr::builder();
    let x = expr.input(DType::F32).unwrap();
    let y = expr.input(DType::F32).unwrap();
    let difference = expr.binary(Binary::Sub, x, y).unwrap();
    let product = expr.binary(Binary::Mul, x, y).unwrap();
    let expr = Arc::new(expr.finish(&[difference, product]).unwrap());
    for layout in [
        Layout::contiguous(&[5000]).unwrap(),
        Layout::strided(&[70, 30], &[60, 2], 1).unwrap(),
        Layout::strided(&[30, 70], &[1, 31], 0).unwrap(),
        Layout::strided(&[2, 700], &[-700, 1], 700).unwrap(),
    ] {
        let [x, y] = [3.0, 7.0].map(|factor| {
            let mut number = 0.0;
            Tensor::of(DType::F32, &[5000], || {
                number += 1.0;
                number / factor
            })
        });
        let views = [&x, &y].map(|it| View::new(it.view.span(), DType::F32, layout).unwrap());
        ops::run(&Op::Map {
            expr: Arc::clone(&expr),
            inputs: views.to_vec(),
            outputs: views.to_vec(),
        });
    }
}

#[test]
fn one_value_may_be_stored_twice_and_inputs_and_constants_too() {
    let mut expr = Expr::builder();
    let x = expr.input(DType::F16).unwrap();
    let unused = expr.input(DType::I64).unwrap();
    let n = expr.input(DType::Bool).unwrap();
    let c = expr.constant(1.5, DType::F16).unwrap();
    let sum = expr.binary(Binary::Add, x, c).unwrap();
    let more = expr.compare(Compare::Gt, sum, c).unwrap();
    let _dead = expr.binary(Binary::Add, unused, unused).unwrap();
    let outputs = [sum, sum, x, c, more, more, n];
    let expr = Arc::new(expr.finish(&outputs).unwrap());
    let mut rng = Rng::new(1);
    let mut of = |dtype| elements(dtype, &[100], &mut rng);
    let inputs = [of(DType::F16), of(DType::I64), of(DType::Bool)];
    on_each_level(&expr, &inputs.each_ref(), &[100], |_, results| {
        let values = node_by_node(&expr, &inputs, &[100]);
        for (result, value) in results.iter().zip(outputs) {
            assert!(same(result, &values[value.index()]));
        }
    });
}

#[test]
fn it_is_known_what_only_keeps_between_bounds() {
    let clip = |least: f32, most: f32, more: bool| {
        let mut expr = Expr::builder();
        let x = expr.input(DType::F32).unwrap();
        let [least, most] =
            [least, most].map(|bound| expr.constant(f64::from(bound), DType::F32).unwrap());
        let y = expr.binary(Binary::Max, x, least).unwrap();
        let y = expr.binary(Binary::Min, y, most).unwrap();
        let y = match more {
            true => expr.unary(Unary::Exp, y).unwrap(),
            false => y,
        };
        let expr = expr.finish(&[y]).unwrap();
        Program::compile(&expr, Level::Baseline).unwrap().bounds()
    };
    let known = Bounds {
        least: Some(-0.5),
        most: Some(6.0),
    };
    assert_eq!(clip(-0.5, 6.0, false), Some(known));
    assert_eq!(clip(-0.5, 6.0, true), None);
    // What is no number wins over every other.
    assert_eq!(clip(f32::NAN, 6.0, false), None);
    assert_eq!(clip(0.0, f32::NAN, false), None);
}
