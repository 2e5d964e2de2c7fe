//! Picking and putting by index.

use crate::check::{axis_of, dtype, invalid, require, same_type, shape, writable};
use crate::{Access, DType, Dims, OpKind, Result, View};

/// What an index names in the tensor it indexes, here called `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// A slice across this axis. The indexed elements have the shape of `data` with that axis replaced by the
    /// whole shape of `indices`.
    Axis(usize),
    /// The element at the same place but along this axis. The indexed elements have the shape of `indices`, which
    /// has the rank of `data` and in no other axis more elements than it.
    Elements(usize),
    /// The last axis of `indices` lists indices into consecutive axes of `data`, after as many leading axes as
    /// are given here, in which both go together. The indexed elements have the shape of `indices` without its
    /// last axis, then the axes of `data` that are left.
    Nd(usize),
}

/// `dst =` the elements of `src` that `indices` names.
///
/// Negative indices count from the end. One out of range is a fault on the host; on other devices it gives zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gather<T = View> {
    /// What an index names.
    pub indexing: Indexing,
    /// What is picked from.
    pub src: T,
    /// `i32` or `i64`.
    pub indices: T,
    /// The result: see [`Indexing`].
    pub dst: T,
}

/// What becomes of an element when another is put where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combine {
    /// It is replaced. Of several put in one place one stays: the last on the host, any on other devices.
    Replace,
    /// Both are added. Floats are added in no certain order on devices other than the host.
    Add,
    /// Both are multiplied, with the same proviso.
    Mul,
    /// The smaller stays; NaN wins.
    Min,
    /// The larger stays; NaN wins.
    Max,
}

/// `dst = src`, with `updates` put where `indices` names.
///
/// Negative indices count from the end. One out of range is a fault on the host; on other devices its update
/// is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter<T = View> {
    /// What an index names.
    pub indexing: Indexing,
    /// How updates and what they meet become one; numbers only, save for `Replace`.
    pub combine: Combine,
    /// What is there before.
    pub src: T,
    /// `i32` or `i64`.
    pub indices: T,
    /// What is put: for its shape see [`Indexing`].
    pub updates: T,
    /// The result: shape and type of `src`, and it may be `src`.
    pub dst: T,
}

impl<T> Gather<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Gather<U>, E> {
        Ok(Gather {
            indexing: self.indexing,
            src: f("src", Access::Read, &self.src)?,
            indices: f("indices", Access::Read, &self.indices)?,
            dst: f("dst", Access::Write, &self.dst)?,
        })
    }
}

impl<T> Scatter<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Scatter<U>, E> {
        Ok(Scatter {
            indexing: self.indexing,
            combine: self.combine,
            src: f("src", Access::Read, &self.src)?,
            indices: f("indices", Access::Read, &self.indices)?,
            updates: f("updates", Access::Read, &self.updates)?,
            dst: f("dst", Access::Write, &self.dst)?,
        })
    }
}

impl Gather<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Gather;
        writable(kind, "dst", &self.dst)?;
        same_type(kind, "dst", &self.dst, &self.src)?;
        let expected = indexed_shape(kind, self.indexing, "src", &self.src, &self.indices)?;
        shape(kind, "dst", self.dst.shape(), &expected)
    }
}

impl Scatter<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Scatter;
        writable(kind, "dst", &self.dst)?;
        same_type(kind, "dst", &self.dst, &self.src)?;
        shape(kind, "dst", self.dst.shape(), self.src.shape())?;
        same_type(kind, "updates", &self.updates, &self.dst)?;
        let expected = indexed_shape(kind, self.indexing, "dst", &self.dst, &self.indices)?;
        shape(kind, "updates", self.updates.shape(), &expected)?;
        require(
            kind,
            "dst",
            self.combine == Combine::Replace || self.dst.dtype() != DType::Bool,
            "of type bool",
            "a number type, to combine its elements",
        )
    }
}

/// The shape of what `indices` names in `data`.
fn indexed_shape(
    op: OpKind,
    indexing: Indexing,
    argument: &'static str,
    data: &View,
    indices: &View,
) -> Result<Dims> {
    if !matches!(indices.dtype(), DType::I32 | DType::I64) {
        dtype(op, "indices", indices.dtype(), DType::I64)?;
    }
    let mut sizes = Vec::with_capacity(2 * crate::MAX_RANK);
    match indexing {
        Indexing::Axis(axis) => {
            axis_of(op, axis, data)?;
            sizes.extend_from_slice(&data.shape()[..axis]);
            sizes.extend_from_slice(indices.shape());
            sizes.extend_from_slice(&data.shape()[axis + 1..]);
        }
        Indexing::Elements(axis) => {
            axis_of(op, axis, data)?;
            let fits = indices.layout().rank() == data.layout().rank()
                && (0..data.layout().rank())
                    .all(|other| other == axis || indices.shape()[other] <= data.shape()[other]);
            if !fits {
                return Err(invalid(
                    op,
                    "indices",
                    format_args!("of shape {:?}", indices.shape()),
                    format_args!("at most {:?} in all axes but {axis}", data.shape()),
                ));
            }
            sizes.extend_from_slice(indices.shape());
        }
        Indexing::Nd(batch) => {
            let (from, by) = (data.shape(), indices.shape());
            let depth = by.last().copied().unwrap_or(0);
            let fits = by.len() > batch
                && batch
                    .checked_add(depth)
                    .is_some_and(|used| used <= from.len())
                && from[..batch] == by[..batch];
            if !fits {
                return Err(invalid(
                    op,
                    "indices",
                    format_args!("of shape {by:?}"),
                    format_args!(
                        "one that agrees with the first {batch} of {from:?}, the shape of {argument}, \
                         and lists indices into at most the others"
                    ),
                ));
            }
            sizes.extend_from_slice(&by[..by.len() - 1]);
            sizes.extend_from_slice(&from[batch + depth..]);
        }
    }
    Dims::new(&sizes)
}
