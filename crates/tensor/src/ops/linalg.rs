//! Factorisations and solves, many matrices at a time. A matrix without an inverse is no error: what is computed from it
//! holds infinities or NaN.

use streampool_device::{DType, Layout, Linalg, Op};
use streampool_runtime::Operand;

use super::checks;
use crate::{Encoder, Error, Result, Tensor};

/// A matrix as `P L U`.
#[derive(Debug, Clone)]
pub struct Lu {
    /// `U`, and below its diagonal `L` without its diagonal of ones.
    pub factors: Tensor,
    /// Row `i` was exchanged with row `pivots[i]`, in that order, counted from 0; `i32`.
    pub pivots: Tensor,
}

impl Tensor {
    /// The factors of `[..., m, n]`.
    pub fn lu(&self) -> Result<Lu> {
        self.factored(self.encoder("lu")?)
    }

    fn factored(&self, on: Encoder<'_>) -> Result<Lu> {
        let (batch, [rows, columns]) = self.matrices(on.op())?;
        let mut factors = on.blank(self.dtype(), self.shape())?;
        let mut pivots = on.blank(DType::I32, &[batch, &[rows.min(columns)]].concat())?;
        on.encode(Op::Linalg(Linalg::Lu {
            src: self.operand()?,
            factors: factors.operand()?,
            pivots: pivots.operand()?,
        }))?;
        Ok(Lu {
            factors: factors.finish(),
            pivots: pivots.finish(),
        })
    }

    /// `x` of `self x = rhs`, for `[..., n, n]` and `[..., n, k]`.
    pub fn solve(&self, rhs: &Tensor) -> Result<Tensor> {
        let on = self.encoder("solve")?.with("rhs", [rhs])?;
        self.check_system(on.op(), rhs)?;
        self.factored(on)?.solved(on, rhs)
    }

    /// `x` of `self x = rhs`, where only the upper or the lower triangle of `self` counts, its diagonal as ones if
    /// `unit`.
    pub fn triangular_solve(&self, rhs: &Tensor, upper: bool, unit: bool) -> Result<Tensor> {
        let on = self.encoder("triangular_solve")?.with("rhs", [rhs])?;
        self.check_system(on.op(), rhs)?;
        let mut dst = on.blank(rhs.dtype(), rhs.shape())?;
        on.encode(Op::Linalg(Linalg::Triangular {
            src: self.operand()?,
            rhs: rhs.operand()?,
            dst: dst.operand()?,
            upper,
            unit,
        }))?;
        Ok(dst.finish())
    }

    /// The lower `L` of `L Lᵀ = self`, for positive definite matrices, of which the lower triangle counts.
    pub fn cholesky(&self) -> Result<Tensor> {
        self.same_shape("cholesky", |src, dst| Linalg::Cholesky { src, dst })
    }

    /// The inverse of each matrix.
    pub fn inverse(&self) -> Result<Tensor> {
        self.same_shape("inverse", |src, dst| Linalg::Inverse { src, dst })
    }

    /// The determinant of each matrix: `[..., n, n]` gives `[...]`.
    pub fn det(&self) -> Result<Tensor> {
        let on = self.encoder("det")?;
        let size = self.square_size(on.op())?;
        let Lu { factors, pivots } = self.factored(on)?;
        let product = factors.diagonal()?.prod(&[-1], false)?;
        let rows = Tensor::arange(self.pool(), 0, size as i64, 1, DType::I32)?;
        // Each exchange of two rows turns the sign.
        let turns = pivots.ne(&rows)?.to_dtype(self.dtype())?;
        let sign = turns.mul(-2.0)?.add(1.0)?.prod(&[-1], false)?;
        product.mul(&sign)
    }

    /// The diagonal of each matrix: `[..., m, n]` gives `[..., min(m, n)]`, without a copy.
    pub fn diagonal(&self) -> Result<Tensor> {
        let (batch, [rows, columns]) = self.matrices("diagonal")?;
        let (layout, outer) = (self.layout(), batch.len());
        let mut strides = layout.strides()[..outer + 1].to_vec();
        strides[outer] += layout.strides()[outer + 1];
        let sizes = [batch, &[rows.min(columns)]].concat();
        let seen = Layout::strided(&sizes, &strides, layout.offset())?;
        Ok(self.with_layout(seen))
    }

    fn same_shape(
        &self,
        op: &'static str,
        of: impl for<'a> FnOnce(Operand<'a>, Operand<'a>) -> Linalg<Operand<'a>>,
    ) -> Result<Tensor> {
        let on = self.encoder(op)?;
        self.square_size(op)?;
        let mut dst = on.blank(self.dtype(), self.shape())?;
        on.encode(Op::Linalg(of(self.operand()?, dst.operand()?)))?;
        Ok(dst.finish())
    }

    fn check_system(&self, op: &'static str, rhs: &Tensor) -> Result<()> {
        let size = self.square_size(op)?;
        checks::of_type(op, "rhs", rhs, self.dtype())?;
        let (batch, _) = self.matrices(op)?;
        let expected = [batch, &[size]].concat();
        if rhs.rank() == self.rank() && rhs.shape()[..self.rank() - 1] == expected {
            return Ok(());
        }
        let expected = format!("{expected:?} and an axis of columns");
        Err(Error::shape(op, "rhs", rhs.shape(), expected))
    }

    /// The size of square matrices.
    fn square_size(&self, op: &'static str) -> Result<usize> {
        match self.matrices(op)? {
            (_, [rows, columns]) if rows == columns => Ok(rows),
            _ => {
                let expected = "square matrices";
                Err(Error::shape(op, "self", self.shape(), expected))
            }
        }
    }

    /// The axes before the last two, and those.
    fn matrices(&self, op: &'static str) -> Result<(&[usize], [usize; 2])> {
        match self.shape() {
            [batch @ .., rows, columns] => Ok((batch, [*rows, *columns])),
            other => {
                let expected = "matrices: at least two axes";
                Err(Error::shape(op, "self", other, expected))
            }
        }
    }
}

impl Lu {
    /// `x` of `A x = rhs`, for the square `A` that was factored.
    pub fn solve(&self, rhs: &Tensor) -> Result<Tensor> {
        let on = self
            .factors
            .encoder("lu_solve")?
            .with("pivots", [&self.pivots])?
            .with("rhs", [rhs])?;
        self.factors.check_system(on.op(), rhs)?;
        self.solved(on, rhs)
    }

    fn solved(&self, on: Encoder<'_>, rhs: &Tensor) -> Result<Tensor> {
        let mut dst = on.blank(rhs.dtype(), rhs.shape())?;
        on.encode(Op::Linalg(Linalg::LuSolve {
            factors: self.factors.operand()?,
            pivots: self.pivots.operand()?,
            rhs: rhs.operand()?,
            dst: dst.operand()?,
        }))?;
        Ok(dst.finish())
    }
}
