//! Along one axis: order, and running totals.

use streampool_device::{DType, Dims, Op, Scan, ScanKind, Sort};

use crate::{Error, Result, Tensor};

impl Tensor {
    /// Its elements in rising order along an axis (or falling), and where they were. Equal ones keep their order, and NaN
    /// counts as the largest.
    pub fn sort(&self, axis: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        let axis = self.axis("sort", axis)?;
        self.sorted("sort", axis, self.shape()[axis], descending)
    }

    /// Where the elements are that come first, second, ... in order along an axis.
    pub fn argsort(&self, axis: isize, descending: bool) -> Result<Tensor> {
        let axis = self.axis("argsort", axis)?;
        Ok(self
            .sorted("argsort", axis, self.shape()[axis], descending)?
            .1)
    }

    /// The `count` largest (or smallest) elements along an axis, in order, and where they are.
    pub fn topk(&self, count: usize, axis: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        let op = "topk";
        let axis = self.axis(op, axis)?;
        let size = self.shape()[axis];
        if count > size {
            let expected = format!("at most {size}, the size of axis {axis}");
            return Err(Error::parameter(op, "count", count, expected));
        }
        self.sorted(op, axis, count, largest)
    }

    fn sorted(
        &self,
        op: &'static str,
        axis: usize,
        count: usize,
        descending: bool,
    ) -> Result<(Tensor, Tensor)> {
        let on = self.encoder(op)?;
        let mut shape = Dims::new(self.shape())?;
        shape[axis] = count;
        let mut values = on.blank(self.dtype(), &shape)?;
        let mut indices = on.blank(DType::I64, &shape)?;
        on.encode(Op::Sort(Sort {
            src: self.operand()?,
            values: values.operand()?,
            indices: Some(indices.operand()?),
            axis,
            descending,
        }))?;
        Ok((values.finish(), indices.finish()))
    }

    /// The running sum along an axis, each element included, in the tensor's own type: integers wrap.
    pub fn cumsum(&self, axis: isize) -> Result<Tensor> {
        self.scanned("cumsum", ScanKind::Sum, axis, [false; 2])
    }

    /// The running product along an axis.
    pub fn cumprod(&self, axis: isize) -> Result<Tensor> {
        self.scanned("cumprod", ScanKind::Prod, axis, [false; 2])
    }

    /// The largest so far along an axis; NaN wins.
    pub fn cummax(&self, axis: isize) -> Result<Tensor> {
        self.scanned("cummax", ScanKind::Max, axis, [false; 2])
    }

    /// The smallest so far along an axis; NaN wins.
    pub fn cummin(&self, axis: isize) -> Result<Tensor> {
        self.scanned("cummin", ScanKind::Min, axis, [false; 2])
    }

    /// A running total along an axis; without the element itself if `exclusive`, from the end if `reverse`.
    pub fn scan(
        &self,
        kind: ScanKind,
        axis: isize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<Tensor> {
        self.scanned("scan", kind, axis, [exclusive, reverse])
    }

    fn scanned(
        &self,
        op: &'static str,
        kind: ScanKind,
        axis: isize,
        [exclusive, reverse]: [bool; 2],
    ) -> Result<Tensor> {
        let on = self.encoder(op)?;
        let axis = self.axis(on.op(), axis)?;
        let mut dst = on.blank(self.dtype(), self.shape())?;
        on.encode(Op::Scan(Scan {
            kind,
            src: self.operand()?,
            dst: dst.operand()?,
            axis,
            exclusive,
            reverse,
        }))?;
        Ok(dst.finish())
    }
}
