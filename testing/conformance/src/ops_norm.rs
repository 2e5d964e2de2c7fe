//! Softmax and normalisation against the reference.

use streampool_device::{DType, Norm, NormKind, Op, OpKind};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, any_shape, operand, read_operand, target};
use crate::rng::Rng;

fn softmax(dst: usize, axis: usize, log: bool) -> Op<usize> {
    Op::Softmax {
        src: 0,
        dst,
        axis,
        log,
    }
}

fn real(rng: &mut Rng) -> Num {
    Num::Float(rng.real(-4.0, 4.0))
}

/// Softmax or its logarithm along any axis of any layout; `None` if there is no axis.
pub(crate) fn any_softmax(rng: &mut Rng, dtype: DType) -> Option<Example> {
    let shape = any_shape(rng, 400);
    if shape.is_empty() {
        return None;
    }
    let (axis, log) = (rng.below(shape.len()), rng.chance(2));
    let src = read_operand(rng, dtype, &shape, real);
    let dst = target(rng, dtype, &shape);
    Some((softmax(1, axis, log), vec![src, dst]))
}

/// Softmax and its logarithm along any axis of any layout, into another view or in place.
pub fn softmax_along_any_axis(fixture: &Fixture) {
    if !fixture.supports(OpKind::Softmax) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(40);
    for dtype in FLOATS {
        for _ in 0..100 {
            let Some((op, operands)) = any_softmax(&mut rng, dtype) else {
                continue;
            };
            check(fixture, &mut lane, &op, &operands);
            let Op::Softmax { axis, log, .. } = op else {
                panic!("another op: {op:?}");
            };
            let both = operand(&mut rng, dtype, operands[0].shape(), real);
            check(fixture, &mut lane, &softmax(0, axis, log), &[both]);
        }
    }
}

/// Large logits do not overflow, minus infinity has no weight, and NaN stays in its row.
pub fn softmax_of_extremes(fixture: &Fixture) {
    if !fixture.supports(OpKind::Softmax) {
        return;
    }
    let mut lane = fixture.lane();
    let rows = [
        [1e4, 1e4 - 1.0, 0.0, -1e4],
        [-1e4, -1e4, -1e4, -1e4],
        [f64::NEG_INFINITY, 0.0, 1.0, f64::NEG_INFINITY],
        [88.0, 89.0, 90.0, -90.0],
        [f64::NAN, 1.0, 2.0, 3.0],
        [0.0, 0.0, 0.0, 0.0],
    ];
    let values = || rows.iter().flatten().copied().map(Num::Float);
    for dtype in [DType::F32, DType::F64] {
        for log in [false, true] {
            let src = Operand::of(dtype, &[6, 4], values());
            check(
                fixture,
                &mut lane,
                &softmax(1, 1, log),
                &[src, Operand::row_major(dtype, &[6, 4])],
            );
        }
    }
}

/// Rows of lengths around the blocks that a device may work in.
pub fn softmax_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Softmax) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(41);
    for block in [4, 8, 16, 32, 64, 128, 256, 1024, 4096] {
        for length in [block - 1, block, block + 1] {
            let values: Vec<Num> = (0..3 * length).map(|_| real(&mut rng)).collect();
            let src = Operand::of(DType::F32, &[3, length], values.iter().copied());
            let dst = Operand::row_major(DType::F32, &[3, length]);
            check(fixture, &mut lane, &softmax(1, 1, false), &[src, dst]);
            let src = Operand::of(DType::F32, &[length, 3], values);
            let dst = Operand::row_major(DType::F32, &[length, 3]);
            check(fixture, &mut lane, &softmax(1, 0, true), &[src, dst]);
        }
    }
}

fn norm(kind: NormKind, axis: usize, dst: usize, affine: [bool; 2]) -> Norm<usize> {
    Norm {
        kind,
        src: 0,
        added: None,
        sum: None,
        dst,
        scale: affine[0].then_some(2),
        bias: affine[1].then_some(3),
        axis,
        epsilon: 1e-2,
    }
}

const KINDS: [NormKind; 2] = [NormKind::Layer, NormKind::Rms];

/// A normalisation from any axis of any layout; `None` if there is no axis.
pub(crate) fn any_norm(rng: &mut Rng, dtype: DType) -> Option<(Norm<usize>, Vec<Operand>)> {
    let shape = any_shape(rng, 400);
    if shape.is_empty() {
        return None;
    }
    let (kind, axis) = (rng.pick(&KINDS), rng.below(shape.len()));
    let affine = [rng.chance(2), rng.chance(2)];
    let src = operand(rng, dtype, &shape, real);
    let dst = target(rng, dtype, &shape);
    let scale = read_operand(rng, dtype, &shape[axis..], real);
    let bias = read_operand(rng, dtype, &shape[axis..], real);
    let mut added = Operand::blank(dtype, src.layout);
    added.set_all((0..added.layout.elements()).map(|_| real(rng)));
    let sum = Operand::blank(dtype, src.layout);
    let op = Norm {
        added: rng.chance(2).then_some(4),
        sum: rng.chance(2).then_some(5),
        ..norm(kind, axis, 1, affine)
    };
    Some((op, vec![src, dst, scale, bias, added, sum]))
}

/// Both normalisations from any axis of any layout, with and without scale and bias, also in place.
pub fn norms_from_any_axis(fixture: &Fixture) {
    if !fixture.supports(OpKind::Norm) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(42);
    for dtype in FLOATS {
        for _ in 0..100 {
            let Some((op, operands)) = any_norm(&mut rng, dtype) else {
                continue;
            };
            for dst in [1, 0] {
                check(fixture, &mut lane, &Op::Norm(Norm { dst, ..op }), &operands);
            }
            // What is added may become the sum.
            let sum = op.added.or(op.sum);
            check(fixture, &mut lane, &Op::Norm(Norm { sum, ..op }), &operands);
        }
    }
}

/// Rows of lengths around the blocks that a device may work in.
pub fn norms_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Norm) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(43);
    let blocks = [4, 8, 16, 32, 64, 128, 256, 1024, 4096];
    let around = blocks.map(|block| [block - 1, block, block + 1]);
    // The last is more than the threads of a group hold.
    for length in around.into_iter().flatten().chain([40_000]) {
        for kind in KINDS {
            let mut values =
                |count: usize| -> Vec<Num> { (0..count).map(|_| real(&mut rng)).collect() };
            let operands = [
                Operand::of(DType::F32, &[2, length], values(2 * length)),
                Operand::row_major(DType::F32, &[2, length]),
                Operand::of(DType::F32, &[length], values(length)),
                Operand::of(DType::F32, &[length], values(length)),
                Operand::of(DType::F32, &[2, length], values(2 * length)),
                Operand::row_major(DType::F32, &[2, length]),
            ];
            for (added, sum) in [(None, None), (Some(4), None), (Some(4), Some(5))] {
                let op = Norm {
                    added,
                    sum,
                    ..norm(kind, 1, 1, [true, true])
                };
                check(fixture, &mut lane, &Op::Norm(op), &operands);
            }
        }
    }
}

/// A row far from zero keeps its variance, a constant one is only its bias, and NaN stays in its row.
pub fn norms_of_extremes(fixture: &Fixture) {
    if !fixture.supports(OpKind::Norm) {
        return;
    }
    let mut lane = fixture.lane();
    for dtype in [DType::F32, DType::F64] {
        for kind in KINDS {
            let far = (0..64).map(|index| Num::Float(1000.0 + f64::from(index % 4)));
            let flat = (0..64).map(|_| Num::Float(7.0));
            let broken = (0..64).map(|index| Num::Float(if index == 9 { f64::NAN } else { 1.0 }));
            let zero = (0..64).map(|_| Num::Float(0.0));
            let src = Operand::of(dtype, &[4, 64], far.chain(flat).chain(broken).chain(zero));
            let affine = Operand::of(
                dtype,
                &[64],
                (0..64).map(|index| Num::Float(f64::from(index % 3))),
            );
            let operands = [
                src,
                Operand::row_major(dtype, &[4, 64]),
                affine.clone(),
                affine,
            ];
            check(
                fixture,
                &mut lane,
                &Op::Norm(norm(kind, 1, 1, [true, true])),
                &operands,
            );
        }
    }
}
