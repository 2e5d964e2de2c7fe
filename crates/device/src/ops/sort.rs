//! Along one axis: running totals, and order.

use super::optional;
use crate::check::{axis_of, dtype, require, same_type, shape, writable};
use crate::{Access, DType, Dims, OpKind, Result, View};

/// How elements are combined by [`Scan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScanKind {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The largest so far; NaN wins.
    Max,
    /// The smallest so far; NaN wins.
    Min,
}

/// `dst[i] = kind(src[0], ..., src[i])` along an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scan<T = View> {
    /// How elements are combined.
    pub kind: ScanKind,
    /// What is combined: numbers.
    pub src: T,
    /// The result: shape and type of `src`.
    pub dst: T,
    /// Along which axis.
    pub axis: usize,
    /// Whether element `i` itself is left out, so that the first is the identity: 0, 1, or the type's lowest or
    /// highest value.
    pub exclusive: bool,
    /// Whether it begins at the end.
    pub reverse: bool,
}

/// `values =` the first elements of `src`, once ordered along an axis, as many as fit; and where they were.
///
/// Equal elements keep their order. NaN counts as larger than everything, and `-0` equals `0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sort<T = View> {
    /// What is ordered.
    pub src: T,
    /// The result: shape and type of `src`, with at most as many elements along the axis.
    pub values: T,
    /// The place of each along the axis, as `i64`; shape of `values`.
    pub indices: Option<T>,
    /// Along which axis.
    pub axis: usize,
    /// Whether the largest comes first.
    pub descending: bool,
}

impl<T> Scan<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Scan<U>, E> {
        Ok(Scan {
            kind: self.kind,
            src: f("src", Access::Read, &self.src)?,
            dst: f("dst", Access::Write, &self.dst)?,
            axis: self.axis,
            exclusive: self.exclusive,
            reverse: self.reverse,
        })
    }
}

impl<T> Sort<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Sort<U>, E> {
        Ok(Sort {
            src: f("src", Access::Read, &self.src)?,
            values: f("values", Access::Write, &self.values)?,
            indices: optional(&self.indices, "indices", Access::Write, f)?,
            axis: self.axis,
            descending: self.descending,
        })
    }
}

impl Scan<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Scan;
        writable(kind, "dst", &self.dst)?;
        same_type(kind, "dst", &self.dst, &self.src)?;
        shape(kind, "dst", self.dst.shape(), self.src.shape())?;
        axis_of(kind, self.axis, &self.src)?;
        require(
            kind,
            "src",
            self.src.dtype() != DType::Bool,
            "of type bool",
            "a number type",
        )
    }
}

impl Sort<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Sort;
        writable(kind, "values", &self.values)?;
        same_type(kind, "values", &self.values, &self.src)?;
        axis_of(kind, self.axis, &self.src)?;
        let mut most = Dims::new(self.src.shape())?;
        if let Some(&got) = self.values.shape().get(self.axis) {
            most[self.axis] = most[self.axis].min(got);
        }
        shape(kind, "values", self.values.shape(), &most)?;
        let Some(indices) = &self.indices else {
            return Ok(());
        };
        writable(kind, "indices", indices)?;
        dtype(kind, "indices", indices.dtype(), DType::I64)?;
        shape(kind, "indices", indices.shape(), self.values.shape())
    }
}
