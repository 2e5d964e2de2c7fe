//! Reductions over axes: those given, or all where none are. With `keep` they stay with size one, else they go.

use streampool_device::{Axes, DType, Dims, Op, ReduceKind};

use crate::{Error, Result, Tensor, axis};

impl Tensor {
    /// The sum, in the tensor's type: integers wrap, halves are added in `f32`. Of truth values, how many are true, as
    /// `i64`.
    pub fn sum(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        self.counted()?.reduced("sum", ReduceKind::Sum, axes, keep)
    }

    /// The arithmetic mean of floats; halves are added in `f32`. That of nothing is NaN.
    pub fn mean(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        let op = "mean";
        if !self.dtype().is_float() {
            let expected = "a float type: cast it with `to_dtype`";
            return Err(Error::dtype(op, "self", self.dtype(), expected));
        }
        self.reduced(op, ReduceKind::Mean, axes, keep)
    }

    /// The product, in the tensor's type: integers wrap. Of truth values 0 or 1, as `i64`.
    pub fn prod(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        self.counted()?
            .reduced("prod", ReduceKind::Prod, axes, keep)
    }

    /// The largest; NaN wins. There has to be one.
    pub fn max(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.extreme_truth("max", ReduceKind::Any, axes, keep),
            _ => self.reduced("max", ReduceKind::Max, axes, keep),
        }
    }

    /// The smallest; NaN wins. There has to be one.
    pub fn min(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.extreme_truth("min", ReduceKind::All, axes, keep),
            _ => self.reduced("min", ReduceKind::Min, axes, keep),
        }
    }

    /// The index of the first of the largest along an axis, as `i64`; NaN counts as the largest.
    pub fn argmax(&self, axis: isize, keep: bool) -> Result<Tensor> {
        self.arg("argmax", ReduceKind::ArgMax, axis, keep)
    }

    /// The index of the first of the smallest along an axis, as `i64`; NaN counts as the smallest.
    pub fn argmin(&self, axis: isize, keep: bool) -> Result<Tensor> {
        self.arg("argmin", ReduceKind::ArgMin, axis, keep)
    }

    /// Whether any is true, or not zero, as `bool`.
    pub fn any(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        let truth = self.as_broadcast(DType::Bool)?;
        truth.reduced("any", ReduceKind::Any, axes, keep)
    }

    /// Whether all are true, or not zero, as `bool`.
    pub fn all(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        let truth = self.as_broadcast(DType::Bool)?;
        truth.reduced("all", ReduceKind::All, axes, keep)
    }

    /// Its values in another type, broadcast where they are: devices do not go through a broadcast axis, however long, to
    /// reduce it, and neither does this.
    fn as_broadcast(&self, dtype: DType) -> Result<Tensor> {
        let mut once = self.clone();
        for axis in 0..self.rank() {
            if self.shape()[axis] > 1 && self.layout().strides()[axis] == 0 {
                once = once.narrow(axis as isize, 0, 1)?;
            }
        }
        once.to_dtype(dtype)?.broadcast_to(self.shape())
    }

    /// Itself, truth values as numbers.
    fn counted(&self) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.as_broadcast(DType::I64),
            _ => Ok(self.clone()),
        }
    }

    fn extreme_truth(
        &self,
        op: &'static str,
        kind: ReduceKind,
        axes: &[isize],
        keep: bool,
    ) -> Result<Tensor> {
        let set = axis::set_or_all(op, "axes", axes, self.rank())?;
        self.has_one(op, set)?;
        self.reduced_over(op, kind, set, keep)
    }

    fn arg(&self, op: &'static str, kind: ReduceKind, axis: isize, keep: bool) -> Result<Tensor> {
        let axes = Axes::new(&[self.axis(op, axis)?])?;
        if self.dtype() == DType::Bool {
            let expected = "a number type: cast it with `to_dtype`";
            return Err(Error::dtype(op, "self", self.dtype(), expected));
        }
        self.reduced_over(op, kind, axes, keep)
    }

    pub(super) fn reduced(
        &self,
        op: &'static str,
        kind: ReduceKind,
        axes: &[isize],
        keep: bool,
    ) -> Result<Tensor> {
        let axes = axis::set_or_all(op, "axes", axes, self.rank())?;
        self.reduced_over(op, kind, axes, keep)
    }

    pub(super) fn reduced_over(
        &self,
        op: &'static str,
        kind: ReduceKind,
        axes: Axes,
        keep: bool,
    ) -> Result<Tensor> {
        use ReduceKind::{ArgMax, ArgMin, Max, Min};
        let on = self.encoder(op)?;
        if matches!(kind, Max | Min | ArgMax | ArgMin) {
            self.has_one(op, axes)?;
        }
        let dtype = match kind {
            ArgMax | ArgMin => DType::I64,
            _ => self.dtype(),
        };
        let mut kept = Dims::new(self.shape())?;
        for axis in axes.iter() {
            kept[axis] = 1;
        }
        let mut result = on.blank(dtype, &kept)?;
        on.encode(Op::Reduce {
            kind,
            src: self.operand()?,
            dst: result.operand()?,
            axes,
        })?;
        let result = result.finish();
        if keep {
            Ok(result)
        } else {
            result.dropped(axes)
        }
    }

    /// Without these axes, which have size one.
    pub(super) fn dropped(&self, axes: Axes) -> Result<Tensor> {
        let (mut left, mut rank) = (Dims::new(self.shape())?, 0);
        for axis in (0..self.rank()).filter(|&axis| !axes.contains(axis)) {
            left[rank] = self.shape()[axis];
            rank += 1;
        }
        self.view(&left[..rank])
    }

    /// Checks that there is an element to reduce for each one of the result.
    fn has_one(&self, op: &'static str, axes: Axes) -> Result<()> {
        let empty = |axis: usize| self.shape()[axis] == 0;
        if !axes.iter().any(empty)
            || (0..self.rank()).any(|axis| !axes.contains(axis) && empty(axis))
        {
            return Ok(());
        }
        let expected = "at least one element along the axes";
        Err(Error::shape(op, "self", self.shape(), expected))
    }
}
