//! Running totals and order along an axis.

use streampool_device::{DType, Op, OpKind, Scan, ScanKind, Sort};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, any_shape, any_value, read_operand, small, target};
use crate::rng::Rng;

pub(crate) const KINDS: [ScanKind; 4] =
    [ScanKind::Sum, ScanKind::Prod, ScanKind::Max, ScanKind::Min];

fn scan(kind: ScanKind, axis: usize, exclusive: bool, reverse: bool) -> Op<usize> {
    Op::Scan(Scan {
        kind,
        src: 0,
        dst: 1,
        axis,
        exclusive,
        reverse,
    })
}

/// A value such that no total of a few thousand floats leaves the type; integers wrap.
fn value(rng: &mut Rng, kind: ScanKind, dtype: DType) -> Num {
    match kind {
        ScanKind::Prod if dtype.is_float() => Num::Float(rng.real(0.999, 1.001)),
        ScanKind::Sum if dtype.is_float() => Num::Float(rng.real(-3.0, 3.0)),
        _ => any_value(rng, dtype),
    }
}

/// A scan along any axis of any layout; `None` if there is no axis.
pub(crate) fn any_scan(rng: &mut Rng, kind: ScanKind, dtype: DType) -> Option<Example> {
    let shape = any_shape(rng, 300);
    if shape.is_empty() {
        return None;
    }
    let axis = rng.below(shape.len());
    let src = read_operand(rng, dtype, &shape, |rng| value(rng, kind, dtype));
    let dst = target(rng, dtype, &shape);
    let op = scan(kind, axis, rng.chance(2), rng.chance(2));
    Some((op, vec![src, dst]))
}

/// Every kind of scan, of every number type, along any axis of any layout, from either end.
pub fn scans_along_any_axis(fixture: &Fixture) {
    if !fixture.supports(OpKind::Scan) {
        return;
    }
    let mut rng = Rng::new(90);
    let mut lane = fixture.lane();
    for kind in KINDS {
        for dtype in &DType::ALL[..12] {
            for _ in 0..12 {
                if let Some((op, operands)) = any_scan(&mut rng, kind, *dtype) {
                    check(fixture, &mut lane, &op, &operands);
                }
            }
        }
    }
}

/// Lengths around the blocks that a device may scan in, along the last axis and along the first.
pub fn scans_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Scan) {
        return;
    }
    let mut rng = Rng::new(91);
    let mut lane = fixture.lane();
    for block in [4, 8, 32, 64, 128, 256, 1024, 4096, 16_384, 65_536] {
        for length in [block - 1, block, block + 1] {
            let kind = rng.pick(&KINDS);
            let dtype = rng.pick(&[DType::F32, DType::I64, DType::F16, DType::U8]);
            for (shape, axis) in [([2, length], 1), ([length, 3], 0), ([length, 16], 0)] {
                let count = shape.iter().product::<usize>();
                let values: Vec<Num> = (0..count).map(|_| value(&mut rng, kind, dtype)).collect();
                let src = Operand::of(dtype, &shape, values);
                let dst = Operand::row_major(dtype, &shape);
                let op = scan(kind, axis, rng.chance(2), rng.chance(2));
                check(fixture, &mut lane, &op, &[src, dst]);
            }
        }
    }
}

/// From NaN on the largest and the smallest so far are NaN; infinities are values.
pub fn nan_wins_from_its_place_on(fixture: &Fixture) {
    if !fixture.supports(OpKind::Scan) {
        return;
    }
    let mut lane = fixture.lane();
    for dtype in FLOATS {
        for at in [0, 1, 7, 31, 40] {
            for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let values = (0..41).map(|index| {
                    Num::Float(if index == at {
                        special
                    } else {
                        f64::from(index % 5)
                    })
                });
                let src = Operand::of(dtype, &[41], values);
                for kind in [ScanKind::Max, ScanKind::Min, ScanKind::Sum] {
                    for reverse in [false, true] {
                        let operands = [src.clone(), Operand::row_major(dtype, &[41])];
                        check(
                            fixture,
                            &mut lane,
                            &scan(kind, 0, false, reverse),
                            &operands,
                        );
                    }
                }
            }
        }
    }
}

fn sort(axis: usize, descending: bool, with_indices: bool) -> Op<usize> {
    Op::Sort(Sort {
        src: 0,
        values: 1,
        indices: with_indices.then_some(2),
        axis,
        descending,
    })
}

/// The shape with as many elements along the axis.
fn cut(shape: &[usize], axis: usize, wanted: usize) -> Vec<usize> {
    let mut cut = shape.to_vec();
    cut[axis] = wanted;
    cut
}

/// The order along any axis of any layout, or the first of it; `None` if there is no axis.
pub(crate) fn any_sort(rng: &mut Rng, dtype: DType) -> Option<Example> {
    let shape = any_shape(rng, 300);
    if shape.is_empty() {
        return None;
    }
    let axis = rng.below(shape.len());
    let wanted = match rng.chance(2) {
        true => shape[axis],
        false => rng.below(shape[axis] + 1),
    };
    let kept = cut(&shape, axis, wanted);
    let src = read_operand(rng, dtype, &shape, |rng| any_value(rng, dtype));
    let mut operands = vec![src, target(rng, dtype, &kept)];
    let with_indices = !rng.chance(4);
    if with_indices {
        operands.push(target(rng, DType::I64, &kept));
    }
    Some((sort(axis, rng.chance(2), with_indices), operands))
}

/// Every type is ordered along any axis of any layout, wholly or in part.
pub fn sorts_along_any_axis(fixture: &Fixture) {
    if !fixture.supports(OpKind::Sort) {
        return;
    }
    let mut rng = Rng::new(92);
    let mut lane = fixture.lane();
    for dtype in DType::ALL {
        for _ in 0..25 {
            if let Some((op, operands)) = any_sort(&mut rng, dtype) {
                check(fixture, &mut lane, &op, &operands);
            }
        }
    }
}

/// Lines around the lengths that a device may sort at once, with many equal elements, and the first of them.
pub fn sorts_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Sort) {
        return;
    }
    let mut rng = Rng::new(93);
    let mut lane = fixture.lane();
    for block in [2, 32, 256, 512, 1024, 2048, 4096, 10_000] {
        for length in [block - 1, block, block + 1] {
            for wanted in [1, 5, length / 2, length] {
                if wanted > length {
                    continue;
                }
                let dtype = rng.pick(&[DType::F32, DType::I64, DType::F16, DType::U8, DType::F64]);
                let values: Vec<Num> = (0..2 * length).map(|_| small(&mut rng, dtype)).collect();
                let operands = [
                    Operand::of(dtype, &[2, length], values),
                    Operand::row_major(dtype, &[2, wanted]),
                    Operand::row_major(DType::I64, &[2, wanted]),
                ];
                check(fixture, &mut lane, &sort(1, rng.chance(2), true), &operands);
            }
        }
    }
}

/// NaN is larger than everything, both zeros are equal, and equal elements keep their order.
pub fn order_of_equals_zeros_and_nan(fixture: &Fixture) {
    if !fixture.supports(OpKind::Sort) {
        return;
    }
    let mut lane = fixture.lane();
    let specials = [
        f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        1.0,
        f64::NEG_INFINITY,
        -1.0,
    ];
    for dtype in FLOATS {
        for length in [7, 50, 3000] {
            for descending in [false, true] {
                let values = (0..length).map(|index| Num::Float(specials[index * 5 % 7]));
                let operands = [
                    Operand::of(dtype, &[length], values),
                    Operand::row_major(dtype, &[length]),
                    Operand::row_major(DType::I64, &[length]),
                ];
                check(fixture, &mut lane, &sort(0, descending, true), &operands);
            }
        }
    }
}
