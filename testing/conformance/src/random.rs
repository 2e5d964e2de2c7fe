//! Random shapes, operands and values for the ops.

use streampool_device::{DType, MAX_RANK};

use crate::num::Num;
use crate::operand::{Operand, any_layout};
use crate::rng::Rng;

/// The float types.
pub(crate) const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// The integer types.
pub(crate) const INTEGERS: [DType; 8] = [
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
];

/// A shape of any rank, now and then with a dimension of zero or one, of at most `most` elements.
pub(crate) fn any_shape(rng: &mut Rng, most: usize) -> Vec<usize> {
    let rank = rng.below(MAX_RANK + 1);
    let mut left = most;
    let mut shape: Vec<usize> = (0..rank)
        .map(|_| {
            let size = 1 + rng.below(left.min(9));
            left /= size;
            size
        })
        .collect();
    if rank > 0 && rng.chance(12) {
        shape[rng.below(rank)] = 0;
    }
    if rank > 0 && rng.chance(4) {
        let axis = rng.below(rank);
        shape[axis] *= left.clamp(1, 40);
    }
    shape
}

/// A value that every type holds exactly: small whole numbers, truth values for `bool`.
pub(crate) fn small(rng: &mut Rng, dtype: DType) -> Num {
    match dtype {
        DType::Bool => Num::whole(rng.between(0, 1)),
        _ if dtype.is_unsigned() => Num::whole(rng.between(0, 10)),
        _ if dtype.is_integer() => Num::whole(rng.between(-10, 10)),
        _ => Num::Float(rng.between(-10, 10) as f64),
    }
}

/// A value of a type, extremes included.
pub(crate) fn any_value(rng: &mut Rng, dtype: DType) -> Num {
    match dtype {
        _ if dtype.is_float() => Num::Float(match rng.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => rng.pick(&[0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.0, 1.0]),
            4 => rng.real(-300.0, 300.0).trunc(),
            5 => rng.real(-7e4, 7e4),
            6 => rng.real(-5e9, 5e9),
            _ => rng.real(-3.0, 3.0),
        }),
        DType::Bool => Num::whole(rng.between(0, 1)),
        _ => integer(rng, dtype),
    }
}

fn integer(rng: &mut Rng, dtype: DType) -> Num {
    match rng.below(6) {
        0 => Num::Float(f64::NEG_INFINITY).cast(dtype),
        1 => Num::Float(f64::INFINITY).cast(dtype),
        2 => Num::whole(rng.between(i64::MIN, i64::MAX)).cast(dtype),
        _ => Num::whole(rng.between(-300, 300)).cast(dtype),
    }
}

/// An operand of random layout whose elements come from `value`.
pub(crate) fn operand(
    rng: &mut Rng,
    dtype: DType,
    shape: &[usize],
    mut value: impl FnMut(&mut Rng) -> Num,
) -> Operand {
    let layout = any_layout(rng, shape);
    filled(rng, dtype, layout, &mut value)
}

/// As [`operand`], now and then with dimensions that repeat by a stride of zero: only to be read.
pub(crate) fn read_operand(
    rng: &mut Rng,
    dtype: DType,
    shape: &[usize],
    mut value: impl FnMut(&mut Rng) -> Num,
) -> Operand {
    if !rng.chance(4) {
        return operand(rng, dtype, shape, value);
    }
    let narrow: Vec<usize> = shape
        .iter()
        .map(|&size| if rng.chance(2) && size > 0 { 1 } else { size })
        .collect();
    let layout = any_layout(rng, &narrow)
        .broadcast_to(shape)
        .expect("ones broadcast to anything");
    filled(rng, dtype, layout, &mut value)
}

fn filled(
    rng: &mut Rng,
    dtype: DType,
    layout: streampool_device::Layout,
    value: &mut dyn FnMut(&mut Rng) -> Num,
) -> Operand {
    let mut operand = Operand::blank(dtype, layout);
    let values: Vec<Num> = (0..layout.elements()).map(|_| value(rng)).collect();
    operand.set_all(values);
    operand
}

/// An operand of random layout that an op writes.
pub(crate) fn target(rng: &mut Rng, dtype: DType, shape: &[usize]) -> Operand {
    let layout = any_layout(rng, shape);
    Operand::blank(dtype, layout)
}
