//! Systems that are far from singular, so that two ways to solve them come to nearly the same.

use streampool_device::{DType, Linalg, Op};

use crate::execute::Example;
use crate::num::Num;
use crate::operand::Operand;
use crate::ops_linalg::{TYPES, batch, matrices, shape};
use crate::random::target;
use crate::rng::Rng;

/// Within a block of a large matrix, around its end, and in several.
const SIZES: [usize; 8] = [1, 2, 5, 17, 31, 33, 64, 97];

/// Small numbers, and on the diagonal, or on the one across it, large ones: then the largest of a column is the
/// same on every device.
fn sound(rng: &mut Rng, dtype: DType, shape: &[usize], across: bool) -> Operand {
    let [.., rows, columns] = *shape else {
        panic!("a shape of matrices");
    };
    let most = rows.min(columns);
    matrices(rng, dtype, shape, |rng, row, column| {
        let is_large = match across {
            true => row + column + 1 == most,
            false => row == column,
        };
        let large = if is_large { most as f64 + 1.0 } else { 0.0 };
        large + rng.real(-0.5, 0.5)
    })
}

fn sides(rng: &mut Rng, dtype: DType, shape: &[usize]) -> Operand {
    matrices(rng, dtype, shape, |rng, _, _| rng.real(-1.0, 1.0))
}

pub(super) fn lu(kinds: &mut Rng, rng: &mut Rng) -> Option<Example> {
    let dtype = kinds.pick(&TYPES);
    let (batch, size, more) = (batch(rng), rng.pick(&SIZES), rng.below(40));
    let (rows, columns) = rng.pick(&[(size, size), (size + more, size), (size, size + more)]);
    let shape = shape(&batch, rows, columns);
    let pivots = [&batch[..], &[size]].concat();
    let op = Linalg::Lu {
        src: 0,
        factors: 1,
        pivots: 2,
    };
    let operands = vec![
        sound(rng, dtype, &shape, true),
        target(rng, dtype, &shape),
        target(rng, DType::I32, &pivots),
    ];
    Some((Op::Linalg(op), operands))
}

/// With factors that are drawn, and any exchanges of rows.
pub(super) fn lu_solve(kinds: &mut Rng, rng: &mut Rng) -> Option<Example> {
    let dtype = kinds.pick(&TYPES);
    let (batch, size, columns) = (batch(rng), rng.pick(&SIZES), rng.pick(&[1, 5, 70]));
    let square = shape(&batch, size, size);
    let factors = matrices(rng, dtype, &square, |rng, row, column| {
        match row == column {
            true => rng.real(1.0, 2.0),
            false => rng.real(-1.0, 1.0) / size as f64,
        }
    });
    let mut pivots = target(rng, DType::I32, &[&batch[..], &[size]].concat());
    let count = pivots.layout.elements();
    let rows = (0..count).map(|at| Num::whole(rng.between((at % size) as i64, size as i64 - 1)));
    pivots.set_all(rows.collect::<Vec<_>>());
    let wide = shape(&batch, size, columns);
    let op = Linalg::LuSolve {
        factors: 0,
        pivots: 1,
        rhs: 2,
        dst: 3,
    };
    let (rhs, dst) = (sides(rng, dtype, &wide), target(rng, dtype, &wide));
    Some((Op::Linalg(op), vec![factors, pivots, rhs, dst]))
}

pub(super) fn triangular(kinds: &mut Rng, rng: &mut Rng) -> Option<Example> {
    let dtype = kinds.pick(&TYPES);
    let [upper, unit] = [0; 2].map(|_| kinds.chance(2));
    let (batch, size, columns) = (batch(rng), rng.pick(&SIZES), rng.pick(&[1, 5, 70]));
    let square = shape(&batch, size, size);
    let src = matrices(rng, dtype, &square, |rng, row, column| {
        match row == column {
            true if unit => f64::NAN,
            true => rng.real(1.0, 2.0),
            false if upper == (column > row) => rng.real(-1.0, 1.0) / size as f64,
            // Not to be read.
            false => f64::NAN,
        }
    });
    let wide = shape(&batch, size, columns);
    let op = Linalg::Triangular {
        src: 0,
        rhs: 1,
        dst: 2,
        upper,
        unit,
    };
    let (rhs, dst) = (sides(rng, dtype, &wide), target(rng, dtype, &wide));
    Some((Op::Linalg(op), vec![src, rhs, dst]))
}

/// A Cholesky factorisation, which reads the lower triangle alone, or an inverse.
pub(super) fn square(kinds: &mut Rng, rng: &mut Rng) -> Option<Example> {
    let dtype = kinds.pick(&TYPES);
    let batch = batch(rng);
    let size = rng.pick(&SIZES);
    let shape = shape(&batch, size, size);
    let (op, src) = match kinds.chance(2) {
        true => (
            Linalg::Cholesky { src: 0, dst: 1 },
            sound(rng, dtype, &shape, false),
        ),
        false => (
            Linalg::Inverse { src: 0, dst: 1 },
            sound(rng, dtype, &shape, true),
        ),
    };
    let dst = target(rng, dtype, &shape);
    Some((Op::Linalg(op), vec![src, dst]))
}
