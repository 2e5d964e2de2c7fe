//! Reductions over axes: those given, or all where none are. With `keep` they stay with size one, else they go.

use streampool_device::{Axes, DType, Dims, Op, ReduceKind};

use crate::{Error, Result, Tensor, axis};

impl Tensor {
    /// The sum, in the tensor's type: integers wrap, halves are added in `f32`. Of truth values, how many are true, as
    /// `i64`.
    pub fn sum(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        let set = axis::set_or_all("sum", "axes", axes, self.rank())?;
        let Some((once, times)) = self.seen_once(set)? else {
            return self
                .counted()?
                .reduced_over("sum", ReduceKind::Sum, set, keep);
        };
        once.sum(axes, keep)?.repeated_sum(times)
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
        let set = axis::set_or_all("prod", "axes", axes, self.rank())?;
        match self.seen_once(set)? {
            Some((once, times)) if self.dtype().is_float() => {
                once.prod(axes, keep)?.pow(times as f64)
            }
            _ => self
                .counted()?
                .reduced_over("prod", ReduceKind::Prod, set, keep),
        }
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
        self.truth("any", ReduceKind::Any, axes, keep)
    }

    /// Whether all are true, or not zero, as `bool`.
    pub fn all(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        self.truth("all", ReduceKind::All, axes, keep)
    }

    fn truth(
        &self,
        op: &'static str,
        kind: ReduceKind,
        axes: &[isize],
        keep: bool,
    ) -> Result<Tensor> {
        let set = axis::set_or_all(op, "axes", axes, self.rank())?;
        let once = self.seen_once(set)?;
        let truth = once.as_ref().map_or(self, |(once, _)| once);
        truth
            .to_dtype(DType::Bool)?
            .reduced_over(op, kind, set, keep)
    }

    /// What is broadcast along some of the axes, once, and how often it is there; `None` where nothing is. However large an
    /// axis is that one element is broadcast along, it is not gone through.
    fn seen_once(&self, axes: Axes) -> Result<Option<(Tensor, usize)>> {
        let (mut once, mut times) = (None, 1usize);
        for axis in axes.iter() {
            let size = self.shape()[axis];
            if size > 1 && self.layout().strides()[axis] == 0 {
                let before = once.as_ref().unwrap_or(self);
                once = Some(before.narrow(axis as isize, 0, 1)?);
                times = times.saturating_mul(size);
            }
        }
        Ok(once.map(|once| (once, times)))
    }

    /// The sum of so many of each element; integers wrap.
    fn repeated_sum(&self, times: usize) -> Result<Tensor> {
        if self.dtype().is_float() {
            return self.mul(times as f64);
        }
        let times = Tensor::full(self.pool(), &[], times as i64, DType::I64)?;
        self.mul(&times.to_dtype(self.dtype())?)
    }

    /// Itself, truth values as numbers.
    fn counted(&self) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.to_dtype(DType::I64),
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
        use ReduceKind::{ArgMax, ArgMin, Max, Min, Prod, Sum};
        if matches!(kind, Max | Min | ArgMax | ArgMin) {
            self.has_one(op, axes)?;
        }
        let many = matches!(kind, Sum | Prod);
        if let Some((once, _)) = self.seen_once(axes)?.filter(|_| !many) {
            return once.reduced_over(op, kind, axes, keep);
        }
        let on = self.encoder(op)?;
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
