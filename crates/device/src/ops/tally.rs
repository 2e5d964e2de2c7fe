//! What depends on the values there are: counts, and the places of what is not zero.

use super::optional;
use crate::check::{dtype, require, same_type, shape, writable};
use crate::{Access, DType, OpKind, Result, View};

/// `dst[b] =` how many elements of `src` lie in bin `b`, or the sum of their weights.
///
/// The bins part the range from `low` to `high` evenly, and `high` itself lies in the last. Elements outside, and
/// NaN, lie in none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Histogram<T = View> {
    /// What is counted: numbers.
    pub src: T,
    /// What each counts for: shape of `src`; floats, which on devices other than the host are added in no
    /// certain order.
    pub weights: Option<T>,
    /// `[bins]`: `i64`, or the type of `weights`.
    pub dst: T,
    /// Where the first bin begins.
    pub low: f64,
    /// Where the last one ends; above `low`.
    pub high: f64,
}

/// The places of the elements of `src` that are not zero (or are true), in row-major order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonZero<T = View> {
    /// What is looked at.
    pub src: T,
    /// `[rank, elements]`, `i64`: the first columns are the places found; the others are -1.
    pub indices: T,
    /// `[1]`, `i64`: how many there are.
    pub count: T,
}

impl<T> Histogram<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Histogram<U>, E> {
        Ok(Histogram {
            src: f("src", Access::Read, &self.src)?,
            weights: optional(&self.weights, "weights", Access::Read, f)?,
            dst: f("dst", Access::Write, &self.dst)?,
            low: self.low,
            high: self.high,
        })
    }
}

impl<T> NonZero<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<NonZero<U>, E> {
        Ok(NonZero {
            src: f("src", Access::Read, &self.src)?,
            indices: f("indices", Access::Write, &self.indices)?,
            count: f("count", Access::Write, &self.count)?,
        })
    }
}

impl Histogram<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Histogram;
        writable(kind, "dst", &self.dst)?;
        require(
            kind,
            "src",
            self.src.dtype() != DType::Bool,
            "of type bool",
            "a number type",
        )?;
        let bins = self.dst.layout().elements();
        shape(kind, "dst", self.dst.shape(), &[bins])?;
        require(kind, "dst", bins > 0, "of no bins", "at least one bin")?;
        match &self.weights {
            None => dtype(kind, "dst", self.dst.dtype(), DType::I64)?,
            Some(weights) => {
                crate::check::float(kind, "weights", weights)?;
                shape(kind, "weights", weights.shape(), self.src.shape())?;
                same_type(kind, "dst", &self.dst, weights)?;
            }
        }
        require(
            kind,
            "high",
            self.low < self.high && (self.high - self.low).is_finite(),
            self.high,
            format_args!("finite and above low, {}", self.low),
        )
    }
}

impl NonZero<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::NonZero;
        for (argument, view) in [("indices", &self.indices), ("count", &self.count)] {
            writable(kind, argument, view)?;
            dtype(kind, argument, view.dtype(), DType::I64)?;
        }
        let layout = self.src.layout();
        shape(
            kind,
            "indices",
            self.indices.shape(),
            &[layout.rank(), layout.elements()],
        )?;
        shape(kind, "count", self.count.shape(), &[1])
    }
}
