//! Elementwise expressions as a whole: fused, of several types, broadcasting, in place.

use streampool_device::{Binary, Compare, DType, Expr, ExprBuilder, Layout, Unary, Value};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::ops_map::map;
use crate::random::{FLOATS, any_shape, operand, read_operand, small, target};
use crate::rng::Rng;

/// An expression of two inputs that broadcast to its output.
pub(crate) fn broadcasting(rng: &mut Rng, expr: Expr) -> Example {
    let shape = any_shape(rng, 400);
    let dtype = expr.inputs()[0];
    let input = |rng: &mut Rng| {
        let lead = if rng.chance(3) {
            rng.below(shape.len() + 1)
        } else {
            0
        };
        let narrow: Vec<usize> = shape[lead..]
            .iter()
            .map(|&size| if rng.chance(4) { 1 } else { size })
            .collect();
        read_operand(rng, dtype, &narrow, |rng| small(rng, dtype))
    };
    let (x, y) = (input(rng), input(rng));
    let out = target(rng, expr.dtype(expr.outputs()[0]), &shape);
    (map(expr, &[0, 1], &[2]), vec![x, y, out])
}

/// Inputs of any layout broadcast to outputs of any layout, of rank 0 to 8, empty ones too.
pub fn inputs_broadcast(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(24);
    for _ in 0..800 {
        let dtype = rng.pick(&[
            DType::F32,
            DType::F64,
            DType::F16,
            DType::I32,
            DType::I64,
            DType::U8,
            DType::U16,
            DType::U64,
        ]);
        let expr = Expr::binary(Binary::Add, dtype).expect("it is of numbers");
        let (op, operands) = broadcasting(&mut rng, expr);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// The sum of inputs that lie as the output does, along its other dimension, or as one number, around the tiles that a
/// device may work in.
pub fn maps_transpose(fixture: &Fixture) {
    #[derive(Clone, Copy, PartialEq)]
    enum Lies {
        Along,
        Across,
        AsOne,
    }
    use Lies::{Across, Along, AsOne};
    let forms: [&[Lies]; 7] = [
        &[Across],
        &[Along, Across],
        &[Across, Across],
        &[AsOne, Across, Along, Across],
        &[Across, Across, Across],
        &[Along, AsOne, AsOne, Across, Along, Along, Along, Across],
        &[Across; 9],
    ];
    let mut lane = fixture.lane();
    let mut rng = Rng::new(34);
    for [rows, columns] in [[7, 9], [16, 16], [31, 33], [64, 65], [3, 200], [129, 67]] {
        for dtype in [DType::F32, DType::F16, DType::I64, DType::U8] {
            for form in forms {
                let expr = summed(dtype, form.len()).expect("it is of numbers");
                let shape = [2, rows, columns];
                let mut operands: Vec<Operand> = Vec::new();
                for lies in form {
                    let layout = match lies {
                        Along => Layout::contiguous(&shape),
                        Across => Layout::contiguous(&[2, columns, rows])
                            .and_then(|layout| layout.permute(&[0, 2, 1])),
                        AsOne => Layout::contiguous(&[]),
                    };
                    let mut input = Operand::blank(dtype, layout.expect("the shape is small"));
                    input.set_all((0..2 * rows * columns).map(|_| small(&mut rng, dtype)));
                    operands.push(input);
                }
                operands.push(Operand::row_major(dtype, &shape));
                let inputs: Vec<usize> = (0..form.len()).collect();
                let op = map(expr, &inputs, &[form.len()]);
                check(fixture, &mut lane, &op, &operands);
            }
        }
    }
}

/// Twice the sum of so many inputs.
fn summed(dtype: DType, inputs: usize) -> streampool_device::Result<Expr> {
    let mut expr = Expr::builder();
    let mut sum = expr.input(dtype)?;
    for _ in 1..inputs {
        let next = expr.input(dtype)?;
        sum = expr.binary(Binary::Add, sum, next)?;
    }
    let sum = expr.binary(Binary::Add, sum, sum)?;
    expr.finish(&[sum])
}

/// A sum over several groups of operands: all row-major and of one dimension, or of any layout.
pub(crate) fn several_groups(
    rng: &mut Rng,
    dtype: DType,
    groups: usize,
    plain: bool,
    in_place: bool,
) -> Example {
    let expr = Expr::binary(Binary::Add, dtype).expect("it is of numbers");
    let (mut operands, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..groups {
        let first = operands.len();
        let shape = match plain {
            true => vec![rng.below(3000)],
            false => any_shape(rng, 300),
        };
        for _ in 0..2 {
            operands.push(match plain {
                true => {
                    let values: Vec<Num> = (0..shape[0]).map(|_| small(rng, dtype)).collect();
                    Operand::of(dtype, &shape, values)
                }
                false => operand(rng, dtype, &shape, |rng| small(rng, dtype)),
            });
        }
        inputs.extend([first, first + 1]);
        if in_place && rng.chance(4) {
            outputs.push(first);
        } else {
            outputs.push(operands.len());
            operands.push(match plain {
                true => Operand::row_major(dtype, &shape),
                false => target(rng, dtype, &shape),
            });
        }
    }
    (map(expr, &inputs, &outputs), operands)
}

/// One expression over several groups of operands, of shapes and layouts of their own, some of them in place.
pub fn maps_of_several_groups(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(29);
    for groups in [2, 3, 4, 5, 8, 17, 64, 130] {
        for dtype in [DType::F32, DType::F16, DType::I32, DType::F64] {
            let plain = rng.chance(2);
            let (op, operands) = several_groups(&mut rng, dtype, groups, plain, true);
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// A random expression of bounded values, fused from many nodes, with one output or more.
fn fused(rng: &mut Rng, dtype: DType, inputs: usize) -> Expr {
    let mut expr = Expr::builder();
    let mut values: Vec<Value> = (0..inputs)
        .map(|_| expr.input(dtype).expect("there is room"))
        .collect();
    for _ in 0..3 + rng.below(12) {
        let (x, y) = (rng.pick(&values), rng.pick(&values));
        let next = step(rng, &mut expr, x, y, dtype).expect("the types agree");
        values.push(next);
    }
    let last = values[values.len() - 1];
    let other = rng.pick(&values);
    if rng.chance(2) {
        expr.finish(&[last])
    } else {
        expr.finish(&[last, other])
    }
    .expect("it has outputs")
}

fn step(
    rng: &mut Rng,
    expr: &mut ExprBuilder,
    x: Value,
    y: Value,
    dtype: DType,
) -> streampool_device::Result<Value> {
    match rng.below(8) {
        0 => expr.unary(Unary::Tanh, x),
        1 => expr.unary(Unary::Sigmoid, x),
        2 => expr.unary(Unary::Sin, x),
        3 => {
            let half = expr.constant(0.5, dtype)?;
            let sum = expr.binary(Binary::Add, x, y)?;
            expr.binary(Binary::Mul, sum, half)
        }
        4 => expr.binary(Binary::Max, x, y),
        5 => expr.binary(Binary::Min, x, y),
        6 => {
            let difference = expr.binary(Binary::Sub, x, y)?;
            expr.unary(Unary::Tanh, difference)
        }
        _ => {
            let (x, y) = (expr.unary(Unary::Tanh, x)?, expr.unary(Unary::Cos, y)?);
            expr.binary(Binary::Mul, x, y)
        }
    }
}

/// A fused expression over operands of any layout.
pub(crate) fn any_fused(rng: &mut Rng, dtype: DType) -> Example {
    let shape = any_shape(rng, 200);
    let inputs = 1 + rng.below(4);
    let expr = fused(rng, dtype, inputs);
    let outputs = expr.outputs().len();
    let mut operands: Vec<Operand> = (0..inputs)
        .map(|_| read_operand(rng, dtype, &shape, |rng| Num::Float(rng.real(-2.0, 2.0))))
        .collect();
    operands.extend((0..outputs).map(|_| target(rng, dtype, &shape)));
    let reads: Vec<usize> = (0..inputs).collect();
    let writes: Vec<usize> = (inputs..inputs + outputs).collect();
    (map(expr, &reads, &writes), operands)
}

/// Fused expressions of many nodes and several outputs.
pub fn fused_expressions(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(25);
    for _ in 0..400 {
        let dtype = rng.pick(&FLOATS);
        let (op, operands) = any_fused(&mut rng, dtype);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// Comparisons, choices and casts of several types in one expression.
pub fn mixed_types_in_one_expression(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(26);
    let build = || {
        let mut expr = Expr::builder();
        let (x, n) = (expr.input(DType::F32)?, expr.input(DType::I32)?);
        let as_float = expr.cast(n, DType::F32)?;
        let less = expr.compare(Compare::Lt, x, as_float)?;
        let chosen = expr.select(less, x, as_float)?;
        let back = expr.cast(chosen, DType::I8)?;
        let not = expr.unary(Unary::Not, less)?;
        expr.finish(&[chosen, back, not])
    };
    let expr = build().expect("the types agree");
    for _ in 0..30 {
        let shape = any_shape(&mut rng, 300);
        let operands = [
            read_operand(&mut rng, DType::F32, &shape, |rng| {
                Num::Float(rng.real(-200.0, 200.0))
            }),
            read_operand(&mut rng, DType::I32, &shape, |rng| {
                Num::whole(rng.between(-200, 200))
            }),
            target(&mut rng, DType::F32, &shape),
            target(&mut rng, DType::I8, &shape),
            target(&mut rng, DType::Bool, &shape),
        ];
        check(
            fixture,
            &mut lane,
            &map(expr.clone(), &[0, 1], &[2, 3, 4]),
            &operands,
        );
    }
}

/// An expression may write exactly the view it reads, in any layout.
pub fn maps_in_place(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(27);
    for _ in 0..150 {
        let dtype = rng.pick(&[
            DType::F32,
            DType::F64,
            DType::I32,
            DType::I8,
            DType::I16,
            DType::U32,
        ]);
        let shape = any_shape(&mut rng, 5000);
        let x = operand(&mut rng, dtype, &shape, |rng| small(rng, dtype));
        let y = read_operand(&mut rng, dtype, &shape, |rng| small(rng, dtype));
        let expr = Expr::binary(Binary::Sub, dtype).expect("it is of numbers");
        check(
            fixture,
            &mut lane,
            &map(expr.clone(), &[0, 1], &[0]),
            &[x.clone(), y.clone()],
        );
        check(fixture, &mut lane, &map(expr, &[1, 0], &[0]), &[x, y]);
    }
}

/// Lengths around the blocks and vectors that a device may work in.
pub fn maps_of_block_lengths(fixture: &Fixture) {
    let mut lane = fixture.lane();
    for block in [4, 8, 16, 32, 64, 256, 512, 1024, 2048, 4096, 16_384] {
        for length in [block - 1, block, block + 1] {
            for dtype in [DType::F32, DType::I8, DType::F16] {
                let values = (0..length).map(|index| Num::whole(index as i64 % 60).cast(dtype));
                let x = Operand::of(dtype, &[length], values);
                let expr = Expr::binary(Binary::Add, dtype).expect("it is of numbers");
                let operands = [x.clone(), x, Operand::row_major(dtype, &[length])];
                check(fixture, &mut lane, &map(expr, &[0, 1], &[2]), &operands);
            }
        }
    }
}
