//! Factorisations and solves.

use streampool_device::{DType, Linalg, Op, OpKind};

use crate::execute::executed;
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::num::Num;
use crate::operand::{Operand, any_layout};
use crate::reference::epsilon;
use crate::rng::Rng;

pub(crate) const TYPES: [DType; 2] = [DType::F32, DType::F64];
/// Within the blocks that a device may work in, around their ends, and in several of them.
const SIZES: [usize; 12] = [0, 1, 2, 3, 7, 16, 31, 32, 33, 63, 65, 130];

/// Batches: none, one dimension, two, and an empty one.
pub(crate) fn batch(rng: &mut Rng) -> Vec<usize> {
    match rng.below(6) {
        0 | 1 => vec![],
        2 | 3 => vec![1 + rng.below(4)],
        4 => vec![1 + rng.below(2), 1 + rng.below(3)],
        _ => vec![0],
    }
}

pub(crate) fn shape(batch: &[usize], rows: usize, columns: usize) -> Vec<usize> {
    [batch, &[rows, columns]].concat()
}

/// Matrices of any layout from the value of each row and column.
pub(crate) fn matrices(
    rng: &mut Rng,
    dtype: DType,
    shape: &[usize],
    mut value: impl FnMut(&mut Rng, usize, usize) -> f64,
) -> Operand {
    let layout = any_layout(rng, shape);
    let [.., rows, columns] = *shape else {
        panic!("a shape of matrices");
    };
    let mut operand = Operand::blank(dtype, layout);
    let values: Vec<Num> = (0..layout.elements())
        .map(|index| Num::Float(value(rng, index / columns % rows, index % columns)))
        .collect();
    operand.set_all(values);
    operand
}

/// Any numbers; some are far from singular by a large element in each row, which is not on the diagonal.
fn general(rng: &mut Rng, dtype: DType, shape: &[usize], sound: bool) -> Operand {
    let size = shape[shape.len() - 1];
    matrices(rng, dtype, shape, |rng, row, column| {
        let large = sound && (row * 7 + column + 1).is_multiple_of(size);
        rng.real(-1.0, 1.0) + if large { size as f64 } else { 0.0 }
    })
}

fn target(rng: &mut Rng, dtype: DType, shape: &[usize]) -> Operand {
    let layout = any_layout(rng, shape);
    Operand::blank(dtype, layout)
}

fn lu(fixture: &Fixture, lane: &mut Lane, rng: &mut Rng, src: Operand) -> Vec<Operand> {
    let [batch @ .., rows, columns] = src.shape() else {
        panic!("an operand of matrices");
    };
    let steps = [batch, &[*rows.min(columns)]].concat();
    let factors = target(rng, src.dtype, src.shape());
    let pivots = target(rng, DType::I32, &steps);
    let op = Op::Linalg(Linalg::Lu {
        src: 0,
        factors: 1,
        pivots: 2,
    });
    executed(fixture, lane, &op, &[src, factors, pivots])
}

/// `P L U = A` for any matrices: wide, high, empty and singular ones, of any layout.
pub fn lu_multiplies_back(fixture: &Fixture) {
    if !fixture.supports(OpKind::Linalg) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(91);
    for dtype in fixture.of(TYPES) {
        for size in SIZES {
            for (rows, columns) in [(size, size), (size + 9, size), (size, size + 40)] {
                let batch = batch(&mut rng);
                let src = general(&mut rng, dtype, &shape(&batch, rows, columns), false);
                lu(fixture, &mut lane, &mut rng, src);
            }
        }
        for size in [1, 5, 33, 100] {
            // All rows are alike, and whole columns are zero.
            let src = matrices(&mut rng, dtype, &[2, size, size], |_, _, column| {
                (column % 2) as f64
            });
            lu(fixture, &mut lane, &mut rng, src);
        }
    }
}

/// `A x = b` by the factors of `A`, for several right-hand sides.
pub fn lu_solves(fixture: &Fixture) {
    if !fixture.supports(OpKind::Linalg) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(92);
    for dtype in fixture.of(TYPES) {
        for size in SIZES {
            for columns in [0, 1, 5, 70] {
                let batch = batch(&mut rng);
                let src = general(&mut rng, dtype, &shape(&batch, size, size), true);
                let factorised = lu(fixture, &mut lane, &mut rng, src);
                let sides = shape(&batch, size, columns);
                let rhs = general(&mut rng, dtype, &sides, false);
                let dst = target(&mut rng, dtype, &sides);
                let op = Op::Linalg(Linalg::LuSolve {
                    factors: 0,
                    pivots: 1,
                    rhs: 2,
                    dst: 3,
                });
                let [factors, pivots] = [1, 2].map(|index| factorised[index].clone());
                executed(fixture, &mut lane, &op, &[factors, pivots, rhs, dst]);
            }
        }
    }
}

/// Triangular solves of all kinds; what lies outside the triangle is NaN and is not read.
pub fn triangles_are_solved(fixture: &Fixture) {
    if !fixture.supports(OpKind::Linalg) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(93);
    for dtype in fixture.of(TYPES) {
        for size in SIZES {
            for [upper, unit] in [[false, false], [false, true], [true, false], [true, true]] {
                let batch = batch(&mut rng);
                let inside = move |row: usize, column: usize| match row == column {
                    true => !unit,
                    false => upper == (column > row),
                };
                let src = matrices(
                    &mut rng,
                    dtype,
                    &shape(&batch, size, size),
                    |rng, row, column| match inside(row, column) {
                        false => f64::NAN,
                        true if row == column => rng.real(1.0, 2.0),
                        true => rng.real(-1.0, 1.0) / size as f64,
                    },
                );
                let columns = rng.pick(&[1, 2, 64, 65]);
                let sides = shape(&batch, size, columns);
                let rhs = general(&mut rng, dtype, &sides, false);
                let dst = target(&mut rng, dtype, &sides);
                let op = Op::Linalg(Linalg::Triangular {
                    src: 0,
                    rhs: 1,
                    dst: 2,
                    upper,
                    unit,
                });
                executed(fixture, &mut lane, &op, &[src, rhs, dst]);
            }
        }
    }
}

/// `L Lᵀ = A`, with zeros above the diagonal, from the lower triangle alone.
pub fn cholesky_multiplies_back(fixture: &Fixture) {
    if !fixture.supports(OpKind::Linalg) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(94);
    for dtype in fixture.of(TYPES) {
        for size in SIZES {
            let shape = shape(&batch(&mut rng), size, size);
            let src = matrices(&mut rng, dtype, &shape, |rng, row, column| {
                match column > row {
                    true => f64::NAN,
                    false if row == column => size as f64 + rng.real(0.0, 1.0),
                    false => rng.real(-1.0, 1.0),
                }
            });
            let dst = target(&mut rng, dtype, &shape);
            let op = Op::Linalg(Linalg::Cholesky { src: 0, dst: 1 });
            executed(fixture, &mut lane, &op, &[src, dst]);
        }
    }
}

/// `A A⁻¹ = 1`.
pub fn inverses_multiply_to_one(fixture: &Fixture) {
    if !fixture.supports(OpKind::Linalg) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(95);
    for dtype in fixture.of(TYPES) {
        for size in SIZES {
            let shape = shape(&batch(&mut rng), size, size);
            let src = general(&mut rng, dtype, &shape, true);
            let dst = target(&mut rng, dtype, &shape);
            let op = Op::Linalg(Linalg::Inverse { src: 0, dst: 1 });
            executed(fixture, &mut lane, &op, &[src, dst]);
        }
    }
}

/// What cannot be solved comes to infinities and NaN, is no fault, and leaves other matrices alone.
pub fn singular_matrices_are_no_fault(fixture: &Fixture) {
    if !fixture.supports(OpKind::Linalg) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(96);
    for dtype in fixture.of(TYPES) {
        for size in [1, 4, 40, 110] {
            let mut elements = 0;
            // The first is zero, the second has NaN, the third is twice the unit matrix.
            let src = matrices(&mut rng, dtype, &[3, size, size], |_, row, column| {
                elements += 1;
                match (elements - 1) / (size * size) {
                    0 => 0.0,
                    1 => f64::NAN,
                    _ => 2.0 * f64::from(u8::from(row == column)),
                }
            });
            for (op, good) in [
                (Linalg::Inverse { src: 0, dst: 1 }, 0.5),
                (Linalg::Cholesky { src: 0, dst: 1 }, 2f64.sqrt()),
            ] {
                let dst = target(&mut rng, dtype, &[3, size, size]);
                let after = executed(fixture, &mut lane, &Op::Linalg(op), &[src.clone(), dst]);
                let results = after[1].values().into_iter().map(Num::float);
                let results: Vec<f64> = results.collect();
                let all: Vec<&[f64]> = results.chunks(size * size).collect();
                if matches!(op, Linalg::Inverse { .. }) {
                    assert!(all[0].iter().any(|value| !value.is_finite()), "{op:?}");
                }
                assert!(all[1].iter().any(|value| value.is_nan()), "{op:?}");
                for row in 0..size {
                    let rest = (all[2][row * size + row] - good).abs();
                    assert!(rest <= 4.0 * epsilon(dtype), "{op:?}: {rest}");
                }
            }
        }
    }
}
