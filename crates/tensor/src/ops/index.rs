//! Picking and putting by index. Indices are `i64` or `i32`; negative ones count from the end. One out of range is a fault
//! of the stream on the host, which whoever reads the result is told of; on other devices it picks zero, and what it would
//! put is left out.

use streampool_device::{Combine, Gather, Indexing, Op, Scatter};

use crate::{Encoder, Error, Result, Tensor};

impl Tensor {
    /// The slices across `axis` that `indices` name: that axis is replaced by the shape of `indices`.
    pub fn index_select(&self, axis: isize, indices: &Tensor) -> Result<Tensor> {
        let on = self.encoder("index_select")?.with("indices", [indices])?;
        let axis = self.axis(on.op(), axis)?;
        self.slices(on, axis, indices)
    }

    /// The slices across `axis` that `indices` name. Those that are repeated along an axis are picked once.
    fn slices(&self, on: Encoder<'_>, axis: usize, indices: &Tensor) -> Result<Tensor> {
        let sizes = |indices: &Tensor| {
            let (before, after) = (&self.shape()[..axis], &self.shape()[axis + 1..]);
            [before, indices.shape(), after].concat()
        };
        let each = indices.each_once()?;
        let slices = self.gathered(on, Indexing::Axis(axis), &each, &sizes(&each))?;
        slices.broadcast_to(&sizes(indices))
    }

    /// The rows of this table, `[entries, features]`, that `indices` name.
    pub fn embedding(&self, indices: &Tensor) -> Result<Tensor> {
        let on = self.encoder("embedding")?.with("indices", [indices])?;
        if self.rank() != 2 {
            let expected = "[entries, features]";
            return Err(Error::shape(on.op(), "self", self.shape(), expected));
        }
        self.slices(on, 0, indices)
    }

    /// The elements that `indices` name as if there was but one axis.
    pub fn take(&self, indices: &Tensor) -> Result<Tensor> {
        let on = self.encoder("take")?.with("indices", [indices])?;
        let flat = self.reshape(&[-1])?;
        flat.slices(on, 0, indices)
    }

    /// For each element of `indices` the element at the same place but along `axis`, where `indices` says.
    pub fn gather(&self, axis: isize, indices: &Tensor) -> Result<Tensor> {
        let on = self.encoder("gather")?.with("indices", [indices])?;
        let axis = self.axis(on.op(), axis)?;
        self.gathered(on, Indexing::Elements(axis), indices, indices.shape())
    }

    /// The elements or slices whose indices into consecutive axes the last axis of `indices` lists, after `batch` leading
    /// axes in which both go together.
    pub fn gather_nd(&self, batch: usize, indices: &Tensor) -> Result<Tensor> {
        let on = self.encoder("gather_nd")?.with("indices", [indices])?;
        let sizes = self.indexed_nd(on.op(), batch, indices)?;
        self.gathered(on, Indexing::Nd(batch), indices, &sizes)
    }

    /// This tensor with each element of `updates` put at the same place but along `axis`, where `indices` says.
    pub fn scatter(&self, axis: isize, indices: &Tensor, updates: &Tensor) -> Result<Tensor> {
        self.elements_put("scatter", axis, indices, updates, Combine::Replace)
    }

    /// This tensor with each element of `updates` added at the same place but along `axis`, where `indices` says.
    pub fn scatter_add(&self, axis: isize, indices: &Tensor, updates: &Tensor) -> Result<Tensor> {
        self.elements_put("scatter_add", axis, indices, updates, Combine::Add)
    }

    /// As [`scatter`](Self::scatter), with a choice of what becomes of the element that is there.
    pub fn scatter_reduce(
        &self,
        axis: isize,
        indices: &Tensor,
        updates: &Tensor,
        combine: Combine,
    ) -> Result<Tensor> {
        self.elements_put("scatter_reduce", axis, indices, updates, combine)
    }

    fn elements_put(
        &self,
        op: &'static str,
        axis: isize,
        indices: &Tensor,
        updates: &Tensor,
        combine: Combine,
    ) -> Result<Tensor> {
        let on = self.putting(op, indices, updates)?;
        let axis = self.axis(on.op(), axis)?;
        self.scattered(on, Indexing::Elements(axis), combine, indices, updates)
    }

    /// This tensor with slices across `axis` replaced: the reverse of [`index_select`](Self::index_select).
    pub fn index_copy(&self, axis: isize, indices: &Tensor, updates: &Tensor) -> Result<Tensor> {
        self.slices_put("index_copy", axis, indices, updates, Combine::Replace)
    }

    /// This tensor with `updates` added to its slices across `axis`.
    pub fn index_add(&self, axis: isize, indices: &Tensor, updates: &Tensor) -> Result<Tensor> {
        self.slices_put("index_add", axis, indices, updates, Combine::Add)
    }

    /// As [`index_copy`](Self::index_copy), with a choice of what becomes of the elements that are there.
    pub fn index_reduce(
        &self,
        axis: isize,
        indices: &Tensor,
        updates: &Tensor,
        combine: Combine,
    ) -> Result<Tensor> {
        self.slices_put("index_reduce", axis, indices, updates, combine)
    }

    fn slices_put(
        &self,
        op: &'static str,
        axis: isize,
        indices: &Tensor,
        updates: &Tensor,
        combine: Combine,
    ) -> Result<Tensor> {
        let on = self.putting(op, indices, updates)?;
        let axis = self.axis(on.op(), axis)?;
        self.scattered(on, Indexing::Axis(axis), combine, indices, updates)
    }

    /// This tensor with elements or slices put where the last axis of `indices` lists indices into its first axes: the
    /// reverse of [`gather_nd`](Self::gather_nd) without leading axes.
    pub fn scatter_nd(
        &self,
        indices: &Tensor,
        updates: &Tensor,
        combine: Combine,
    ) -> Result<Tensor> {
        let on = self.putting("scatter_nd", indices, updates)?;
        self.indexed_nd(on.op(), 0, indices)?;
        self.scattered(on, Indexing::Nd(0), combine, indices, updates)
    }

    fn putting(&self, op: &'static str, indices: &Tensor, updates: &Tensor) -> Result<Encoder<'_>> {
        self.encoder(op)?
            .with("indices", [indices])?
            .with("updates", [updates])
    }

    fn gathered(
        &self,
        on: Encoder<'_>,
        indexing: Indexing,
        indices: &Tensor,
        sizes: &[usize],
    ) -> Result<Tensor> {
        let mut dst = on.blank(self.dtype(), sizes)?;
        on.encode(Op::Gather(Gather {
            indexing,
            src: self.operand()?,
            indices: indices.operand()?,
            dst: dst.operand()?,
        }))?;
        Ok(dst.finish())
    }

    pub(super) fn scattered(
        &self,
        on: Encoder<'_>,
        indexing: Indexing,
        combine: Combine,
        indices: &Tensor,
        updates: &Tensor,
    ) -> Result<Tensor> {
        let mut dst = on.blank(self.dtype(), self.shape())?;
        on.encode(Op::Scatter(Scatter {
            indexing,
            combine,
            src: self.operand()?,
            indices: indices.operand()?,
            updates: updates.operand()?,
            dst: dst.operand()?,
        }))?;
        Ok(dst.finish())
    }

    fn indexed_nd(&self, op: &'static str, batch: usize, indices: &Tensor) -> Result<Vec<usize>> {
        let (from, by) = (self.shape(), indices.shape());
        match by.split_last() {
            Some((&depth, places)) if batch <= places.len() && batch + depth <= from.len() => {
                Ok([places, &from[batch + depth..]].concat())
            }
            _ => {
                let expected = format!(
                    "a last axis of at most {} indices after {batch} axes",
                    from.len()
                );
                Err(Error::shape(op, "indices", by, expected))
            }
        }
    }
}
