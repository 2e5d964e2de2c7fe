//! Which launches execute an op.

use smallvec::SmallVec;
use streampool_device::{DType, Linalg as Op, MAX_RANK};

use super::kernel::{Content, Linalg, MATRICES_Y, ROWS, SIDE, Step, TILE};
use super::matrix::Matrix;
use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};
use crate::numbered::Numbered;

/// The sizes that a kernel is given; see `SIZES`.
#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    rows: usize,
    columns: usize,
    inner: usize,
    first: usize,
    left: usize,
    skipped: usize,
    tiles: usize,
}

/// A plan in the making.
struct Launches<'a, K> {
    batch: &'a [usize],
    dtype: DType,
    limits: &'a Limits,
    plan: Plan<K>,
}

/// The most rows of a matrix.
const MOST_ROWS: usize = 1 << 18;

/// The launches that execute `op`, which was validated.
///
/// `None` for matrices that only a broadcast could be: they would take launches without end.
pub(crate) fn linalg<K: From<Linalg>>(op: &Op, limits: &Limits) -> Option<Plan<K>> {
    let (shape, dtype) = match op {
        Op::Lu { src, .. } | Op::Cholesky { src, .. } | Op::Inverse { src, .. } => {
            (src.shape(), src.dtype())
        }
        Op::LuSolve { dst, .. } | Op::Triangular { dst, .. } => (dst.shape(), dst.dtype()),
    };
    if shape.contains(&0) {
        return Some(Plan::default());
    }
    let [batch @ .., rows, columns] = shape else {
        unreachable!("validated matrices have two dimensions");
    };
    let (rows, columns) = (*rows, *columns);
    if rows > MOST_ROWS {
        return None;
    }
    let mut launches = Launches {
        batch,
        dtype,
        limits,
        plan: Plan::default(),
    };
    match op {
        Op::Lu {
            src,
            factors,
            pivots,
        } => launches.lu(
            Matrix::of(factors),
            Matrix::of(src),
            Matrix::of_pivots(pivots),
            [rows, columns],
        ),
        Op::LuSolve {
            factors,
            pivots,
            rhs,
            dst,
        } => {
            let x = Matrix::of(dst);
            let others = [Some(Matrix::of(rhs)), Some(Matrix::of_pivots(pivots))];
            launches.prepare(Content::Permuted, x, others, [rows, columns]);
            launches.solve_both(x, Matrix::of(factors), [rows, columns]);
        }
        Op::Triangular {
            src,
            rhs,
            dst,
            upper,
            unit,
        } => {
            let x = Matrix::of(dst);
            launches.prepare(
                Content::Whole,
                x,
                [Some(Matrix::of(rhs)), None],
                [rows, columns],
            );
            launches.solve(x, Matrix::of(src), [rows, columns], *upper, *unit);
        }
        Op::Cholesky { src, dst } => launches.cholesky(Matrix::of(dst), Matrix::of(src), rows),
        Op::Inverse { src, dst } => {
            let matrices: usize = batch.iter().product();
            let bytes = rows * rows * dtype.size() * matrices;
            let pivots_at = bytes.next_multiple_of(256);
            let factors = Matrix::scratch(0, batch, rows * rows, rows);
            let pivots = Matrix::scratch(pivots_at, batch, rows, 1);
            launches.plan.scratch = pivots_at + rows * matrices * size_of::<i32>();
            launches.lu(factors, Matrix::of(src), pivots, [rows, rows]);
            let x = Matrix::of(dst);
            launches.prepare(Content::PermutedUnit, x, [None, Some(pivots)], [rows, rows]);
            launches.solve_both(x, factors, [rows, rows]);
        }
    }
    Some(launches.plan)
}

impl<K: From<Linalg>> Launches<'_, K> {
    fn lu(&mut self, x: Matrix, y: Matrix, pivots: Matrix, [rows, columns]: [usize; 2]) {
        if let Some(capacity) = self.capacity(rows * columns) {
            let sizes = Sizes {
                rows,
                columns,
                ..Sizes::default()
            };
            return self.launch(
                Step::WholeLu { capacity },
                [Some(x), Some(y), Some(pivots)],
                sizes,
                1,
            );
        }
        self.prepare(Content::Whole, x, [Some(y), None], [rows, columns]);
        let steps = rows.min(columns);
        for first in (0..steps).step_by(SIDE) {
            let width = SIDE.min(steps - first);
            let next = first + width;
            let panel = Sizes {
                rows: rows - first,
                columns: width,
                first,
                ..Sizes::default()
            };
            let pivots = pivots.from(first, 0);
            self.launch(
                Step::Panel,
                [Some(x.from(first, first)), None, Some(pivots)],
                panel,
                1,
            );
            let beside = Sizes {
                columns: columns - width,
                inner: width,
                first,
                left: first,
                skipped: width,
                ..Sizes::default()
            };
            let solve = Step::Solve {
                upper: false,
                unit: true,
                exchange: true,
            };
            self.solve_columns(
                solve,
                [Some(x), Some(x.from(first, first)), Some(pivots)],
                beside,
            );
            self.update(
                false,
                [x.from(next, next), x.from(next, first), x.from(first, next)],
                [rows - next, columns - next, width],
            );
        }
    }

    fn cholesky(&mut self, x: Matrix, y: Matrix, size: usize) {
        let sizes = |rows| Sizes {
            rows,
            ..Sizes::default()
        };
        if let Some(capacity) = self.capacity(size * size) {
            return self.launch(
                Step::Cholesky { capacity },
                [Some(x), Some(y), None],
                sizes(size),
                1,
            );
        }
        self.prepare(Content::Lower, x, [Some(y), None], [size, size]);
        let block = Step::Cholesky {
            capacity: (SIDE * SIDE) as u32,
        };
        for first in (0..size).step_by(SIDE) {
            let width = SIDE.min(size - first);
            let next = first + width;
            let (diagonal, below) = (x.from(first, first), x.from(next, first));
            self.launch(
                block,
                [Some(diagonal), Some(diagonal), None],
                sizes(width),
                1,
            );
            let beside = Sizes {
                columns: size - next,
                inner: width,
                ..Sizes::default()
            };
            let solve = Step::Solve {
                upper: false,
                unit: false,
                exchange: false,
            };
            self.solve_columns(
                solve,
                [Some(below.transposed()), Some(diagonal), None],
                beside,
            );
            self.update(
                true,
                [x.from(next, next), below, below.transposed()],
                [size - next, size - next, width],
            );
        }
    }

    /// `x = u⁻¹ l⁻¹ x`.
    fn solve_both(&mut self, x: Matrix, factors: Matrix, shape: [usize; 2]) {
        self.solve(x, factors, shape, false, true);
        self.solve(x, factors, shape, true, false);
    }

    /// `x = t⁻¹ x`, block by block.
    fn solve(
        &mut self,
        x: Matrix,
        t: Matrix,
        [rows, columns]: [usize; 2],
        upper: bool,
        unit: bool,
    ) {
        let blocks = rows.div_ceil(SIDE);
        for number in 0..blocks {
            let number = if upper { blocks - 1 - number } else { number };
            let first = number * SIDE;
            let next = (first + SIDE).min(rows);
            let step = Step::Solve {
                upper,
                unit,
                exchange: false,
            };
            let sizes = Sizes {
                columns,
                inner: next - first,
                first,
                ..Sizes::default()
            };
            self.solve_columns(step, [Some(x), Some(t.from(first, first)), None], sizes);
            let (rest, left) = match upper {
                true => (0, first),
                false => (next, rows - next),
            };
            self.update(
                false,
                [x.from(rest, 0), t.from(rest, first), x.from(first, 0)],
                [left, columns, next - first],
            );
        }
    }

    fn prepare(
        &mut self,
        content: Content,
        x: Matrix,
        others: [Option<Matrix>; 2],
        shape: [usize; 2],
    ) {
        let [rows, columns] = shape;
        let sizes = Sizes {
            rows,
            columns,
            inner: rows,
            ..Sizes::default()
        };
        let [y, z] = others;
        self.launch(
            Step::Prepare(content),
            [Some(x), y, z],
            sizes,
            rows.div_ceil(ROWS),
        );
    }

    fn solve_columns(&mut self, step: Step, matrices: [Option<Matrix>; 3], sizes: Sizes) {
        let groups = sizes.columns.div_ceil(step.threads() as usize);
        self.launch(step, matrices, sizes, groups);
    }

    fn update(&mut self, lower: bool, matrices: [Matrix; 3], [rows, columns, inner]: [usize; 3]) {
        let tiles = columns.div_ceil(TILE);
        let sizes = Sizes {
            rows,
            columns,
            inner,
            tiles,
            ..Sizes::default()
        };
        self.launch(
            Step::Update { lower },
            matrices.map(Some),
            sizes,
            rows.div_ceil(TILE) * tiles,
        );
    }

    /// Elements of shared memory that hold so many; `None` if there is not enough.
    fn capacity(&self, elements: usize) -> Option<u32> {
        let size = self.dtype.size();
        // Beside the matrix, threads exchange what they find in a column.
        let most = (self.limits.shared_bytes as usize).saturating_sub(1 << 10);
        [8 << 10, 24 << 10, 44 << 10]
            .into_iter()
            .filter(|&bytes| bytes <= most)
            .map(|bytes| bytes / size)
            .find(|&capacity| elements <= capacity)
            .map(|capacity| capacity as u32)
    }

    /// Appends a launch of so many groups for each matrix; of none if there is nothing to do.
    fn launch(&mut self, step: Step, matrices: [Option<Matrix>; 3], sizes: Sizes, groups: usize) {
        if groups == 0 {
            return;
        }
        debug_assert_eq!(step.has(), [matrices[1].is_some(), matrices[2].is_some()]);
        let lead = self.batch.len();
        let none = [0; MAX_RANK];
        let strides = [0, 1, 2].map(|index: usize| match &matrices[index] {
            Some(matrix) => &matrix.batch[..lead],
            None => &none[..lead],
        });
        let dims = Numbered::new(self.batch, strides);
        let count = dims.elements();
        let kernel = Linalg {
            step,
            dtype: self.dtype,
            batch_rank: dims.rank(),
        };
        let mut params = Params::new();
        for matrix in &matrices {
            let [at, row, column] =
                matrix.map_or([0; 3], |matrix| [matrix.at, matrix.row, matrix.column]);
            params = params.i64(at).i64(row).i64(column);
        }
        params = dims.params(params);
        for size in [
            sizes.rows,
            sizes.columns,
            sizes.inner,
            sizes.first,
            sizes.left,
            sizes.skipped,
            sizes.tiles,
            count,
        ] {
            params = params.i64(size as i64);
        }
        let operands: SmallVec<[Operand; 4]> = matrices
            .iter()
            .flatten()
            .map(|matrix| matrix.operand)
            .collect();
        self.plan.push(Dispatch {
            kernel: kernel.into(),
            groups: grid([groups, count.min(MATRICES_Y), count.div_ceil(MATRICES_Y)]),
            threads: step.threads(),
            operands,
            params,
        });
    }
}
