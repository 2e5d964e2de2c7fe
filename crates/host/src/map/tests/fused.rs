//! Random expressions over operands of all shapes and strides, against the plain evaluation.

use std::sync::Arc;

use proptest::prelude::*;
use streampool_device::{
    Binary, Compare, DType, Expr, ExprBuilder, Layout, Scalar, Unary, Value, View,
};

use crate::team::Solo;
use crate::testing::cases;

use super::reference::{Element, evaluate, round_to};
use super::{BINARY, COMPARE, UNARY};
use super::{Buffer, MARK, Numbers, execute};

/// An expression of about `size` nodes over up to five inputs; values of every type occur.
pub(super) fn random_expr(numbers: &mut Numbers, size: usize) -> Expr {
    let mut expr = Expr::builder();
    let mut values: Vec<(Value, DType)> = Vec::new();
    for _ in 0..1 + numbers.below(5) {
        let dtype = DType::ALL[numbers.below(DType::ALL.len())];
        values.push((expr.input(dtype).unwrap(), dtype));
    }
    for _ in 0..size {
        if let Some(made) = random_node(&mut expr, &values, numbers) {
            values.push(made);
        }
    }
    let outputs: Vec<Value> = (0..1 + numbers.below(3))
        .map(|_| {
            let latest = values.len().saturating_sub(4);
            values[latest + numbers.below(values.len() - latest)].0
        })
        .collect();
    expr.finish(&outputs).unwrap()
}

fn random_node(
    expr: &mut ExprBuilder,
    values: &[(Value, DType)],
    numbers: &mut Numbers,
) -> Option<(Value, DType)> {
    let (x, dtype) = values[numbers.below(values.len())];
    // A partner of the same type, if there is another one.
    let start = numbers.below(values.len());
    let around = values.iter().cycle().skip(start).take(values.len());
    let y = around
        .filter(|&&(_, other)| other == dtype)
        .map(|&(value, _)| value)
        .next()?;
    match numbers.below(12) {
        0..=2 => {
            let function = UNARY[numbers.below(UNARY.len())];
            let value = expr.unary(function, x).ok()?;
            let test = matches!(function, Unary::IsNan | Unary::IsInf);
            Some((value, if test { DType::Bool } else { dtype }))
        }
        3..=6 => Some((
            expr.binary(BINARY[numbers.below(BINARY.len())], x, y)
                .ok()?,
            dtype,
        )),
        7 => Some((
            expr.compare(COMPARE[numbers.below(6)], x, y).ok()?,
            DType::Bool,
        )),
        8 => {
            let condition = values
                .iter()
                .rev()
                .find(|(_, dtype)| *dtype == DType::Bool)?
                .0;
            Some((expr.select(condition, x, y).ok()?, dtype))
        }
        9 => {
            let value = match numbers.below(3) {
                0 => Scalar::Int(numbers.below(600) as i64 - 300),
                1 => Scalar::Bool(numbers.below(2) == 1),
                _ => Scalar::Float(numbers.below(1000) as f64 / 64.0 - 7.3),
            };
            Some((expr.constant(value, dtype).ok()?, dtype))
        }
        _ => {
            let to = DType::ALL[numbers.below(DType::ALL.len())];
            Some((expr.cast(x, to).ok()?, to))
        }
    }
}

/// An element that is easy to compute with, mostly.
pub(super) fn element(dtype: DType, numbers: &mut Numbers) -> Element {
    match dtype {
        DType::Bool => Element::Bool(numbers.below(2) == 1),
        DType::U8 => Element::Int(numbers.below(256) as i128),
        DType::I8 => Element::Int(numbers.below(256) as i128 - 128),
        _ if dtype.is_unsigned() => Element::Int(numbers.below(2000) as i128),
        _ if dtype.is_signed() => Element::Int(numbers.below(2000) as i128 - 1000),
        _ => match numbers.below(40) {
            0 => Element::Float(f64::NAN),
            1 => Element::Float(f64::INFINITY),
            2 => Element::Float(-0.0),
            _ => Element::Float(round_to(numbers.below(4000) as f64 / 512.0 - 4.0, dtype)),
        },
    }
}

/// A layout of this shape with gaps, in a random order of dimensions, some of them backwards; and the
/// elements of memory it needs.
fn scattered(shape: &[usize], numbers: &mut Numbers) -> (Layout, usize) {
    let mut strides = vec![0isize; shape.len()];
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for end in (1..order.len()).rev() {
        if numbers.below(2) == 0 {
            order.swap(end, numbers.below(end + 1));
        }
    }
    let gaps = numbers.below(2) == 0;
    let (mut step, mut offset) = (1, if gaps { numbers.below(5) } else { 0 });
    for &axis in order.iter().rev() {
        if gaps && numbers.below(4) == 0 {
            step *= 2;
        }
        strides[axis] = step as isize;
        if gaps && numbers.below(5) == 0 {
            strides[axis] = -strides[axis];
            offset += step * shape[axis].saturating_sub(1);
        }
        step *= shape[axis].max(1);
    }
    (
        Layout::strided(shape, &strides, offset).unwrap(),
        2 * step + offset + 8,
    )
}

/// Where each index of `shape` lies, row-major, in elements.
fn places(layout: &Layout) -> Vec<usize> {
    let mut all = vec![layout.offset() as isize];
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        let along = |start: isize| (0..size as isize).map(move |index| start + index * stride);
        all = all.into_iter().flat_map(along).collect();
    }
    all.into_iter().map(|place| place as usize).collect()
}

fn check(seed: u64, shape: &[usize], size: usize) {
    let mut numbers = Numbers::new(seed);
    let expr = Arc::new(random_expr(&mut numbers, size));
    let (mut buffers, mut layouts) = (Vec::new(), Vec::new());
    for &dtype in expr.inputs() {
        let missing = if numbers.below(3) == 0 {
            numbers.below(shape.len() + 1)
        } else {
            0
        };
        let broadcast = numbers.below(2) == 0;
        let mut own = shape[missing..].to_vec();
        for size in &mut own {
            if broadcast && numbers.below(2) == 0 {
                *size = 1;
            }
        }
        let (layout, memory) = scattered(&own, &mut numbers);
        let elements: Vec<u8> = (0..memory)
            .flat_map(|_| element(dtype, &mut numbers).write(dtype))
            .collect();
        buffers.push(Buffer::of(&elements));
        layouts.push(layout);
    }
    let types: Vec<DType> = expr
        .outputs()
        .iter()
        .map(|&value| expr.dtype(value))
        .collect();
    let (mut targets, mut target_layouts) = (Vec::new(), Vec::new());
    for dtype in &types {
        let (layout, memory) = scattered(shape, &mut numbers);
        targets.push(Buffer::new(memory * dtype.size()));
        target_layouts.push(layout);
    }
    let views = |buffers: &mut [Buffer], types: &[DType], layouts: &[Layout]| -> Vec<View> {
        let each = buffers.iter_mut().zip(types).zip(layouts);
        each.map(|((buffer, &dtype), &layout)| buffer.view(dtype, layout))
            .collect()
    };
    let inputs = views(&mut buffers, expr.inputs(), &layouts);
    let outputs = views(&mut targets, &types, &target_layouts);
    execute(&expr, &inputs, &outputs, &Solo);

    let input_places: Vec<_> = layouts
        .iter()
        .map(|layout| places(&layout.broadcast_to(shape).unwrap()))
        .collect();
    let output_places: Vec<_> = target_layouts.iter().map(places).collect();
    for index in 0..shape.iter().product() {
        let elements: Vec<Element> = (0..buffers.len())
            .map(|input| {
                let dtype = expr.inputs()[input];
                let at = input_places[input][index] * dtype.size();
                Element::read(&buffers[input].bytes()[at..][..dtype.size()], dtype)
            })
            .collect();
        let values = evaluate(&expr, &elements);
        for (output, &dtype) in types.iter().enumerate() {
            let at = output_places[output][index] * dtype.size();
            let got = Element::read(&targets[output].bytes()[at..][..dtype.size()], dtype);
            let want = values[expr.outputs()[output].index()];
            assert!(
                got.same(want),
                "output {output} of {expr:?} for {elements:?} is {got:?}, not {want:?}"
            );
        }
    }
    for ((target, places), dtype) in targets.iter().zip(&output_places).zip(&types) {
        let mut written = vec![false; target.bytes().len() / dtype.size()];
        places.iter().for_each(|&place| written[place] = true);
        for (element, written) in target.bytes().chunks(dtype.size()).zip(written) {
            assert!(
                written || element.iter().all(|&byte| byte == MARK),
                "a gap was written"
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn small_shapes_of_every_rank(
        seed in any::<u64>(),
        shape in prop::collection::vec(0usize..5, 0..=8).prop_filter("small", |shape| {
            shape.iter().product::<usize>() < 300
        }),
        size in 0usize..40,
    ) {
        check(seed, &shape, size);
    }

    #[test]
    fn rows_longer_than_a_block(seed in any::<u64>(), rows in 1usize..4, columns in 200usize..1500) {
        check(seed, &[rows, columns], 6);
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
        let before: [Vec<f32>; 2] =
            [3.0, 7.0].map(|factor| (0..5000).map(|i| i as f32 / factor).collect());
        let mut buffers = before
            .each_ref()
            .map(|values| Buffer::of(bytemuck::cast_slice(values)));
        let views = buffers
            .each_mut()
            .map(|buffer| buffer.view(DType::F32, layout));
        execute(&expr, &views, &views, &Solo);
        let after = buffers
            .each_ref()
            .map(|buffer| bytemuck::cast_slice::<u8, f32>(buffer.bytes()).to_vec());
        let inside = places(&layout);
        for index in 0..5000 {
            let (x, y) = (before[0][index], before[1][index]);
            let want = if inside.contains(&index) {
                (x - y, x * y)
            } else {
                (x, y)
            };
            assert_eq!(
                (after[0][index], after[1][index]),
                want,
                "element {index} of {layout}"
            );
        }
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
    let expr = Arc::new(expr.finish(&[sum, sum, x, c, more, more, n]).unwrap());
    let n = 100;
    let xs: Vec<u8> = (0..n)
        .flat_map(|i| half::f16::from_f32(i as f32 - 50.0).to_bits().to_ne_bytes())
        .collect();
    let ns: Vec<u8> = (0..n).map(|i| u8::from(i % 3 == 0)).collect();
    for (_, results) in super::on_each_level(&expr, &[&xs, &[0; 800], &ns], n) {
        let halves = |output: usize, index: usize| {
            Element::read(&results[output][2 * index..][..2], DType::F16)
        };
        for index in 0..n {
            let x = index as f64 - 50.0;
            for output in [0, 1] {
                assert_eq!(halves(output, index), Element::Float(x + 1.5));
            }
            assert_eq!(halves(2, index), Element::Float(x));
            assert_eq!(halves(3, index), Element::Float(1.5));
            assert_eq!(
                (results[4][index], results[5][index]),
                (u8::from(x > 0.0), u8::from(x > 0.0))
            );
            assert_eq!(results[6][index], ns[index]);
        }
    }
}
