//! Factorisations and solves, put to the test of what they are for: the products of their results.
//!
//! There is more than one right result, so none is computed here. What is nearly singular, or no number, is left alone.

use streampool_device::{DType, Linalg};

use crate::num::{Num, smallest};
use crate::operand::Operand;

/// Row-major matrices, one for each index of a batch.
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

    fn each(&self) -> impl Iterator<Item = Matrix> {
        let size = (self.rows * self.columns).max(1);
        self.values.chunks(size).map(|values| Matrix {
            rows: self.rows,
            columns: self.columns,
            values: values.to_vec(),
        })
    }
}

#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn from_fn(rows: usize, columns: usize, at: impl Fn(usize, usize) -> f64) -> Matrix {
        let values = (0..rows * columns).map(|place| at(place / columns, place % columns));
        Matrix {
            rows,
            columns,
            values: values.collect(),
        }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    fn largest(&self) -> f64 {
        let magnitudes = self.values.iter().map(|value| value.abs());
        magnitudes.fold(0.0, f64::max)
    }

    /// Whether its elements are numbers whose products no type loses.
    fn is_tame(&self) -> bool {
        let largest = self.largest();
        let numbers = self.values.iter().all(|value| value.is_finite());
        numbers && (largest == 0.0 || (1e-9..1e9).contains(&largest))
    }

    /// Whether elimination meets only pivots that are not lost beside the largest element.
    fn is_regular(&self, least: f64) -> bool {
        let (mut left, size, largest) = (self.clone(), self.rows, self.largest());
        for step in 0..size {
            let pivot = (step..size).max_by(|&one, &other| {
                let [one, other] = [one, other].map(|row| left.at(row, step).abs());
                one.total_cmp(&other)
            });
            let pivot = pivot.expect("there are rows left");
            if left.at(pivot, step).abs() <= least * largest {
                return false;
            }
            for column in 0..size {
                left.values
                    .swap(step * size + column, pivot * size + column);
            }
            for row in step + 1..size {
                let factor = left.at(row, step) / left.at(step, step);
                for column in step..size {
                    left.values[row * size + column] -= factor * left.at(step, column);
                }
            }
        }
        true
    }
}

/// The distance between one and the next number of a type.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

/// Whether the operands after the op are what it makes of those before it.
pub(crate) fn check(
    op: &Linalg<usize>,
    before: &[Operand],
    after: &[Operand],
) -> Result<(), String> {
    let given = |operand: usize| Matrices::of(&before[operand]);
    let made = |operand: usize| Matrices::of(&after[operand]);
    let dtype_of = |operand: usize| before[operand].dtype;
    let orders = |pivots: &Operand, rows: usize| -> Vec<Option<Vec<usize>>> {
        let steps = pivots.shape().last().copied().unwrap_or(0);
        let all: Vec<i128> = pivots.values().into_iter().map(Num::int).collect();
        let each = all.chunks(steps.max(1));
        each.map(|pivots| order(rows, pivots)).collect()
    };
    match *op {
        Linalg::Lu {
            src,
            factors,
            pivots,
        } => {
            let (sources, results) = (given(src), made(factors));
            let orders = orders(&after[pivots], sources.rows);
            for ((a, f), order) in sources.each().zip(results.each()).zip(orders) {
                let order = order.ok_or("a pivot is of no row that is left")?;
                if a.is_tame() {
                    factorised(dtype_of(src), &a, &f, &order)?;
                }
            }
        }
        Linalg::LuSolve {
            factors,
            pivots,
            rhs,
            dst,
        } => {
            let (systems, sides, results) = (given(factors), given(rhs), made(dst));
            let orders = orders(&before[pivots], systems.rows);
            let each = systems.each().zip(orders).zip(sides.each());
            for (((f, order), b), x) in each.zip(results.each()) {
                let size = f.rows;
                let pivots = (0..size).map(|row| f.at(row, row).abs());
                let least = pivots.fold(f64::INFINITY, f64::min);
                let regular = least > epsilon(dtype_of(rhs)).sqrt() * f.largest();
                let lower_is_small =
                    (0..size).all(|row| (0..row).all(|c| f.at(row, c).abs() <= 1.0));
                let Some(order) = order else { continue };
                if !(f.is_tame() && b.is_tame() && regular && lower_is_small) {
                    continue;
                }
                let mut a = Matrix::from_fn(size, size, |_, _| 0.0);
                for (row, &place) in order.iter().enumerate() {
                    for column in 0..size {
                        a.values[place * size + column] = product(&f, row, column);
                    }
                }
                solved(dtype_of(rhs), &a, &x, &b)?;
            }
        }
        Linalg::Triangular {
            src,
            rhs,
            dst,
            upper,
            unit,
        } => {
            let (systems, sides, results) = (given(src), given(rhs), made(dst));
            for ((a, b), x) in systems.each().zip(sides.each()).zip(results.each()) {
                let a = Matrix::from_fn(a.rows, a.rows, |row, column| match row == column {
                    true if unit => 1.0,
                    true => a.at(row, column),
                    false if upper == (column > row) => a.at(row, column),
                    false => 0.0,
                });
                // No solution grows from row to row.
                let is_dominant = (0..a.rows).all(|row| {
                    let whole: f64 = (0..a.rows).map(|column| a.at(row, column).abs()).sum();
                    let diagonal = a.at(row, row).abs();
                    diagonal > 0.0 && diagonal >= (whole - diagonal) / 2.0
                });
                if a.is_tame() && b.is_tame() && is_dominant {
                    solved(dtype_of(rhs), &a, &x, &b)?;
                }
            }
        }
        Linalg::Cholesky { src, dst } => {
            for (a, l) in given(src).each().zip(made(dst).each()) {
                cholesky(dtype_of(src), &a, &l)?;
            }
        }
        Linalg::Inverse { src, dst } => {
            let least = epsilon(dtype_of(src)).sqrt();
            for (a, x) in given(src).each().zip(made(dst).each()) {
                if a.is_tame() && a.is_regular(least) {
                    let unit = Matrix::from_fn(a.rows, a.rows, |row, column| {
                        f64::from(u8::from(row == column))
                    });
                    solved(dtype_of(src), &a, &x, &unit)?;
                }
            }
        }
    }
    Ok(())
}

/// The rows of a matrix in the order in which they were exchanged.
fn order(rows: usize, pivots: &[i128]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..rows).collect();
    for (row, &pivot) in pivots.iter().enumerate() {
        let pivot = usize::try_from(pivot).ok()?;
        if !(row..rows).contains(&pivot) {
            return None;
        }
        order.swap(row, pivot);
    }
    Some(order)
}

/// An element of `L U`, which lie in one matrix.
fn product(factors: &Matrix, row: usize, column: usize) -> f64 {
    let steps = factors.rows.min(factors.columns);
    let lower = |inner: usize| match inner == row {
        true => 1.0,
        false => factors.at(row, inner),
    };
    let inner = 0..=row.min(column).min(steps - 1);
    inner
        .map(|inner| lower(inner) * factors.at(inner, column))
        .sum()
}

/// NaN is within nothing.
fn is_within(rest: f64, bound: f64) -> bool {
    rest.abs() <= bound
}

/// `P L U = A`.
fn factorised(dtype: DType, a: &Matrix, f: &Matrix, order: &[usize]) -> Result<(), String> {
    let steps = a.rows.min(a.columns);
    let bound = 4.0 * epsilon(dtype) * (steps.max(4) as f64) * a.largest().max(f.largest());
    for (row, &source) in order.iter().enumerate() {
        for column in 0..a.columns {
            if column < row.min(steps) && !is_within(f.at(row, column), 1.0) {
                return Err(format!("the factor at {row}, {column} is above one"));
            }
            let (product, wanted) = (product(f, row, column), a.at(source, column));
            let rest = product - wanted;
            if !is_within(rest, bound + smallest(dtype)) {
                return Err(format!(
                    "the product of the factors at {row}, {column} is {product}, expected {wanted}"
                ));
            }
        }
    }
    Ok(())
}

/// `A x = b`, with the backward error that solves have.
fn solved(dtype: DType, a: &Matrix, x: &Matrix, b: &Matrix) -> Result<(), String> {
    let size = a.rows;
    let bound = 16.0 * epsilon(dtype) * (size.max(4) as f64);
    for column in 0..x.columns {
        let scale = (0..size).fold(0.0f64, |scale, row| scale.max(x.at(row, column).abs()));
        for row in 0..size {
            let inner = (0..size).map(|inner| a.at(row, inner) * x.at(inner, column));
            let rest = (inner.sum::<f64>() - b.at(row, column)).abs();
            if !is_within(rest, bound * (a.largest() * scale + b.largest())) {
                return Err(format!("{rest:e} of the side is left at {row}, {column}"));
            }
        }
    }
    Ok(())
}

/// `L Lᵀ = A`, with zeros above the diagonal, from the lower triangle alone.
fn cholesky(dtype: DType, a: &Matrix, l: &Matrix) -> Result<(), String> {
    let size = a.rows;
    let whole = Matrix::from_fn(size, size, |row, column| {
        a.at(row.max(column), row.min(column))
    });
    // Without exchanges, elimination meets the squares of the diagonal.
    let mut left = whole.clone();
    let least = size as f64 * epsilon(dtype).sqrt() * whole.largest();
    for step in 0..size {
        if !whole.is_tame() || left.at(step, step) <= least {
            return Ok(());
        }
        for row in step + 1..size {
            let factor = left.at(row, step) / left.at(step, step);
            for column in step..size {
                left.values[row * size + column] -= factor * left.at(step, column);
            }
        }
    }
    let bound = 4.0 * epsilon(dtype) * (size as f64 + 4.0) * whole.largest();
    for row in 0..size {
        for column in 0..=row {
            let inner = (0..=column).map(|inner| l.at(row, inner) * l.at(column, inner));
            let rest = (inner.sum::<f64>() - a.at(row, column)).abs();
            if !is_within(rest, bound) {
                return Err(format!("{rest:e} is left at {row}, {column}"));
            }
        }
        if (row + 1..size).any(|column| l.at(row, column) != 0.0) {
            return Err(format!("row {row} is not zero above the diagonal"));
        }
    }
    Ok(())
}
