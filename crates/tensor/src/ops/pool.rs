//! Pooling.

use streampool_device::{Combine, DType, Dims, Indexing, Op, Pool, PoolKind, Window};

use super::checks;
use super::formula::wide;
use super::window::{self, Sliding};
use crate::{Error, Result, Tensor, shape};

/// How windows slide. Slices hold a value for each spatial axis; empty ones mean the default everywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolOptions<'a> {
    /// The distance between neighbouring windows; 1.
    pub stride: &'a [usize],
    /// Padding before and after; none.
    pub padding: &'a [(usize, usize)],
    /// The distance between neighbouring elements of a window; 1.
    pub dilation: &'a [usize],
    /// Whether a window counts that begins inside but reaches beyond the padding.
    pub ceil: bool,
}

impl Tensor {
    /// The largest element of each window over `[batch, channels, spatial ...]`.
    pub fn max_pool(&self, kernel: &[usize], options: &PoolOptions<'_>) -> Result<Tensor> {
        self.pooled("max_pool", PoolKind::Max, kernel, options)
    }

    /// The largest element of each window, and where it is, counted row-major over the spatial axes, as `i64`.
    pub fn max_pool_with_indices(
        &self,
        kernel: &[usize],
        options: &PoolOptions<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let on = self.encoder("max_pool_with_indices")?;
        let window = self.pool_window(on.op(), kernel, options)?;
        let shape = self.pooled_shape(on.op(), &window, options.ceil)?;
        let mut largest = on.blank(self.dtype(), &shape)?;
        let mut indices = on.blank(DType::I64, &shape)?;
        on.encode(Op::Pool(Pool {
            kind: PoolKind::Max,
            src: self.operand()?,
            dst: largest.operand()?,
            indices: Some(indices.operand()?),
            window,
        }))?;
        Ok((largest.finish(), indices.finish()))
    }

    /// The mean of each window; padding counts as zeros if `count_padding`.
    pub fn avg_pool(
        &self,
        kernel: &[usize],
        count_padding: bool,
        options: &PoolOptions<'_>,
    ) -> Result<Tensor> {
        self.pooled(
            "avg_pool",
            PoolKind::Mean { count_padding },
            kernel,
            options,
        )
    }

    /// `(Σ |x|^p)^(1/p)` of each window, for `p` from 1e-30 to 1e30.
    pub fn lp_pool(&self, p: f64, kernel: &[usize], options: &PoolOptions<'_>) -> Result<Tensor> {
        let op = "lp_pool";
        if !(1e-30..=1e30).contains(&p) {
            return Err(Error::parameter(op, "p", p, "from 1e-30 to 1e30"));
        }
        self.pooled(op, PoolKind::Lp(p), kernel, options)
    }

    /// The mean over as many windows as `sizes` says, which cover each spatial axis evenly: window `i` of `n` covers
    /// elements `i * size / n` to `(i + 1) * size / n`, rounded outwards.
    pub fn adaptive_avg_pool(&self, sizes: &[usize]) -> Result<Tensor> {
        let kind = PoolKind::Mean {
            count_padding: false,
        };
        let op = "adaptive_avg_pool";
        let pooled = self.adaptive(op, kind, sizes);
        pooled.map_err(|error| error.named(op))
    }

    /// The largest element of as many windows as `sizes` says, which cover each spatial axis evenly, as for
    /// [`adaptive_avg_pool`](Self::adaptive_avg_pool).
    pub fn adaptive_max_pool(&self, sizes: &[usize]) -> Result<Tensor> {
        let op = "adaptive_max_pool";
        let pooled = self.adaptive(op, PoolKind::Max, sizes);
        pooled.map_err(|error| error.named(op))
    }

    /// What [`max_pool_with_indices`](Self::max_pool_with_indices) took apart: zeros of the spatial sizes `sizes`, with
    /// the elements where `indices` says.
    pub fn max_unpool(&self, indices: &Tensor, sizes: &[usize]) -> Result<Tensor> {
        let op = "max_unpool";
        let on = self.encoder(op)?.with("indices", [indices])?;
        let &[batch, channels, ref spatial @ ..] = self.shape() else {
            let expected = "[batch, channels, spatial ...]";
            return Err(Error::shape(op, "self", self.shape(), expected));
        };
        check_sizes(op, "sizes", sizes, spatial.len())?;
        checks::shaped(op, "indices", indices, self.shape(), "as self")?;
        let whole = [&[batch, channels], sizes].concat();
        // Checked whether there can be as many, before they are multiplied.
        let elements = shape::contiguous(op, &whole)?.elements();
        let planes = [batch, channels, elements / (batch * channels).max(1)];
        let seen = [batch, channels, spatial.iter().product()];
        let zeros = Tensor::zeros(self.pool(), &planes, self.dtype())?;
        let (indices, values) = (indices.reshape(&seen)?, self.reshape(&seen)?);
        let elements = Indexing::Elements(2);
        let placed = zeros.scattered(on, elements, Combine::Replace, &indices, &values)?;
        placed.view(&whole)
    }

    fn pooled(
        &self,
        op: &'static str,
        kind: PoolKind,
        kernel: &[usize],
        options: &PoolOptions<'_>,
    ) -> Result<Tensor> {
        let on = self.encoder(op)?;
        let window = self.pool_window(op, kernel, options)?;
        let shape = self.pooled_shape(op, &window, options.ceil)?;
        let mut dst = on.blank(self.dtype(), &shape)?;
        on.encode(Op::Pool(Pool {
            kind,
            src: self.operand()?,
            dst: dst.operand()?,
            indices: None,
            window,
        }))?;
        Ok(dst.finish())
    }

    fn pool_window(
        &self,
        op: &'static str,
        kernel: &[usize],
        options: &PoolOptions<'_>,
    ) -> Result<Window> {
        let spatial = self.spatial(op)?;
        check_sizes(op, "kernel", kernel, spatial.len())?;
        Sliding {
            op,
            kernel,
            stride: options.stride,
            padding: options.padding,
            dilation: options.dilation,
        }
        .window(spatial.len())
    }

    fn pooled_shape(&self, op: &'static str, window: &Window, ceil: bool) -> Result<Dims> {
        let mut shape = Dims::new(self.shape())?;
        for (axis, slide) in (2..).zip(window.iter()) {
            shape[axis] = window::count(op, self, axis, slide, ceil)?;
        }
        Ok(shape)
    }

    fn adaptive(&self, op: &'static str, kind: PoolKind, sizes: &[usize]) -> Result<Tensor> {
        let spatial = self.spatial(op)?;
        check_sizes(op, "sizes", sizes, spatial.len())?;
        if spatial.contains(&0) {
            let expected = "at least one element in each spatial axis";
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        if sizes.contains(&0) {
            let (got, expected) = (format_args!("{sizes:?}"), "at least 1 for each axis");
            return Err(Error::parameter(op, "sizes", got, expected));
        }
        if let PoolKind::Mean { .. } = kind {
            checks::floats(op, "self", self)?;
        }
        let even = spatial
            .iter()
            .zip(sizes)
            .all(|(size, count)| size.is_multiple_of(*count));
        if even {
            let kernel: Vec<usize> = spatial.iter().zip(sizes).map(|(a, b)| a / b).collect();
            let options = PoolOptions {
                stride: &kernel,
                ..PoolOptions::default()
            };
            return self.pooled(op, kind, &kernel, &options);
        }
        let mut result = self.to_dtype(wide(self.dtype()))?;
        for (axis, &count) in (2..).zip(sizes) {
            if count != self.shape()[axis] {
                result = result.adapted(op, kind, axis, count)?;
            }
        }
        result.to_dtype(self.dtype())
    }

    /// Windows along one axis: the elements of each picked, one more for those that have one less, and reduced.
    fn adapted(
        &self,
        op: &'static str,
        kind: PoolKind,
        axis: usize,
        count: usize,
    ) -> Result<Tensor> {
        let size = self.shape()[axis];
        let most = i64::MAX as usize / (size + 1) - 1;
        if count > most {
            let expected = format!("at most {most} windows over axis {axis}");
            return Err(Error::parameter(op, "sizes", count, expected));
        }
        let integers = |count: usize| Tensor::arange(self.pool(), 0, count as i64, 1, DType::I64);
        let (windows, longest) = (integers(count)?.unsqueeze(1)?, size.div_ceil(count) + 1);
        let (size, count) = (size as i64, count as i64);
        let start = windows.mul(size)?.div(count)?;
        let end = windows.add(1)?.mul(size)?.add(count - 1)?.div(count)?;
        let place = start.add(&integers(longest)?)?;
        let beyond = place.ge(&end)?;
        let picked = self.index_select(axis as isize, &place.minimum(&end.sub(1)?)?)?;
        let within = axis as isize + 1;
        if kind == PoolKind::Max {
            return picked.max(&[within], false);
        }
        // Both seen so that they broadcast to the axis and what is behind it.
        let behind = vec![1; self.rank() - axis - 1];
        let beyond = beyond.view(&[beyond.shape(), &behind].concat())?;
        let length = end.sub(&start)?.to_dtype(self.dtype())?;
        let length = length.view(&[&[count as usize][..], &behind].concat())?;
        let sum = picked.masked_fill(&beyond, 0.0)?.sum(&[within], false)?;
        sum.div(&length)
    }

    /// The sizes of the spatial axes.
    fn spatial(&self, op: &'static str) -> Result<&[usize]> {
        match self.shape() {
            [_, _, spatial @ ..] if (1..=3).contains(&spatial.len()) => Ok(spatial),
            other => {
                let expected = "[batch, channels, spatial ...] with 1 to 3 spatial axes";
                Err(Error::shape(op, "self", other, expected))
            }
        }
    }
}

fn check_sizes(
    op: &'static str,
    argument: &'static str,
    sizes: &[usize],
    count: usize,
) -> Result<()> {
    if sizes.len() == count {
        return Ok(());
    }
    let expected = format!("{count} sizes, one for each spatial axis");
    Err(Error::parameter(
        op,
        argument,
        format!("{sizes:?}"),
        expected,
    ))
}
