//! Discrete Fourier transforms. Complex numbers are pairs of a real and an imaginary part along the last axis; a last axis
//! of one element is real parts only.
//!
//! A transform is one product with the matrix of its waves: exact, and fast for lengths up to a few thousand.

use std::f64::consts::TAU;

use streampool_device::DType;

use super::formula::wide;
use crate::{Error, Padding, Pool, Result, Tensor};

impl Tensor {
    /// The frequencies along `axis`, of the first `length` elements, or all and zeros behind: `[..., 1 or 2]` gives
    /// `[..., 2]`.
    pub fn fft(&self, axis: isize, length: usize) -> Result<Tensor> {
        let waves = |parts: usize, dtype| waves(self.pool(), -1.0, length, parts, length, 2, dtype);
        self.transformed("fft", axis, length, 2, waves)
    }

    /// The elements that have these frequencies, the reverse of [`fft`](Self::fft).
    pub fn ifft(&self, axis: isize, length: usize) -> Result<Tensor> {
        let waves = |parts: usize, dtype| {
            waves(self.pool(), 1.0, length, parts, length, 2, DType::F64)?
                .div(length.max(1) as f64)?
                .to_dtype(dtype)
        };
        self.transformed("ifft", axis, length, 2, waves)
    }

    /// The `length` real elements of which these are the frequencies, those up to the middle: the others mirror them.
    pub fn irfft(&self, axis: isize, length: usize) -> Result<Tensor> {
        let half = length / 2 + 1;
        let waves = |parts: usize, dtype| {
            // Each counts for its mirror image, too, save the first, and the last of an even length.
            let places = Tensor::arange(self.pool(), 0, half as i64, 1, DType::I64)?;
            let own = places
                .eq(0)?
                .logical_or(&places.mul(2)?.eq(length as i64)?)?;
            let counts = own
                .to_dtype(DType::F64)?
                .rsub(2.0)?
                .div(length.max(1) as f64)?;
            waves(self.pool(), 1.0, half, parts, length, 1, DType::F64)?
                .mul(&counts.view(&[1, half, 1, 1])?)?
                .to_dtype(dtype)
        };
        self.transformed("irfft", axis, half, 1, waves)
    }

    /// The product with `[parts here, elements here, parts there, elements there]`.
    fn transformed(
        &self,
        op: &'static str,
        axis: isize,
        read: usize,
        made: usize,
        waves: impl Fn(usize, DType) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let axis = self.axis(op, axis)?;
        let parts = self.shape().last().copied().unwrap_or(0);
        if axis + 1 >= self.rank() || !(1..=2).contains(&parts) {
            let expected = "[..., 1 or 2], and the axis not the last";
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        super::checks::floats(op, "self", self)?;
        let own = self.shape()[axis];
        let taken = match own < read {
            true => {
                let mut amounts = vec![(0, 0); self.rank()];
                amounts[axis] = (0, (read - own) as isize);
                self.pad(&amounts, Padding::Constant(0.into()))?
            }
            false => self.narrow(axis as isize, 0, read)?,
        };
        let dtype = wide(self.dtype());
        // `[..., parts, elements]`, with the axis last.
        let rows = taken
            .to_dtype(dtype)?
            .unsqueeze(-1)?
            .transpose(axis as isize, -1)?
            .squeeze(axis as isize)?;
        let kept = &rows.shape()[..rows.rank() - 2];
        let flat = rows.reshape(&[kept, &[parts * read]].concat())?;
        let waves = waves(parts, dtype)?;
        let there = waves.shape()[3];
        let product = flat.matmul(&waves.reshape(&[parts * read, made * there])?)?;
        let product = product.reshape(&[kept, &[made, there]].concat())?;
        let back = product
            .unsqueeze(axis as isize)?
            .transpose(axis as isize, -1)?
            .squeeze(-1)?;
        back.to_dtype(self.dtype())
    }
}

/// What part `p` of element `j` here gives to part `q` of element `k` there: `[p, j, q, k]`, for waves that turn by
/// `sign`.
fn waves(
    pool: &Pool,
    sign: f64,
    here: usize,
    parts: usize,
    there: usize,
    made: usize,
    dtype: DType,
) -> Result<Tensor> {
    // The length of the longer side is the period.
    let period = here.max(there).max(1);
    let count = |size: usize| Tensor::arange(pool, 0, size as i64, 1, DType::I64);
    let turns = count(here)?
        .view(&[here, 1, 1])?
        .mul(&count(there)?)?
        .rem(period as i64)?;
    let angle = turns.to_dtype(DType::F64)?.mul(TAU / period as f64)?;
    let (cos, sin) = (angle.cos()?, angle.sin()?.mul(sign)?);
    // (re + i im) (cos + i sin)
    let real = [&cos, &sin];
    let imaginary = [&sin.neg()?, &cos];
    let mut rows = Vec::new();
    for row in [real, imaginary].into_iter().take(parts) {
        rows.push(Tensor::cat(&row[..made], 1)?);
    }
    Tensor::stack(&rows.iter().collect::<Vec<_>>(), 0)?.to_dtype(dtype)
}
