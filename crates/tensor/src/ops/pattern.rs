//! Elements by where they stand: triangles, diagonals, one-hot vectors.

use std::sync::Arc;

use streampool_device::{Binary, Compare, DType, Dims, Expr, Layout, MAX_RANK, Op};

use super::formula::{Takes, launch, wide};
use crate::{Error, Result, Tensor, axis};

impl Tensor {
    /// The upper triangle of the last two axes: zeros below the `diagonal`-th diagonal, which is above the main one if
    /// positive.
    pub fn triu(&self, diagonal: i64) -> Result<Tensor> {
        self.triangle("triu", Compare::Ge, diagonal)
    }

    /// The lower triangle of the last two axes: zeros above the `diagonal`-th diagonal.
    pub fn tril(&self, diagonal: i64) -> Result<Tensor> {
        self.triangle("tril", Compare::Le, diagonal)
    }

    /// What stands where column less row compares so with `diagonal`.
    fn triangle(&self, op: &'static str, keeps: Compare, diagonal: i64) -> Result<Tensor> {
        let on = self.encoder(op)?;
        let [.., rows, columns] = *self.shape() else {
            return Err(Error::shape(op, "self", self.shape(), "at least two axes"));
        };
        let numbers = |count: usize| Tensor::arange(self.pool(), 0, count as i64, 1, DType::I64);
        let (row, column) = (numbers(rows)?.view(&[rows, 1])?, numbers(columns)?);
        let mut expr = Expr::builder();
        let (x, i, j) = (
            expr.input(self.dtype())?,
            expr.input(DType::I64)?,
            expr.input(DType::I64)?,
        );
        let distance = expr.binary(Binary::Sub, j, i)?;
        let limit = expr.constant(diagonal, DType::I64)?;
        let kept = expr.compare(keeps, distance, limit)?;
        let zero = expr.constant(0, self.dtype())?;
        let result = expr.select(kept, x, zero)?;
        let inputs = vec![self.operand()?, row.operand()?, column.operand()?];
        launch(on, Arc::new(expr.finish(&[result])?), inputs, self.shape())
    }

    /// Of a matrix, what stands on its `offset`-th diagonal, which is above the main one if positive, as a view; of a
    /// vector, the smallest matrix with it there and zeros elsewhere.
    pub fn diag(&self, offset: isize) -> Result<Tensor> {
        let op = "diag";
        match *self.shape() {
            [size] => {
                let on = self.encoder(op)?;
                let side = size.saturating_add(offset.unsigned_abs());
                let mut matrix = on.blank(self.dtype(), &[side, side])?;
                on.encode(Op::Fill {
                    dst: matrix.operand()?,
                    value: 0.into(),
                })?;
                if size > 0 {
                    let place = on_diagonal(matrix.layout(), offset)?;
                    on.encode(Op::Copy {
                        src: self.operand()?,
                        dst: matrix.operand_as(place)?,
                    })?;
                }
                Ok(matrix.finish())
            }
            [_, _] => Ok(self.with_layout(on_diagonal(self.layout(), offset)?)),
            _ => Err(Error::shape(op, "self", self.shape(), "one or two axes")),
        }
    }

    /// For each index a vector of `classes` elements, which is a new axis `axis` of the result: one where the index says,
    /// else zero. A negative index counts from the end; one outside gives zeros.
    pub fn one_hot(&self, classes: usize, axis: isize, dtype: DType) -> Result<Tensor> {
        let on = self.encoder("one_hot")?;
        Takes::Integer.check(on.op(), "self", self.dtype())?;
        let place = axis::insertion(on.op(), "axis", axis, self.rank())?;
        if self.rank() == MAX_RANK {
            let expected = format!("fewer than {MAX_RANK} axes");
            return Err(Error::shape(on.op(), "self", self.shape(), expected));
        }
        let indices = self.unsqueeze(place as isize)?;
        let mut shape = Dims::new(indices.shape())?;
        shape[place] = classes;
        let mut along = vec![1; indices.rank()];
        along[place] = classes;
        let class = Tensor::arange(self.pool(), 0, classes as i64, 1, DType::I64)?.view(&along)?;

        let mut expr = Expr::builder();
        let (index, class_number) = (expr.input(self.dtype())?, expr.input(DType::I64)?);
        let index = expr.cast(index, DType::I64)?;
        let (zero, count) = (
            expr.constant(0, DType::I64)?,
            expr.constant(classes as i64, DType::I64)?,
        );
        let negative = expr.compare(Compare::Lt, index, zero)?;
        let from_end = expr.binary(Binary::Add, index, count)?;
        let index = expr.select(negative, from_end, index)?;
        let same = expr.compare(Compare::Eq, index, class_number)?;
        let one = expr.cast(same, dtype)?;
        let inputs = vec![indices.operand()?, class.operand()?];
        launch(on, Arc::new(expr.finish(&[one])?), inputs, &shape)
    }

    /// `base` to the power of `count` values evenly from `start` to `end`, both included.
    pub fn logspace(
        pool: &crate::Pool,
        start: f64,
        end: f64,
        count: usize,
        base: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        let precise = if dtype.is_float() {
            wide(dtype)
        } else {
            DType::F64
        };
        Tensor::linspace(pool, start, end, count, precise)?
            .rpow(base)?
            .to_dtype(dtype)
    }
}

/// The elements of a matrix on a diagonal; none where it lies outside.
fn on_diagonal(matrix: &Layout, offset: isize) -> Result<Layout> {
    let ([rows, columns], [down, right]) = (
        [matrix.shape()[0], matrix.shape()[1]],
        [matrix.strides()[0], matrix.strides()[1]],
    );
    let skipped = offset.unsigned_abs();
    let (length, step) = match offset {
        0.. => (rows.min(columns.saturating_sub(skipped)), right),
        _ => (columns.min(rows.saturating_sub(skipped)), down),
    };
    let start = match length {
        0 => matrix.offset(),
        _ => (matrix.offset() as isize + skipped as isize * step) as usize,
    };
    Ok(Layout::strided(&[length], &[down + right], start)?)
}
