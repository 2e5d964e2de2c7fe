//! Tensors from values, and tensors of one pattern.

use std::sync::Arc;

use streampool_device::{Compare, DType, Element, Expr, Op, Scalar};
use streampool_runtime::Pool;

use crate::{Encoder, Error, Result, Tensor};

impl Tensor {
    /// These values, row-major, under a shape of as many elements. They are taken before this returns.
    pub fn from_slice<T: Element>(pool: &Pool, values: &[T], shape: &[usize]) -> Result<Tensor> {
        Encoder::new("from_slice", pool)?.upload(values, shape)
    }

    /// These values along one axis.
    pub fn from_vec<T: Element>(pool: &Pool, values: Vec<T>) -> Result<Tensor> {
        Encoder::new("from_vec", pool)?.upload(&values, &[values.len()])
    }

    /// The elements whose bytes these are, in the order of this machine; a `bool` is the byte 0 or 1.
    pub fn from_bytes(pool: &Pool, dtype: DType, bytes: &[u8], shape: &[usize]) -> Result<Tensor> {
        Encoder::new("from_bytes", pool)?.upload_bytes(dtype, bytes, shape)
    }

    /// One value, without axes.
    pub fn scalar<T: Element>(pool: &Pool, value: T) -> Result<Tensor> {
        Encoder::new("scalar", pool)?.upload(&[value], &[])
    }

    /// One value everywhere.
    pub fn full(
        pool: &Pool,
        shape: &[usize],
        value: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Tensor> {
        let on = Encoder::new("full", pool)?;
        let mut filled = on.blank(dtype, shape)?;
        on.encode(Op::Fill {
            dst: filled.operand()?,
            value: value.into(),
        })?;
        Ok(filled.finish())
    }

    /// Zeros.
    pub fn zeros(pool: &Pool, shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::full(pool, shape, 0, dtype)
    }

    /// Ones.
    pub fn ones(pool: &Pool, shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::full(pool, shape, 1, dtype)
    }

    /// One value everywhere, in the shape, the type and the pool of this tensor.
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full(self.pool(), self.shape(), value, self.dtype())
    }

    /// From `start` up to, not including, `end`, `step` apart; down, if `step` is negative.
    pub fn arange(
        pool: &Pool,
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Tensor> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        let count = count(start, end, step)?;
        sequence("arange", pool, count, start, step, dtype)
    }

    /// `count` values evenly from `start` to `end`, both included.
    pub fn linspace(
        pool: &Pool,
        start: f64,
        end: f64,
        count: usize,
        dtype: DType,
    ) -> Result<Tensor> {
        for (argument, value) in [("start", start), ("end", end)] {
            if !value.is_finite() {
                return Err(Error::parameter("linspace", argument, value, "finite"));
            }
        }
        let step = match count {
            0 | 1 => 0.0,
            _ => (end - start) / (count - 1) as f64,
        };
        sequence("linspace", pool, count, start.into(), step.into(), dtype)
    }

    /// Ones where both indices are the same, zeros elsewhere.
    pub fn eye(pool: &Pool, rows: usize, columns: usize, dtype: DType) -> Result<Tensor> {
        let on = Encoder::new("eye", pool)?;
        let index = |count, shape: &[usize]| {
            sequence("eye", pool, count, 0.into(), 1.into(), DType::I64)?.view(shape)
        };
        let (row, column) = (index(rows, &[rows, 1])?, index(columns, &[1, columns])?);
        let mut expr = Expr::builder();
        let (i, j) = (expr.input(DType::I64)?, expr.input(DType::I64)?);
        let same = expr.compare(Compare::Eq, i, j)?;
        let one = expr.cast(same, dtype)?;
        let mut eye = on.blank(dtype, &[rows, columns])?;
        on.encode(Op::Map {
            expr: Arc::new(expr.finish(&[one])?),
            inputs: vec![row.operand()?, column.operand()?],
            outputs: vec![eye.operand()?],
        })?;
        Ok(eye.finish())
    }
}

fn sequence(
    op: &'static str,
    pool: &Pool,
    count: usize,
    start: Scalar,
    step: Scalar,
    dtype: DType,
) -> Result<Tensor> {
    if dtype == DType::Bool {
        return Err(Error::dtype(op, "dtype", dtype, "a number type"));
    }
    let on = Encoder::new(op, pool)?;
    let mut values = on.blank(dtype, &[count])?;
    on.encode(Op::Iota {
        dst: values.operand()?,
        start,
        step,
    })?;
    Ok(values.finish())
}

/// How many values there are from `start` to `end`.
fn count(start: Scalar, end: Scalar, step: Scalar) -> Result<usize> {
    let op = "arange";
    for (argument, value) in [("start", start), ("end", end), ("step", step)] {
        if !value.to_f64().is_finite() {
            return Err(Error::parameter(op, argument, value.to_f64(), "finite"));
        }
    }
    if step.to_f64() == 0.0 {
        return Err(Error::parameter(op, "step", 0, "not zero"));
    }
    let count = match (start, end, step) {
        // Exactly, where a float would round.
        (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) => {
            let (distance, step) = (i128::from(end) - i128::from(start), i128::from(step));
            let towards = if step > 0 { distance } else { -distance };
            (towards.max(0) + step.abs() - 1) / step.abs()
        }
        _ => {
            let steps = (end.to_f64() - start.to_f64()) / step.to_f64();
            steps.ceil().max(0.0) as i128
        }
    };
    isize::try_from(count)
        .map(isize::unsigned_abs)
        .map_err(|_| Error::parameter(op, "end", format_args!("{count} steps away"), "nearer"))
}
