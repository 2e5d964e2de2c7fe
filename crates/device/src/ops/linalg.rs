//! Factorisations and solves of square systems, many at a time.

use crate::check::{dtype, invalid, same_type, shape, writable};
use crate::{Access, DType, OpKind, Result, View};

/// Dense linear algebra in `f32` or `f64`. Leading dimensions, the same in all operands, count matrices.
///
/// A matrix that has no inverse, or none of the factors asked for, is no fault: its results hold infinities or NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Linalg<T = View> {
    /// `P L U = src`, by exchanging rows for the largest pivot.
    Lu {
        /// `[..., m, n]`.
        src: T,
        /// `[..., m, n]`: `U`, and below its diagonal `L` without its diagonal of ones.
        factors: T,
        /// `[..., min(m, n)]`, `i32`: row `i` was exchanged with row `pivots[i]`, in that order, counted from 0.
        pivots: T,
    },
    /// `dst = A⁻¹ rhs`, from the factors of `A`.
    LuSolve {
        /// `[..., n, n]`, from `Lu`.
        factors: T,
        /// `[..., n]`, from `Lu`.
        pivots: T,
        /// `[..., n, k]`.
        rhs: T,
        /// `[..., n, k]`.
        dst: T,
    },
    /// `dst = A⁻¹ rhs` for a triangular `A`, whose other triangle is not read.
    Triangular {
        /// `[..., n, n]`.
        src: T,
        /// `[..., n, k]`.
        rhs: T,
        /// `[..., n, k]`.
        dst: T,
        /// Whether it is the upper triangle.
        upper: bool,
        /// Whether the diagonal counts as ones and is not read.
        unit: bool,
    },
    /// `L Lᵀ = src` for a positive definite `src`, of which the lower triangle is read.
    Cholesky {
        /// `[..., n, n]`.
        src: T,
        /// `[..., n, n]`: `L`, zero above its diagonal.
        dst: T,
    },
    /// `dst = src⁻¹`.
    Inverse {
        /// `[..., n, n]`.
        src: T,
        /// `[..., n, n]`.
        dst: T,
    },
}

impl<T> Linalg<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Linalg<U>, E> {
        use Access::{Read, Write};
        Ok(match self {
            Linalg::Lu {
                src,
                factors,
                pivots,
            } => Linalg::Lu {
                src: f("src", Read, src)?,
                factors: f("factors", Write, factors)?,
                pivots: f("pivots", Write, pivots)?,
            },
            Linalg::LuSolve {
                factors,
                pivots,
                rhs,
                dst,
            } => Linalg::LuSolve {
                factors: f("factors", Read, factors)?,
                pivots: f("pivots", Read, pivots)?,
                rhs: f("rhs", Read, rhs)?,
                dst: f("dst", Write, dst)?,
            },
            Linalg::Triangular {
                src,
                rhs,
                dst,
                upper,
                unit,
            } => Linalg::Triangular {
                src: f("src", Read, src)?,
                rhs: f("rhs", Read, rhs)?,
                dst: f("dst", Write, dst)?,
                upper: *upper,
                unit: *unit,
            },
            Linalg::Cholesky { src, dst } => Linalg::Cholesky {
                src: f("src", Read, src)?,
                dst: f("dst", Write, dst)?,
            },
            Linalg::Inverse { src, dst } => Linalg::Inverse {
                src: f("src", Read, src)?,
                dst: f("dst", Write, dst)?,
            },
        })
    }
}

impl Linalg<View> {
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Linalg::Lu {
                src,
                factors,
                pivots,
            } => {
                let (batch, [rows, columns]) = matrix("src", src)?;
                same("factors", factors, src.shape(), src)?;
                write("factors", factors)?;
                write("pivots", pivots)?;
                self::pivots(pivots, batch, rows.min(columns))
            }
            Linalg::LuSolve {
                factors,
                pivots,
                rhs,
                dst,
            } => {
                let (batch, size) = square("factors", factors)?;
                self::pivots(pivots, batch, size)?;
                solved(factors, rhs, dst)
            }
            Linalg::Triangular { src, rhs, dst, .. } => {
                square("src", src)?;
                solved(src, rhs, dst)
            }
            Linalg::Cholesky { src, dst } | Linalg::Inverse { src, dst } => {
                square("src", src)?;
                same("dst", dst, src.shape(), src)?;
                write("dst", dst)
            }
        }
    }
}

fn matrix<'a>(argument: &'static str, view: &'a View) -> Result<(&'a [usize], [usize; 2])> {
    let kind = OpKind::Linalg;
    if !matches!(view.dtype(), DType::F32 | DType::F64) {
        return Err(invalid(
            kind,
            argument,
            format_args!("of type {}", view.dtype()),
            "f32 or f64",
        ));
    }
    match view.shape() {
        [batch @ .., rows, columns] => Ok((batch, [*rows, *columns])),
        other => Err(invalid(
            kind,
            argument,
            format_args!("of shape {other:?}"),
            "at least rank 2",
        )),
    }
}

fn square<'a>(argument: &'static str, view: &'a View) -> Result<(&'a [usize], usize)> {
    let (batch, [rows, columns]) = matrix(argument, view)?;
    if rows == columns {
        return Ok((batch, rows));
    }
    Err(invalid(
        OpKind::Linalg,
        argument,
        format_args!("of shape {:?}", view.shape()),
        "square matrices",
    ))
}

fn solved(system: &View, rhs: &View, dst: &View) -> Result<()> {
    let (batch, size) = square("src", system)?;
    let (_, [_, columns]) = matrix("rhs", rhs)?;
    let mut expected = batch.to_vec();
    expected.extend([size, columns]);
    same("rhs", rhs, &expected, system)?;
    same("dst", dst, &expected, system)?;
    write("dst", dst)
}

fn pivots(view: &View, batch: &[usize], count: usize) -> Result<()> {
    let mut expected = batch.to_vec();
    expected.push(count);
    dtype(OpKind::Linalg, "pivots", view.dtype(), DType::I32)?;
    shape(OpKind::Linalg, "pivots", view.shape(), &expected)
}

fn same(argument: &'static str, view: &View, expected: &[usize], like: &View) -> Result<()> {
    same_type(OpKind::Linalg, argument, view, like)?;
    shape(OpKind::Linalg, argument, view.shape(), expected)
}

fn write(argument: &'static str, view: &View) -> Result<()> {
    writable(OpKind::Linalg, argument, view)
}
