//! A product as the library sees it: column-major matrices and at most one dimension of batches.
//!
//! The library's results are column-major. A row-major result is the column-major result of the transposed
//! product, `outᵀ = bᵀ @ aᵀ`: then the library's first factor is the op's second, and rows are columns.

use smallvec::SmallVec;
use streampool_device::{MAX_RANK, MatMul, View};

/// How one matrix lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Matrix {
    /// Elements from the start of one stored column to the next.
    pub lead: i64,
    /// Elements from one matrix of the batch to the next.
    pub batch: i64,
    /// Whether what is stored is the transpose of what is multiplied.
    pub turned: bool,
}

/// Everything about a product that is neither a type nor an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Problem {
    /// Rows of the library's result.
    pub m: usize,
    /// Columns of the library's result.
    pub n: usize,
    pub k: usize,
    pub batch: i32,
    pub a: Matrix,
    pub b: Matrix,
    pub out: Matrix,
    /// Whether the library's first factor is the op's second.
    pub swapped: bool,
}

/// How one operand is walked, in elements; steps along dimensions of one element are zero.
#[derive(Debug, Clone, Copy)]
struct Walk {
    row: i64,
    column: i64,
}

/// Matrices along one dimension.
#[derive(Debug, Clone, Copy)]
struct Batch {
    size: usize,
    a: i64,
    b: i64,
    out: i64,
}

impl Problem {
    /// The problem of a validated op; `None` if the library cannot take it, or there is nothing to sum up.
    pub fn of(op: &MatMul) -> Option<Problem> {
        let shape = op.out.shape();
        let (rank, k) = (shape.len(), *op.a.shape().last()?);
        if k == 0 || shape.contains(&0) {
            return None;
        }
        let (mut m, n) = (shape[rank - 2], shape[rank - 1]);
        let walk = |view: &View| Walk {
            row: step(view, rank - 2, rank),
            column: step(view, rank - 1, rank),
        };
        let (mut a, b, mut out) = (walk(&op.a), walk(&op.b), walk(&op.out));
        let mut batches = batches(op);
        // Matrices that share `b` and lie one below the other are one matrix.
        while let Some(&last) = batches.last() {
            let follows = |walk: Walk, batch: i64| m == 1 || batch == walk.row * m as i64;
            if last.b != 0 || !follows(a, last.a) || !follows(out, last.out) {
                break;
            }
            if m == 1 {
                (a.row, out.row) = (last.a, last.out);
            }
            m *= last.size;
            batches.pop();
        }
        let batch = match batches[..] {
            [] => Batch {
                size: 1,
                a: 0,
                b: 0,
                out: 0,
            },
            [only] => only,
            _ => return None,
        };
        let row_major = || {
            Some(Problem {
                m: n,
                n: m,
                k,
                batch: i32::try_from(batch.size).ok()?,
                a: factor(n, k, b.turned(), batch.b)?,
                b: factor(k, m, a.turned(), batch.a)?,
                out: upright(n, m, out.turned(), batch.out)?,
                swapped: true,
            })
        };
        let column_major = || {
            Some(Problem {
                m,
                n,
                k,
                batch: i32::try_from(batch.size).ok()?,
                a: factor(m, k, a, batch.a)?,
                b: factor(k, n, b, batch.b)?,
                out: upright(m, n, out, batch.out)?,
                swapped: false,
            })
        };
        row_major()
            .or_else(column_major)
            .filter(Problem::is_counted)
    }

    /// Whether all of its sizes are numbers of 32 bits, as some of the library's algorithms count them.
    fn is_counted(&self) -> bool {
        let leads = [self.a, self.b, self.out].map(|matrix| matrix.lead);
        let sizes = [self.m, self.n, self.k].map(|size| i32::try_from(size).is_ok());
        !sizes.contains(&false) && leads.into_iter().all(|lead| i32::try_from(lead).is_ok())
    }

    /// Whether the bias of this op is one dense vector along the rows of the library's result.
    pub fn takes_bias(&self, op: &MatMul, bias: &View) -> bool {
        let shape = op.out.shape();
        let along = shape.len() - if self.swapped { 1 } else { 2 };
        let fits = |axis: usize| {
            let wanted = i64::from(axis == along && shape[axis] != 1);
            step(bias, axis, shape.len()) == wanted
        };
        shape[along] == self.m && (0..shape.len()).all(fits)
    }

    /// The op's factors in the library's order.
    pub fn factors<'a>(&self, op: &'a MatMul) -> [&'a View; 2] {
        match self.swapped {
            true => [&op.b, &op.a],
            false => [&op.a, &op.b],
        }
    }
}

impl Walk {
    fn turned(self) -> Walk {
        Walk {
            row: self.column,
            column: self.row,
        }
    }
}

/// The dimensions of matrices, without those of one and with those joined that are walked in one step.
fn batches(op: &MatMul) -> SmallVec<[Batch; MAX_RANK]> {
    let shape = op.out.shape();
    let mut batches: SmallVec<[Batch; MAX_RANK]> = SmallVec::new();
    for (axis, &size) in shape[..shape.len() - 2].iter().enumerate() {
        if size == 1 {
            continue;
        }
        let next = Batch {
            size,
            a: step(&op.a, axis, shape.len()),
            b: step(&op.b, axis, shape.len()),
            out: step(&op.out, axis, shape.len()),
        };
        match batches.last_mut() {
            Some(last) if last.is_walked_with(next) => {
                let size = last.size * size;
                *last = Batch { size, ..next };
            }
            _ => batches.push(next),
        }
    }
    batches
}

impl Batch {
    fn is_walked_with(self, inner: Batch) -> bool {
        let size = inner.size as i64;
        self.a == inner.a * size && self.b == inner.b * size && self.out == inner.out * size
    }
}

/// The step of `view` along an axis of the result, which has `rank` axes; zero where it repeats.
fn step(view: &View, axis: usize, rank: usize) -> i64 {
    let layout = view.layout();
    match (axis + layout.rank()).checked_sub(rank) {
        Some(axis) if layout.shape()[axis] != 1 => layout.strides()[axis] as i64,
        _ => 0,
    }
}

/// A matrix that is multiplied; it may be stored transposed.
fn factor(rows: usize, columns: usize, walk: Walk, batch: i64) -> Option<Matrix> {
    let straight = || upright(rows, columns, walk, batch);
    let turned = || {
        let stored = upright(columns, rows, walk.turned(), batch)?;
        Some(Matrix {
            turned: true,
            ..stored
        })
    };
    match rows {
        // One row is dense as a stored column, if at all: stored columns of one element are read slowly.
        1 => turned().or_else(straight),
        _ => straight().or_else(turned),
    }
}

/// A matrix whose columns are dense, do not overlap and follow each other.
fn upright(rows: usize, columns: usize, walk: Walk, batch: i64) -> Option<Matrix> {
    let lead = if columns == 1 {
        rows as i64
    } else {
        walk.column
    };
    let fits = (rows == 1 || walk.row == 1) && lead >= rows as i64 && batch >= 0;
    fits.then_some(Matrix {
        lead,
        batch,
        turned: false,
    })
}

#[cfg(test)]
mod tests {
    use streampool_device::{Activation, DType, Layout, Span};

    use super::*;

    fn view(layout: Layout) -> View {
        let span = Span {
            handle: 1 << 20,
            offset: 0,
            bytes: 1 << 30,
        };
        View::new(span, DType::F32, layout).unwrap()
    }

    fn dense(shape: &[usize]) -> Layout {
        Layout::contiguous(shape).unwrap()
    }

    fn strided(shape: &[usize], strides: &[isize]) -> Layout {
        Layout::strided(shape, strides, 0).unwrap()
    }

    fn product(a: Layout, b: Layout, out: Layout) -> MatMul {
        MatMul {
            a: view(a),
            b: view(b),
            out: view(out),
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }
    }

    fn problem(a: Layout, b: Layout, out: Layout) -> Option<Problem> {
        Problem::of(&product(a, b, out))
    }

    fn matrix(lead: i64, batch: i64, turned: bool) -> Matrix {
        Matrix {
            lead,
            batch,
            turned,
        }
    }

    #[test]
    fn a_row_major_product_is_the_transposed_one() {
        let found = problem(dense(&[5, 7]), dense(&[7, 9]), dense(&[5, 9]));
        let expected = Problem {
            m: 9,
            n: 5,
            k: 7,
            batch: 1,
            a: matrix(9, 0, false),
            b: matrix(7, 0, false),
            out: matrix(9, 0, false),
            swapped: true,
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn sizes_have_32_bits() {
        let far = 1 << 31;
        let whole = |a: Layout, b: Layout, out: Layout| {
            let view = |layout| {
                let span = Span {
                    handle: 1 << 20,
                    offset: 0,
                    bytes: 1 << 40,
                };
                View::new(span, DType::F32, layout).unwrap()
            };
            let op = MatMul {
                a: view(a),
                b: view(b),
                out: view(out),
                ..product(dense(&[1, 1]), dense(&[1, 1]), dense(&[1, 1]))
            };
            Problem::of(&op).is_some()
        };
        for (size, taken) in [(far - 1, true), (far, false)] {
            assert_eq!(
                whole(dense(&[size, 1]), dense(&[1, 3]), dense(&[size, 3])),
                taken
            );
            assert_eq!(
                whole(dense(&[2, size]), dense(&[size, 2]), dense(&[2, 2])),
                taken
            );
            let apart = strided(&[2, 3], &[size as isize, 1]);
            assert_eq!(whole(apart, dense(&[3, 2]), dense(&[2, 2])), taken);
        }
    }

    #[test]
    fn transposed_factors_are_turned() {
        let a = dense(&[7, 5]).permute(&[1, 0]).unwrap();
        let b = dense(&[9, 7]).permute(&[1, 0]).unwrap();
        let found = problem(a, b, dense(&[5, 9])).unwrap();
        assert_eq!(found.a, matrix(7, 0, true));
        assert_eq!(found.b, matrix(5, 0, true));
    }

    #[test]
    fn a_transposed_result_is_not_swapped() {
        let out = dense(&[9, 5]).permute(&[1, 0]).unwrap();
        let found = problem(dense(&[5, 7]), dense(&[7, 9]), out).unwrap();
        assert!(!found.swapped);
        assert_eq!((found.m, found.n, found.k), (5, 9, 7));
        assert_eq!(found.a, matrix(7, 0, true));
        assert_eq!(found.b, matrix(9, 0, true));
        assert_eq!(found.out, matrix(5, 0, false));
    }

    #[test]
    fn rows_may_be_apart() {
        let found = problem(
            strided(&[5, 7], &[10, 1]),
            strided(&[7, 9], &[12, 1]),
            strided(&[5, 9], &[16, 1]),
        );
        let found = found.unwrap();
        assert_eq!(
            (found.a.lead, found.b.lead, found.out.lead),
            (12, 10, 16),
            "the first factor is the op's second"
        );
    }

    #[test]
    fn batches_that_share_the_second_factor_are_rows() {
        let found = problem(dense(&[2, 3, 5, 7]), dense(&[7, 9]), dense(&[2, 3, 5, 9])).unwrap();
        assert_eq!((found.m, found.n, found.k, found.batch), (9, 30, 7, 1));
        // One row in each matrix, any distance apart.
        let found = problem(
            strided(&[6, 1, 7], &[20, 99, 1]),
            dense(&[1, 7, 9]),
            dense(&[6, 1, 9]),
        );
        let found = found.unwrap();
        assert_eq!((found.n, found.b.lead, found.batch), (6, 20, 1));
        // Rows that do not follow each other stay batches, and the second factor repeats.
        let found = problem(
            strided(&[3, 5, 7], &[100, 7, 1]),
            dense(&[7, 9]),
            dense(&[3, 5, 9]),
        );
        let found = found.unwrap();
        assert_eq!((found.n, found.batch), (5, 3));
        assert_eq!(
            (found.a.batch, found.b.batch, found.out.batch),
            (0, 100, 45)
        );
    }

    #[test]
    fn batches_are_joined_into_one_dimension_or_refused() {
        let found = problem(
            dense(&[2, 3, 5, 7]),
            dense(&[2, 3, 7, 9]),
            dense(&[2, 3, 5, 9]),
        );
        let found = found.unwrap();
        assert_eq!((found.batch, found.a.batch, found.b.batch), (6, 63, 35));
        // The one repeats along the first, the other along the second.
        let refused = problem(
            dense(&[2, 1, 5, 7]),
            dense(&[1, 3, 7, 9]),
            dense(&[2, 3, 5, 9]),
        );
        assert_eq!(refused, None);
        // Heads between the rows: one dimension of batches, with interleaved matrices.
        let heads = dense(&[5, 4, 7]).permute(&[1, 0, 2]).unwrap();
        let found = problem(heads, dense(&[4, 7, 9]), dense(&[4, 5, 9])).unwrap();
        assert_eq!((found.b.lead, found.b.batch, found.batch), (28, 7, 4));
    }

    #[test]
    fn what_is_not_dense_along_either_axis_is_refused() {
        let (b, out) = (dense(&[7, 9]), dense(&[5, 9]));
        for a in [
            strided(&[5, 7], &[14, 2]),
            strided(&[5, 7], &[0, 1]),
            strided(&[5, 7], &[3, 1]),
            Layout::strided(&[5, 7], &[-7, 1], 28).unwrap(),
            Layout::strided(&[5, 7], &[7, -1], 6).unwrap(),
        ] {
            assert_eq!(problem(a, b, out), None, "{a}");
        }
        let spread = strided(&[5, 9], &[18, 2]);
        assert_eq!(problem(dense(&[5, 7]), b, spread), None);
        let reversed = Layout::strided(&[2, 5, 7], &[-35, 7, 1], 35).unwrap();
        assert_eq!(problem(reversed, b, dense(&[2, 5, 9])), None);
    }

    #[test]
    fn nothing_to_compute_is_refused() {
        for [m, k, n] in [[0, 7, 9], [5, 0, 9], [5, 7, 0]] {
            assert_eq!(
                problem(dense(&[m, k]), dense(&[k, n]), dense(&[m, n])),
                None
            );
        }
    }

    #[test]
    fn vectors_have_the_lead_that_is_there() {
        let found = problem(dense(&[1, 7]), dense(&[7, 1]), dense(&[1, 1])).unwrap();
        assert_eq!((found.m, found.n), (1, 1));
        assert!(
            [found.a, found.b, found.out]
                .iter()
                .all(|side| side.lead >= 1)
        );
        // A column of a wider matrix, which is read with its rows as stored columns.
        let found = problem(dense(&[5, 7]), strided(&[7, 1], &[3, 1]), dense(&[5, 1])).unwrap();
        assert_eq!(found.a, matrix(3, 0, false));
    }

    #[test]
    fn a_bias_fits_along_the_rows_of_the_result() {
        let op = product(dense(&[2, 5, 7]), dense(&[7, 9]), dense(&[2, 5, 9]));
        let found = Problem::of(&op).unwrap();
        let fits = |layout| found.takes_bias(&op, &view(layout));
        assert!(fits(dense(&[9])));
        assert!(fits(dense(&[1, 1, 9])));
        assert!(!fits(dense(&[1])), "one number for all");
        assert!(!fits(strided(&[9], &[2])));
        assert!(!fits(dense(&[5, 1])));
        assert!(!fits(dense(&[2, 1, 9])), "another for each matrix");
        assert!(fits(strided(&[2, 5, 9], &[0, 0, 1])), "repeated on purpose");
    }

    #[test]
    fn a_bias_of_a_transposed_result_goes_with_its_rows() {
        let out = dense(&[9, 5]).permute(&[1, 0]).unwrap();
        let op = product(dense(&[5, 7]), dense(&[7, 9]), out);
        let found = Problem::of(&op).unwrap();
        assert!(found.takes_bias(&op, &view(dense(&[5, 1]))));
        assert!(!found.takes_bias(&op, &view(dense(&[9]))));
        // Folded into rows, the bias would have to repeat along them.
        let out = strided(&[2, 5, 9], &[5, 1, 10]);
        let op = product(dense(&[2, 5, 7]), dense(&[7, 9]), out);
        let found = Problem::of(&op).unwrap();
        assert_eq!((found.m, found.swapped), (10, false));
        assert!(!found.takes_bias(&op, &view(dense(&[5, 1]))));
    }
}
