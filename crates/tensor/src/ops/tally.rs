//! What depends on the values there are: counts, and the places of what is not zero. The latter waits for the device,
//! since nobody knows its shape before.

use streampool_device::{DType, Histogram, NonZero, Op};

use super::checks;
use crate::{Error, Result, Tensor, shape};

impl Tensor {
    /// How many elements lie in each of `bins` even parts of the range from `low` to `high`, as `i64`. Elements outside,
    /// and NaN, lie in none; `high` lies in the last.
    pub fn histogram(&self, bins: usize, low: f64, high: f64) -> Result<Tensor> {
        self.tallied("histogram", bins, low, high, None)
    }

    /// As [`histogram`](Self::histogram), with what each element counts for; in the type of `weights`, floats.
    pub fn weighted_histogram(
        &self,
        bins: usize,
        low: f64,
        high: f64,
        weights: &Tensor,
    ) -> Result<Tensor> {
        self.tallied("weighted_histogram", bins, low, high, Some(weights))
    }

    /// How often each number from 0 to below `count` occurs among its integers, as `i64`; others are not counted.
    pub fn bincount(&self, count: usize) -> Result<Tensor> {
        let op = "bincount";
        if !self.dtype().is_integer() {
            return Err(Error::dtype(op, "self", self.dtype(), "an integer type"));
        }
        // One bin more: the last one has both its ends.
        let bins = count.saturating_add(1);
        let counts = self.tallied(op, bins, 0.0, bins as f64, None)?;
        counts.narrow(0, 0, count)
    }

    fn tallied(
        &self,
        op: &'static str,
        bins: usize,
        low: f64,
        high: f64,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let on = self.encoder(op)?.with("weights", weights)?;
        if bins == 0 {
            return Err(Error::parameter(op, "bins", bins, "at least 1"));
        }
        let dtype = weights.map_or(DType::I64, Tensor::dtype);
        let mut dst = on.blank(dtype, &[bins])?;
        on.encode(Op::Histogram(Histogram {
            src: self.operand()?,
            weights: weights.map(Tensor::operand).transpose()?,
            dst: dst.operand()?,
            low,
            high,
        }))?;
        Ok(dst.finish())
    }

    /// The places of the elements that are not zero, in row-major order, as `i64`: `[count, axes]`. Waits for their
    /// number.
    pub fn nonzero(&self) -> Result<Tensor> {
        let on = self.encoder("nonzero")?;
        let mut indices = on.blank(DType::I64, &[self.rank(), self.elem_count()])?;
        let mut count = on.blank(DType::I64, &[1])?;
        on.encode(Op::NonZero(NonZero {
            src: self.operand()?,
            indices: indices.operand()?,
            count: count.operand()?,
        }))?;
        let found = count.finish().item::<i64>()?;
        indices
            .finish()
            .narrow(1, 0, found as usize)?
            .transpose(0, 1)
    }

    /// The elements where `mask` is true, along one axis; both broadcast. Waits for their number.
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let op = "masked_select";
        self.encoder(op)?.with("mask", [mask])?;
        checks::of_type(op, "mask", mask, DType::Bool)?;
        let shape = shape::broadcast(op, "mask", self.shape(), mask.shape())?;
        let select = || {
            let chosen = mask.broadcast_to(&shape)?.reshape(&[-1])?.nonzero()?;
            self.broadcast_to(&shape)?.take(&chosen.squeeze(1)?)
        };
        select().map_err(|error| error.named(op))
    }
}
