//! Factorisations and solves, put to the test of what they are for: the products of their results.

use streampool_device::{DType, Linalg, Op, OpKind};

use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::num::Num;
use crate::operand::{Operand, any_layout, executed};
use crate::rng::Rng;

pub(crate) const TYPES: [DType; 2] = [DType::F32, DType::F64];
/// Within the blocks that a device may work in, around their ends, and in several of them.
const SIZES: [usize; 12] = [0, 1, 2, 3, 7, 16, 31, 32, 33, 63, 65, 130];

/// Row-major matrices, one for each index of a batch.
#[derive(Clone)]
struct Matrices {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrices {
    fn of(operand: &Operand) -> Matrices {
        let [.., rows, columns] = *operand.shape() else {
            panic!("an operand of matrices");
        };
        Matrices {
            rows,
            columns,
            values: operand.values().into_iter().map(Num::float).collect(),
        }
    }

    fn each(&self) -> impl Iterator<Item = Matrix<'_>> {
        let size = (self.rows * self.columns).max(1);
        self.values.chunks(size).map(|values| Matrix {
            columns: self.columns,
            values,
        })
    }
}

#[derive(Clone, Copy)]
struct Matrix<'a> {
    columns: usize,
    values: &'a [f64],
}

impl Matrix<'_> {
    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    fn largest(&self) -> f64 {
        self.values
            .iter()
            .fold(0.0, |largest, value| value.abs().max(largest))
    }
}

pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

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

/// The rows of a matrix in the order in which they were exchanged.
fn order(rows: usize, pivots: &[i128]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows).collect();
    for (row, &pivot) in pivots.iter().enumerate() {
        let pivot = usize::try_from(pivot).expect("a pivot is the number of a row");
        assert!(
            (row..rows).contains(&pivot),
            "row {row} was exchanged with {pivot}"
        );
        order.swap(row, pivot);
    }
    order
}

fn assert_factors(dtype: DType, src: &Operand, factors: &Operand, pivots: &Operand) {
    let (sources, results) = (Matrices::of(src), Matrices::of(factors));
    let (rows, columns) = (sources.rows, sources.columns);
    let steps = rows.min(columns);
    let all: Vec<i128> = pivots.values().into_iter().map(Num::int).collect();
    for (number, (a, f)) in sources.each().zip(results.each()).enumerate() {
        let order = order(rows, &all[number * steps..][..steps]);
        let bound = 4.0 * epsilon(dtype) * (steps.max(4) as f64) * a.largest().max(f.largest());
        for (row, &source) in order.iter().enumerate() {
            for column in 0..columns {
                let lower = |inner: usize| if inner == row { 1.0 } else { f.at(row, inner) };
                if column < row.min(steps) {
                    assert!(
                        lower(column).abs() <= 1.0,
                        "a factor above one at {row}, {column}"
                    );
                }
                let product: f64 = (0..=row.min(column).min(steps - 1))
                    .map(|inner| lower(inner) * f.at(inner, column))
                    .sum();
                let wanted = a.at(source, column);
                assert!(
                    (product - wanted).abs() <= bound,
                    "{dtype} {rows} by {columns}: {product} for {wanted} at {row}, {column}"
                );
            }
        }
    }
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
                let after = lu(fixture, &mut lane, &mut rng, src);
                assert_factors(dtype, &after[0], &after[1], &after[2]);
            }
        }
        for size in [1, 5, 33, 100] {
            // All rows are alike, and whole columns are zero.
            let src = matrices(&mut rng, dtype, &[2, size, size], |_, _, column| {
                (column % 2) as f64
            });
            let after = lu(fixture, &mut lane, &mut rng, src);
            assert_factors(dtype, &after[0], &after[1], &after[2]);
        }
    }
}

/// `A x = b`, with the backward error that solves have.
fn assert_solves(
    dtype: DType,
    a: &Matrices,
    x: &Operand,
    b: &Operand,
    element: impl Fn(Matrix<'_>, usize, usize) -> f64,
) {
    let (solutions, sides) = (Matrices::of(x), Matrices::of(b));
    for ((a, x), b) in a.each().zip(solutions.each()).zip(sides.each()) {
        let size = a.columns;
        let bound = 16.0 * epsilon(dtype) * (size.max(4) as f64);
        for column in 0..x.columns {
            let scale = (0..size).fold(0.0f64, |scale, row| scale.max(x.at(row, column).abs()));
            for row in 0..size {
                let product: f64 = (0..size)
                    .map(|inner| element(a, row, inner) * x.at(inner, column))
                    .sum();
                let rest = (product - b.at(row, column)).abs();
                assert!(
                    rest <= bound * (a.largest() * scale + b.largest()),
                    "{dtype}, {size}: {rest} is left at {row}, {column}"
                );
            }
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
                let factorised = lu(fixture, &mut lane, &mut rng, src.clone());
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
                let after = executed(fixture, &mut lane, &op, &[factors, pivots, rhs, dst]);
                let element = |a: Matrix<'_>, row, column| a.at(row, column);
                assert_solves(dtype, &Matrices::of(&src), &after[3], &after[2], element);
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
                let after = executed(fixture, &mut lane, &op, &[src, rhs, dst]);
                let element = |a: Matrix<'_>, row, column| match inside(row, column) {
                    true => a.at(row, column),
                    false => f64::from(u8::from(row == column)),
                };
                assert_solves(
                    dtype,
                    &Matrices::of(&after[0]),
                    &after[2],
                    &after[1],
                    element,
                );
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
            let after = executed(fixture, &mut lane, &op, &[src, dst]);
            let (sources, factors) = (Matrices::of(&after[0]), Matrices::of(&after[1]));
            for (a, l) in sources.each().zip(factors.each()) {
                let bound = 4.0 * epsilon(dtype) * (size as f64 + 4.0) * (size as f64 + 1.0);
                for row in 0..size {
                    for column in 0..=row {
                        let product: f64 = (0..=column)
                            .map(|inner| l.at(row, inner) * l.at(column, inner))
                            .sum();
                        let rest = (product - a.at(row, column)).abs();
                        assert!(
                            rest <= bound,
                            "{dtype}, {size}: {rest} is left at {row}, {column}"
                        );
                    }
                    for column in row + 1..size {
                        assert_eq!(l.at(row, column), 0.0, "above the diagonal");
                    }
                }
            }
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
            let after = executed(fixture, &mut lane, &op, &[src, dst]);
            let unit = matrices(&mut rng, dtype, &shape, |_, row, column| {
                f64::from(u8::from(row == column))
            });
            let element = |a: Matrix<'_>, row, column| a.at(row, column);
            assert_solves(dtype, &Matrices::of(&after[0]), &after[1], &unit, element);
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
                let results = Matrices::of(&after[1]);
                let all: Vec<Matrix<'_>> = results.each().collect();
                if matches!(op, Linalg::Inverse { .. }) {
                    assert!(
                        all[0].values.iter().any(|value| !value.is_finite()),
                        "{op:?}"
                    );
                }
                assert!(all[1].values.iter().any(|value| value.is_nan()), "{op:?}");
                for row in 0..size {
                    let rest = (all[2].at(row, row) - good).abs();
                    assert!(rest <= 4.0 * epsilon(dtype), "{op:?}: {rest}");
                }
            }
        }
    }
}
