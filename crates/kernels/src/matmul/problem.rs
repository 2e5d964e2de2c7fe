//! A product as the kernels see it: sizes and strides, without dimensions that make no difference.

use smallvec::SmallVec;
use streampool_device::{MAX_RANK, MatMul, View};

use crate::dispatch::{Operand, Params, operands_of};

/// How one operand is walked, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Walk {
    /// Where its first element lies.
    pub at: i64,
    /// From one row to the next.
    pub row: i64,
    /// From one column to the next.
    pub column: i64,
}

/// Batched matrices along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Batch {
    pub size: usize,
    pub a: i64,
    pub b: i64,
    pub out: i64,
    pub bias: i64,
}

/// The most dimensions of matrices.
pub(super) const MAX_BATCH: usize = MAX_RANK - 2;

/// The most terms of a sum that kernels count in 32 bits.
pub(super) const LONGEST: usize = 1 << 30;

/// `out[m, n] = a[m, k] @ b[k, n]` for each matrix of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Problem {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Walk,
    pub b: Walk,
    pub out: Walk,
    /// All zero without a bias.
    pub bias: Walk,
    batch: [Batch; MAX_BATCH],
    batch_rank: usize,
    /// Whether `a` is the op's `b`.
    pub swapped: bool,
}

impl Problem {
    /// `None` if there is nothing to compute.
    pub fn of(op: &MatMul) -> Option<Problem> {
        let shape = op.out.shape();
        if shape.contains(&0) {
            return None;
        }
        let lead = shape.len() - 2;
        let (m, n) = (shape[lead], shape[lead + 1]);
        let k = *op.a.shape().last()?;
        let walk = |view: &View| Walk {
            at: view.layout().offset() as i64,
            row: stride(view, lead, lead + 2),
            column: stride(view, lead + 1, lead + 2),
        };
        let bias = op.bias.as_ref().map(walk).unwrap_or_default();
        let [a, b, out] = [&op.a, &op.b, &op.out].map(walk);
        let mut problem = Problem::of_matrix([m, n, k], a, b, out, bias);
        for (axis, &size) in shape[..lead].iter().enumerate() {
            if size > 1 {
                problem.append(Batch {
                    size,
                    a: stride(&op.a, axis, lead + 2),
                    b: stride(&op.b, axis, lead + 2),
                    out: stride(&op.out, axis, lead + 2),
                    bias: op
                        .bias
                        .as_ref()
                        .map_or(0, |bias| stride(bias, axis, lead + 2)),
                });
            }
        }
        problem.fold_matrices_into_rows();
        Some(problem)
    }

    /// One matrix of these sizes: rows, columns, and terms.
    pub fn of_matrix([m, n, k]: [usize; 3], a: Walk, b: Walk, out: Walk, bias: Walk) -> Problem {
        Problem {
            m,
            n,
            k,
            a,
            b,
            out,
            bias,
            batch: Default::default(),
            batch_rank: 0,
            swapped: false,
        }
    }

    /// Appends a batch dimension, as one with the last if both are walked in one stride.
    pub fn append(&mut self, next: Batch) {
        let continues =
            |last: i64, next_stride: i64| next_stride.checked_mul(next.size as i64) == Some(last);
        if let Some(last) = self.batch[..self.batch_rank].last_mut()
            && continues(last.a, next.a)
            && continues(last.b, next.b)
            && continues(last.out, next.out)
            && continues(last.bias, next.bias)
        {
            *last = Batch {
                size: last.size * next.size,
                ..next
            };
        } else {
            self.batch[self.batch_rank] = next;
            self.batch_rank += 1;
        }
    }

    /// Matrices that share `b` and lie one below the other are one matrix.
    fn fold_matrices_into_rows(&mut self) {
        while let Some(&last) = self.batch().last() {
            let rows = self.m as i64;
            let follows =
                |walk: Walk, batch: i64| rows == 1 || walk.row.checked_mul(rows) == Some(batch);
            let folds = last.b == 0
                && follows(self.a, last.a)
                && follows(self.out, last.out)
                && follows(self.bias, last.bias);
            if !folds {
                return;
            }
            if rows == 1 {
                self.a.row = last.a;
                self.out.row = last.out;
                self.bias.row = last.bias;
            }
            self.m *= last.size;
            self.batch_rank -= 1;
        }
    }

    /// The dimensions of matrices, the outermost first.
    pub fn batch(&self) -> &[Batch] {
        &self.batch[..self.batch_rank]
    }

    /// How many matrices there are.
    pub fn matrices(&self) -> usize {
        self.batch().iter().map(|batch| batch.size).product()
    }

    /// How many tiles of so many rows and columns a matrix has, and how many lie beside each other.
    pub fn tiles(&self, [rows, columns]: [u8; 2]) -> [usize; 2] {
        let across = self.n.div_ceil(columns.into());
        let down = self.m.div_ceil(rows.into());
        [down.saturating_mul(across), across]
    }

    /// How many all matrices have.
    pub fn all_tiles(&self, sides: [u8; 2]) -> usize {
        self.tiles(sides)[0].saturating_mul(self.matrices())
    }

    /// The same by `outᵀ = bᵀ @ aᵀ`.
    pub fn transposed(&self) -> Problem {
        let turned = |walk: Walk| Walk {
            row: walk.column,
            column: walk.row,
            ..walk
        };
        let mut batch = self.batch;
        for batch in &mut batch {
            std::mem::swap(&mut batch.a, &mut batch.b);
        }
        Problem {
            m: self.n,
            n: self.m,
            a: turned(self.b),
            b: turned(self.a),
            out: turned(self.out),
            bias: turned(self.bias),
            batch,
            swapped: !self.swapped,
            ..*self
        }
    }

    /// The same, or its [transpose](Problem::transposed): that whose result is denser along columns, which
    /// neighbouring threads write along.
    pub fn written_along_columns(&self) -> Problem {
        match self.out.row.unsigned_abs() < self.out.column.unsigned_abs() && self.m > 1 {
            true => self.transposed(),
            false => *self,
        }
    }

    /// Whether neighbouring threads read `a`, and whether they read `b`, along the inner dimension.
    pub fn read_along_k(&self) -> [bool; 2] {
        [
            nearer((self.a.column, self.k), (self.a.row, self.m)),
            nearer((self.b.row, self.k), (self.b.column, self.n)),
        ]
    }

    /// What `plan` makes of this, or of its [transpose](Problem::transposed).
    pub fn either_way<T>(&self, plan: impl Fn(&Problem) -> Option<T>) -> Option<T> {
        plan(self).or_else(|| plan(&self.transposed()))
    }

    /// Whether `b` is dense along the inner dimension; else it is along its rows. `None` unless `a` is dense along the inner
    /// dimension and both are moved 16 bytes at once.
    pub fn in_packs(&self, op: &MatMul) -> Option<bool> {
        const BYTES: usize = 16;
        let [a, b] = self.factors(op);
        let width = (BYTES / a.dtype().size()) as i64;
        let moved = |view: &View, walk: Walk, (along, across): (i64, i64), length: usize| {
            along == 1
                && across >= 0
                && (across | walk.at | length as i64) % width == 0
                && view.span().offset.is_multiple_of(BYTES)
        };
        let batches = self.batch().iter();
        let whole = batches.fold(0, |all, batch| all | batch.a | batch.b) % width == 0;
        if !whole || !moved(a, self.a, (self.a.column, self.a.row), self.k) {
            return None;
        }
        let b_along_k = moved(b, self.b, (self.b.row, self.b.column), self.k);
        (b_along_k || moved(b, self.b, (self.b.column, self.b.row), self.n)).then_some(b_along_k)
    }

    /// The views of `op` that are this problem's `a` and `b`.
    pub fn factors<'a>(&self, op: &'a MatMul) -> [&'a View; 2] {
        match self.swapped {
            false => [&op.a, &op.b],
            true => [&op.b, &op.a],
        }
    }

    /// The kernel's buffers: `a`, `b`, `bias` if there is one, `out`.
    pub fn operands(&self, op: &MatMul) -> SmallVec<[Operand; 4]> {
        operands_of(self.factors(op), op.bias.as_ref(), &op.out)
    }

    /// Whether two neighbours of a row of 16 bits may be written to `out` at once.
    pub fn is_written_in_pairs(&self, out: &View) -> bool {
        let batches = self.batch().iter();
        let strides = batches.fold(self.out.row | self.out.at, |all, batch| all | batch.out);
        self.out.column == 1
            && (strides | self.n as i64) % 2 == 0
            && out.span().offset.is_multiple_of(4)
    }
}

/// Whether the first of two dimensions, each a stride and a size, is the one to read along.
fn nearer((stride, size): (i64, usize), (other_stride, other_size): (i64, usize)) -> bool {
    size > 1 && (other_size == 1 || stride.unsigned_abs() <= other_stride.unsigned_abs())
}

/// The stride of `view` along an axis of the product, which has `rank` axes; zero where it repeats.
fn stride(view: &View, axis: usize, rank: usize) -> i64 {
    let layout = view.layout();
    match (axis + layout.rank()).checked_sub(rank) {
        Some(axis) if layout.shape()[axis] != 1 => layout.strides()[axis] as i64,
        _ => 0,
    }
}

impl Walk {
    /// Appends what [`walk_fields`](super::shared_text::walk_fields) names.
    pub fn append_to(self, params: Params) -> Params {
        params.i64(self.at).i64(self.row).i64(self.column)
    }
}
