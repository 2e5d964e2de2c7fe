//! Counts per bin, and places of what is not zero.

use streampool_device::{DType, Histogram, NonZero, Op, OpKind};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, any_shape, any_value, read_operand, target};
use crate::rng::Rng;

fn histogram(weighted: bool, low: f64, high: f64) -> Op<usize> {
    Op::Histogram(Histogram {
        src: 0,
        weights: weighted.then_some(2),
        dst: 1,
        low,
        high,
    })
}

/// Counts, or sums of weights, of elements of any layout.
pub(crate) fn any_histogram(rng: &mut Rng, dtype: DType) -> Example {
    let shape = any_shape(rng, 500);
    let src = read_operand(rng, dtype, &shape, |rng| any_value(rng, dtype));
    let bins = rng.pick(&[1, 2, 10, 255, 257, 5000]);
    let low = rng.real(-5.0, 1.0);
    let high = low + rng.real(0.5, 300.0);
    let weighted = rng.chance(2);
    let weight = rng.pick(&FLOATS);
    let dst = target(rng, if weighted { weight } else { DType::I64 }, &[bins]);
    let mut operands = vec![src, dst];
    if weighted {
        operands.push(read_operand(rng, weight, &shape, |rng| {
            Num::Float(rng.real(-2.0, 2.0))
        }));
    }
    (histogram(weighted, low, high), operands)
}

/// Elements of every number type, of any layout, are counted or weighed in few bins and in many.
pub fn histograms_of_any_layout(fixture: &Fixture) {
    if !fixture.supports(OpKind::Histogram) {
        return;
    }
    let mut rng = Rng::new(100);
    let mut lane = fixture.lane();
    for dtype in &DType::ALL[..12] {
        for _ in 0..16 {
            let (op, operands) = any_histogram(&mut rng, *dtype);
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// The ends of the range lie in the first and the last bin; what is outside, and NaN, in none.
pub fn the_ends_of_the_range(fixture: &Fixture) {
    if !fixture.supports(OpKind::Histogram) {
        return;
    }
    let mut lane = fixture.lane();
    let values = [
        -1.0,
        1.0,
        0.0,
        -1.5,
        1.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.5,
        -0.5,
    ];
    for dtype in FLOATS {
        for bins in [1, 2, 4, 5000] {
            let values = values.iter().cycle().take(1000).copied().map(Num::Float);
            let src = Operand::of(dtype, &[1000], values);
            let dst = Operand::row_major(DType::I64, &[bins]);
            check(
                fixture,
                &mut lane,
                &histogram(false, -1.0, 1.0),
                &[src, dst],
            );
        }
    }
}

/// Nothing fills no bin.
pub fn histograms_of_nothing(fixture: &Fixture) {
    if !fixture.supports(OpKind::Histogram) {
        return;
    }
    let mut lane = fixture.lane();
    for bins in [1, 300, 5000] {
        let src = Operand::row_major(DType::F32, &[3, 0]);
        let dst = Operand::row_major(DType::I64, &[bins]);
        check(fixture, &mut lane, &histogram(false, 0.0, 1.0), &[src, dst]);
    }
}

/// Operands are the source, the places and how many there are.
const NONZERO: Op<usize> = Op::NonZero(NonZero {
    src: 0,
    indices: 1,
    count: 2,
});

/// Elements of any layout, most of them zero or few.
pub(crate) fn any_places(rng: &mut Rng, dtype: DType) -> Example {
    let shape = any_shape(rng, 500);
    let one_in = 1 + rng.below(6);
    let src = read_operand(rng, dtype, &shape, |rng| match rng.chance(one_in) {
        true => any_value(rng, dtype),
        false if dtype.is_float() => Num::Float(-0.0),
        false => Num::whole(0),
    });
    let elements = src.layout.elements();
    let indices = target(rng, DType::I64, &[shape.len(), elements]);
    let count = target(rng, DType::I64, &[1]);
    (NONZERO, vec![src, indices, count])
}

/// The places of what is not zero, of every type and any layout.
pub fn places_of_any_layout(fixture: &Fixture) {
    if !fixture.supports(OpKind::NonZero) {
        return;
    }
    let mut rng = Rng::new(101);
    let mut lane = fixture.lane();
    for dtype in DType::ALL {
        for _ in 0..16 {
            let (op, operands) = any_places(&mut rng, dtype);
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// Numbers of elements around the blocks that a device may look at: all of them, none, and one at the end.
pub fn places_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::NonZero) {
        return;
    }
    let mut lane = fixture.lane();
    for block in [16, 32, 256, 4096, 8192, 32_768] {
        for length in [block - 1, block, block + 1] {
            for which in 0..3 {
                let found = |at: usize| match which {
                    0 => true,
                    1 => false,
                    _ => at + 1 == length,
                };
                let values = (0..length).map(|at| Num::whole(i64::from(found(at))));
                let operands = [
                    Operand::of(DType::Bool, &[1, length], values),
                    Operand::row_major(DType::I64, &[2, length]),
                    Operand::row_major(DType::I64, &[1]),
                ];
                check(fixture, &mut lane, &NONZERO, &operands);
            }
        }
    }
}
