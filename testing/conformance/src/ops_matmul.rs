//! Matrix products against the reference.

use streampool_device::{Activation, DType, MatMul, Op, OpKind};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, operand, read_operand, target};
use crate::rng::Rng;

pub(crate) const ACTIVATIONS: [Activation; 8] = [
    Activation::None,
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::HardSwish,
];

const PLAIN: MatMul<usize> = MatMul {
    a: 0,
    b: 1,
    out: 2,
    bias: None,
    activation: Activation::None,
    alpha: 1.0,
};

fn result_type(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::I32 }
}

fn value(rng: &mut Rng, dtype: DType) -> Num {
    match dtype {
        DType::I8 => Num::whole(rng.between(-128, 127)),
        DType::U8 => Num::whole(rng.between(0, 255)),
        _ => Num::Float(rng.real(-2.0, 2.0)),
    }
}

/// Row-major operands of one product.
fn product(fixture: &Fixture, rng: &mut Rng, dtype: DType, [m, k, n]: [usize; 3]) {
    let mut values = |count: usize| -> Vec<Num> { (0..count).map(|_| value(rng, dtype)).collect() };
    let operands = [
        Operand::of(dtype, &[m, k], values(m * k)),
        Operand::of(dtype, &[k, n], values(k * n)),
        Operand::row_major(result_type(dtype), &[m, n]),
    ];
    check(fixture, &mut fixture.lane(), &Op::MatMul(PLAIN), &operands);
}

pub(crate) const TYPES: [DType; 6] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::U8,
];

/// Products of every type, of sizes around the blocks that a device may work in.
pub fn products_of_block_sizes(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    let mut rng = Rng::new(50);
    for dtype in TYPES {
        for block in [1, 4, 8, 16, 32] {
            for size in [block, block + 1] {
                product(fixture, &mut rng, dtype, [size, size, size]);
                product(fixture, &mut rng, dtype, [1, size, size + 3]);
                product(fixture, &mut rng, dtype, [size + 1, size, 1]);
            }
        }
        for shape in [
            [65, 64, 63],
            [5, 257, 33],
            [128, 9, 20],
            [3, 1025, 2],
            [2, 7, 300],
        ] {
            product(fixture, &mut rng, dtype, shape);
        }
    }
    product(fixture, &mut rng, DType::F32, [129, 257, 127]);
}

/// Empty products: nothing is written, or what an empty sum gives.
pub fn empty_products(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    let mut rng = Rng::new(51);
    for dtype in TYPES {
        for shape in [[0, 3, 2], [3, 0, 2], [3, 2, 0], [0, 0, 0], [1, 0, 1]] {
            product(fixture, &mut rng, dtype, shape);
        }
    }
    let with_bias = Op::MatMul(MatMul {
        bias: Some(3),
        activation: Activation::Silu,
        ..PLAIN
    });
    let operands = [
        Operand::row_major(DType::F32, &[3, 0]),
        Operand::row_major(DType::F32, &[0, 2]),
        Operand::row_major(DType::F32, &[3, 2]),
        Operand::of(DType::F32, &[2], [Num::Float(1.0), Num::Float(-1.0)]),
    ];
    check(fixture, &mut fixture.lane(), &with_bias, &operands);
}

/// A product of any layouts, whose leading dimensions broadcast.
pub(crate) fn any_product(rng: &mut Rng, dtype: DType) -> Example {
    let batch: Vec<usize> = (0..rng.below(4))
        .map(|_| rng.below(4))
        .map(|size| size.max(1))
        .collect();
    let [m, k, n] = [1 + rng.below(12), 1 + rng.below(20), 1 + rng.below(12)];
    let lead = |rng: &mut Rng, full: bool, last: [usize; 2]| {
        let skip = if full { 0 } else { rng.below(batch.len() + 1) };
        let mut shape: Vec<usize> = batch[skip..]
            .iter()
            .map(|&size| if !full && rng.chance(3) { 1 } else { size })
            .collect();
        shape.extend(last);
        shape
    };
    // One of them has the whole batch, so that the result has it too.
    let a_full = rng.chance(2);
    let (a_shape, b_shape) = (lead(rng, a_full, [m, k]), lead(rng, !a_full, [k, n]));
    let out_shape = lead(rng, true, [m, n]);
    let operands = vec![
        read_operand(rng, dtype, &a_shape, |rng| value(rng, dtype)),
        read_operand(rng, dtype, &b_shape, |rng| value(rng, dtype)),
        target(rng, result_type(dtype), &out_shape),
    ];
    (Op::MatMul(PLAIN), operands)
}

/// Operands of any layout, transposed too, whose leading dimensions broadcast.
pub fn products_of_any_layout(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(52);
    for _ in 0..500 {
        let dtype = rng.pick(&TYPES);
        let (op, operands) = any_product(&mut rng, dtype);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// Shapes of a bias that broadcast to the result of [`epilogue`].
pub(crate) const BIASES: [&[usize]; 7] =
    [&[], &[1], &[9], &[5, 1], &[5, 9], &[3, 5, 9], &[3, 1, 1]];

/// A product with an alpha, a bias and an activation.
pub(crate) fn epilogue(
    rng: &mut Rng,
    dtype: DType,
    activation: Activation,
    bias: &[usize],
) -> Example {
    let op = MatMul {
        bias: (!bias.is_empty() || rng.chance(2)).then_some(3),
        activation,
        alpha: rng.pick(&[1.0, 0.0, -0.5, 0.125]),
        ..PLAIN
    };
    let real = |rng: &mut Rng| Num::Float(rng.real(-1.0, 1.0));
    let operands = vec![
        operand(rng, dtype, &[3, 5, 7], real),
        operand(rng, dtype, &[7, 9], real),
        target(rng, dtype, &[3, 5, 9]),
        read_operand(rng, dtype, bias, real),
    ];
    (Op::MatMul(op), operands)
}

/// Every activation with alpha and a bias of any shape that broadcasts.
pub fn epilogues(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(53);
    for dtype in FLOATS {
        for activation in ACTIVATIONS {
            for bias_shape in BIASES {
                let (op, operands) = epilogue(&mut rng, dtype, activation, bias_shape);
                check(fixture, &mut lane, &op, &operands);
            }
        }
    }
}

/// Integer products add their bias exactly.
pub fn integer_products_with_bias(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(54);
    for dtype in [DType::I8, DType::U8] {
        for [m, k, n] in [[1, 1, 1], [5, 33, 9], [17, 64, 16]] {
            let op = Op::MatMul(MatMul {
                bias: Some(3),
                ..PLAIN
            });
            let operands = [
                operand(&mut rng, dtype, &[m, k], |rng| value(rng, dtype)),
                operand(&mut rng, dtype, &[k, n], |rng| value(rng, dtype)),
                target(&mut rng, DType::I32, &[m, n]),
                read_operand(&mut rng, DType::I32, &[n], |rng| {
                    Num::whole(rng.between(-1_000_000, 1_000_000))
                }),
            ];
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// NaN and infinity reach exactly the rows and columns they belong to, and what was in the result before
/// is not read.
pub fn nan_stays_in_its_row(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    let mut lane = fixture.lane();
    for dtype in FLOATS {
        for special in [f64::NAN, f64::INFINITY] {
            let at =
                |index: usize, place: usize| Num::Float(if index == place { special } else { 1.0 });
            let mut out = Operand::row_major(dtype, &[17, 19]);
            out.set_all(std::iter::repeat_n(Num::Float(f64::NAN), 17 * 19));
            let operands = [
                Operand::of(
                    dtype,
                    &[17, 11],
                    (0..17 * 11).map(|index| at(index, 5 * 11 + 3)),
                ),
                Operand::of(
                    dtype,
                    &[11, 19],
                    (0..11 * 19).map(|index| at(index, 7 * 19 + 18)),
                ),
                out,
            ];
            check(fixture, &mut lane, &Op::MatMul(PLAIN), &operands);
        }
    }
}
