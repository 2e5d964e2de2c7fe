//! Reductions against the reference.

use streampool_device::{Axes, DType, Op, OpKind, ReduceKind};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, any_shape, any_value, read_operand, target};
use crate::rng::Rng;

pub(crate) const KINDS: [ReduceKind; 9] = [
    ReduceKind::Sum,
    ReduceKind::Mean,
    ReduceKind::Prod,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::ArgMax,
    ReduceKind::ArgMin,
    ReduceKind::Any,
    ReduceKind::All,
];

fn is_index(kind: ReduceKind) -> bool {
    matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin)
}

fn needs_elements(kind: ReduceKind) -> bool {
    is_index(kind) || matches!(kind, ReduceKind::Max | ReduceKind::Min)
}

/// The element types that `kind` takes.
pub(crate) fn types(kind: ReduceKind) -> &'static [DType] {
    match kind {
        ReduceKind::Mean => &FLOATS,
        ReduceKind::Any | ReduceKind::All => &[DType::Bool],
        _ => &[
            DType::F32,
            DType::F16,
            DType::BF16,
            DType::F64,
            DType::I8,
            DType::U8,
            DType::I16,
            DType::U16,
            DType::I32,
            DType::U32,
            DType::I64,
            DType::U64,
        ],
    }
}

fn reduce(kind: ReduceKind, axes: &[usize]) -> Op<usize> {
    Op::Reduce {
        kind,
        src: 0,
        dst: 1,
        axes: Axes::new(axes).expect("below the maximum"),
    }
}

/// A value such that no sum or product of a few hundred floats leaves the type; integers wrap.
fn value(rng: &mut Rng, kind: ReduceKind, dtype: DType) -> Num {
    match (kind, dtype) {
        (ReduceKind::Any, _) => Num::whole(i64::from(rng.chance(20))),
        (ReduceKind::All, _) => Num::whole(i64::from(!rng.chance(20))),
        (ReduceKind::Prod, _) if dtype.is_float() => Num::Float(rng.real(0.8, 1.2)),
        (ReduceKind::Prod, _) => Num::whole(if rng.chance(60) { 2 } else { 1 }),
        _ if dtype.is_integer() => any_value(rng, dtype),
        (kind, _) if is_index(kind) => Num::Float(rng.between(-5, 5) as f64),
        _ => Num::Float(rng.real(-3.0, 3.0)),
    }
}

fn over(rng: &mut Rng, kind: ReduceKind, dtype: DType, shape: &[usize], axes: &[usize]) -> Example {
    let kept: Vec<usize> = shape
        .iter()
        .enumerate()
        .map(|(axis, &size)| if axes.contains(&axis) { 1 } else { size })
        .collect();
    let src = read_operand(rng, dtype, shape, |rng| value(rng, kind, dtype));
    let to = if is_index(kind) { DType::I64 } else { dtype };
    let dst = target(rng, to, &kept);
    (reduce(kind, axes), vec![src, dst])
}

fn one(
    fixture: &Fixture,
    rng: &mut Rng,
    kind: ReduceKind,
    dtype: DType,
    shape: &[usize],
    axes: &[usize],
) {
    let (op, operands) = over(rng, kind, dtype, shape, axes);
    check(fixture, &mut fixture.lane(), &op, &operands);
}

/// A reduction over any axes of any layout; `None` if what came up has no result.
pub(crate) fn any_reduction(rng: &mut Rng, kind: ReduceKind, dtype: DType) -> Option<Example> {
    let shape = any_shape(rng, 300);
    let mut axes: Vec<usize> = (0..shape.len()).filter(|_| rng.chance(2)).collect();
    if is_index(kind) {
        axes.truncate(1);
    }
    let reduced: usize = axes.iter().map(|&axis| shape[axis]).product();
    let refused = (is_index(kind) && axes.len() != 1) || (needs_elements(kind) && reduced == 0);
    let no_mean = kind == ReduceKind::Mean && reduced == 0;
    (!refused && !no_mean).then(|| over(rng, kind, dtype, &shape, &axes))
}

/// Every reduction, of every type it takes, over any axes of any layout.
pub fn reductions_over_any_axes(fixture: &Fixture) {
    if !fixture.supports(OpKind::Reduce) {
        return;
    }
    let mut rng = Rng::new(30);
    for kind in KINDS {
        for &dtype in types(kind) {
            for _ in 0..30 {
                if let Some((op, operands)) = any_reduction(&mut rng, kind, dtype) {
                    check(fixture, &mut fixture.lane(), &op, &operands);
                }
            }
        }
    }
}

/// Lengths around the blocks that a device may reduce in, over the last axis and over the first.
pub fn reductions_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Reduce) {
        return;
    }
    let mut rng = Rng::new(31);
    for block in [4, 8, 16, 32, 64, 128, 256, 1024, 4096] {
        for length in [block - 1, block, block + 1] {
            for kind in [
                ReduceKind::Sum,
                ReduceKind::Max,
                ReduceKind::ArgMin,
                ReduceKind::Mean,
            ] {
                one(fixture, &mut rng, kind, DType::F32, &[3, length], &[1]);
                one(fixture, &mut rng, kind, DType::F32, &[length, 3], &[0]);
            }
        }
    }
}

/// Nothing sums to zero, multiplies to one, has none true and all true.
pub fn nothing_reduces_to_the_neutral_element(fixture: &Fixture) {
    if !fixture.supports(OpKind::Reduce) {
        return;
    }
    let mut rng = Rng::new(32);
    for kind in [
        ReduceKind::Sum,
        ReduceKind::Prod,
        ReduceKind::Any,
        ReduceKind::All,
    ] {
        for &dtype in types(kind) {
            one(fixture, &mut rng, kind, dtype, &[3, 0], &[1]);
            one(fixture, &mut rng, kind, dtype, &[0, 4, 2], &[0]);
            one(fixture, &mut rng, kind, dtype, &[0], &[0]);
        }
    }
}

/// NaN wins in the largest and the smallest, wherever it stands; infinities are values.
pub fn nan_wins(fixture: &Fixture) {
    if !fixture.supports(OpKind::Reduce) {
        return;
    }
    let mut lane = fixture.lane();
    for dtype in FLOATS {
        for at in [0, 1, 7, 8, 31, 40] {
            for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let values = (0..41).map(|index| {
                    Num::Float(if index == at {
                        special
                    } else {
                        f64::from(index % 5)
                    })
                });
                let src = Operand::of(dtype, &[41], values);
                for kind in [ReduceKind::Max, ReduceKind::Min, ReduceKind::Sum] {
                    let operands = [src.clone(), Operand::row_major(dtype, &[1])];
                    check(fixture, &mut lane, &reduce(kind, &[0]), &operands);
                }
            }
        }
    }
}

/// The index is that of the first of equals, along any axis.
pub fn the_first_of_equals_is_found(fixture: &Fixture) {
    if !fixture.supports(OpKind::Reduce) {
        return;
    }
    let mut rng = Rng::new(33);
    let mut lane = fixture.lane();
    for kind in [ReduceKind::ArgMax, ReduceKind::ArgMin] {
        for &dtype in types(kind) {
            for length in [1, 2, 9, 16, 17, 70, 300] {
                let values: Vec<Num> = (0..2 * length)
                    .map(|_| Num::whole(rng.between(0, 2)).cast(dtype))
                    .collect();
                let rows = Operand::of(dtype, &[2, length], values.iter().copied());
                let out = Operand::row_major(DType::I64, &[2, 1]);
                check(fixture, &mut lane, &reduce(kind, &[1]), &[rows, out]);
                let columns = Operand::of(dtype, &[length, 2], values);
                let out = Operand::row_major(DType::I64, &[1, 2]);
                check(fixture, &mut lane, &reduce(kind, &[0]), &[columns, out]);
            }
        }
    }
}

/// A long sum of floats loses no more than its tolerance.
pub fn long_sums_stay_accurate(fixture: &Fixture) {
    if !fixture.supports(OpKind::Reduce) {
        return;
    }
    let mut rng = Rng::new(34);
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        one(fixture, &mut rng, ReduceKind::Sum, dtype, &[100_000], &[0]);
        one(
            fixture,
            &mut rng,
            ReduceKind::Mean,
            dtype,
            &[20_000, 3],
            &[0],
        );
    }
}
