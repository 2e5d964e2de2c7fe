//! What there is, each once.

use streampool_device::DType;

use crate::{Result, Tensor};

/// The different elements, or slices, in rising order.
#[derive(Debug, Clone)]
pub struct Unique {
    /// What there is.
    pub values: Tensor,
    /// Where each comes first, as `i64`.
    pub first: Tensor,
    /// For each element or slice the place of its like in `values`, as `i64`.
    pub inverse: Tensor,
    /// How often each occurs, as `i64`.
    pub counts: Tensor,
}

impl Tensor {
    /// The different elements, along one axis, or the different slices across `axis`. Each NaN is different. Waits for their
    /// number.
    pub fn unique(&self, axis: Option<isize>) -> Result<Unique> {
        let op = "unique";
        let (kept, axis) = match axis {
            Some(axis) => (self.clone(), self.axis(op, axis)? as isize),
            None => (self.reshape(&[-1])?, 0),
        };
        let count = kept.shape()[axis as usize];
        let width = kept.elem_count() / count.max(1);
        let rows = kept
            .unsqueeze(0)?
            .transpose(0, axis + 1)?
            .reshape(&[count, width])?;
        let rows = match rows.dtype() {
            DType::Bool => rows.to_dtype(DType::U8)?,
            _ => rows,
        };
        let mut order = Tensor::arange(self.pool(), 0, count as i64, 1, DType::I64)?;
        // The last column first: sorting keeps the order of what is equal.
        for column in (0..width as isize).rev() {
            let own = rows.select(1, column)?.index_select(0, &order)?;
            order = order.index_select(0, &own.argsort(0, false)?)?;
        }
        let sorted = rows.index_select(0, &order)?;
        let begin = match count {
            0 => Tensor::zeros(self.pool(), &[0], DType::Bool)?,
            _ => {
                let (before, after) = (
                    sorted.narrow(0, 0, count - 1)?,
                    sorted.narrow(0, 1, count - 1)?,
                );
                let differs = before.ne(&after)?.any(&[1], false)?;
                let first = Tensor::full(self.pool(), &[1], true, DType::Bool)?;
                Tensor::cat(&[&first, &differs], 0)?
            }
        };
        let places = begin.nonzero()?.squeeze(1)?;
        let group = begin.to_dtype(DType::I64)?.cumsum(0)?.sub(1)?;
        let first = order.index_select(0, &places)?;
        let end = Tensor::full(self.pool(), &[1], count as i64, DType::I64)?;
        let ends = Tensor::cat(&[&places, &end], 0)?;
        let found = places.elem_count();
        let counts = ends.narrow(0, 1, found)?.sub(&ends.narrow(0, 0, found)?)?;
        Ok(Unique {
            values: kept.index_select(axis, &first)?,
            inverse: group.scatter(0, &order, &group)?,
            first,
            counts,
        })
    }
}
