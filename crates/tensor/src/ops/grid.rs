//! Values between elements, looked up in places that are given.

use streampool_device::DType;

use super::checks::floats;
use super::formula::wide;
use crate::{Error, Pool, Result, Tensor};

/// How a value between elements is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampling {
    /// That of the nearest, halves to the even one.
    Nearest,
    /// On the line between two neighbours, in each axis.
    #[default]
    Linear,
    /// On Keys' cubic through four, with his parameter -3/4.
    Cubic,
}

/// What is beyond the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outside {
    /// Zeros.
    #[default]
    Zeros,
    /// The edge.
    Edge,
    /// What is inside, mirrored.
    Reflect,
}

/// How [`grid_sample`](Tensor::grid_sample) looks up.
#[derive(Debug, Clone, Copy, Default)]
pub struct GridOptions {
    /// How values are made.
    pub sampling: Sampling,
    /// What is beyond the edges.
    pub outside: Outside,
    /// Whether -1 and 1 are the middles of the first and last elements, instead of their outer edges.
    pub align_corners: bool,
}

/// Where elements are that a value in one place is made of, along one axis, and what each counts.
struct Tap {
    index: Tensor,
    weight: Option<Tensor>,
}

/// What is looked up, and how.
pub(super) struct Lookup {
    pub sampling: Sampling,
    pub outside: Outside,
    /// Whether mirrors stand at the middles of the outermost elements.
    pub mirrors_inside: bool,
}

impl Tensor {
    /// Places for [`grid_sample`](Self::grid_sample): for each batch of `self`, `[batch, axes, axes + 1]`, the affine image of
    /// a regular grid of these sizes: `[batch, sizes ..., axes]`, the last axis of the grid first.
    pub fn affine_grid(&self, sizes: &[usize], align_corners: bool) -> Result<Tensor> {
        let (op, rank) = ("affine_grid", sizes.len());
        floats(op, "self", self)?;
        let &[batch, rows, columns] = self.shape() else {
            return Err(Error::shape(
                op,
                "self",
                self.shape(),
                "[batch, axes, axes + 1]",
            ));
        };
        if (rows, columns) != (rank, rank + 1) {
            let expected = format!("[batch, {rank}, {}]", rank + 1);
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        let dtype = wide(self.dtype());
        let mut parts = Vec::new();
        for (axis, &size) in sizes.iter().enumerate().rev() {
            let mut along = vec![1; rank];
            along[axis] = size;
            let line = line(self.pool(), size, align_corners, dtype)?.view(&along)?;
            parts.push(line.broadcast_to(sizes)?);
        }
        parts.push(Tensor::ones(self.pool(), sizes, dtype)?);
        let points = Tensor::stack(&parts.iter().collect::<Vec<_>>(), -1)?;
        let points = points.reshape(&[sizes.iter().product::<usize>(), rank + 1])?;
        let moved = points.matmul(&self.to_dtype(dtype)?.transpose(1, 2)?)?;
        moved
            .reshape(&[&[batch], sizes, &[rank]].concat())?
            .to_dtype(self.dtype())
    }

    /// `[batch, channels, spatial ...]` looked up in the places `grid`, `[batch, sizes ..., axes]`: `[batch, channels, sizes
    /// ...]`. Places count from -1 to 1, the last spatial axis first.
    pub fn grid_sample(&self, grid: &Tensor, options: &GridOptions) -> Result<Tensor> {
        let op = "grid_sample";
        floats(op, "self", self)?;
        let &[batch, channels, ref spatial @ ..] = self.shape() else {
            let expected = "[batch, channels, spatial ...]";
            return Err(Error::shape(op, "self", self.shape(), expected));
        };
        let rank = spatial.len();
        let &[of, ref sizes @ .., axes] = grid.shape() else {
            return Err(Error::shape(
                op,
                "grid",
                grid.shape(),
                "[batch, sizes ..., axes]",
            ));
        };
        if (of, axes) != (batch, rank) {
            let expected = format!("[{batch}, sizes ..., {rank}]");
            return Err(Error::shape(op, "grid", grid.shape(), expected));
        }
        let count = sizes.iter().product::<usize>();
        let grid = grid.to_dtype(wide(self.dtype()))?;
        let mut places = Vec::new();
        for (axis, &size) in spatial.iter().enumerate() {
            let along = grid
                .select(-1, (rank - 1 - axis) as isize)?
                .reshape(&[batch, count])?;
            let size = size as f64;
            places.push(match options.align_corners {
                true => along.add(1.0)?.mul((size - 1.0) / 2.0)?,
                false => along.add(1.0)?.mul(size / 2.0)?.sub(0.5)?,
            });
        }
        let lookup = Lookup {
            sampling: options.sampling,
            outside: options.outside,
            mirrors_inside: options.align_corners,
        };
        let found = lookup.find(self, &places)?;
        found.reshape(&[&[batch, channels], sizes].concat())
    }
}

/// Evenly from -1 to 1.
fn line(pool: &Pool, size: usize, align_corners: bool, dtype: DType) -> Result<Tensor> {
    let edge = match align_corners {
        true => 1.0,
        false => 1.0 - 1.0 / size.max(1) as f64,
    };
    Tensor::linspace(pool, -edge, edge, size, dtype)
}

impl Lookup {
    /// The values of `[batch, channels, spatial ...]` in places, each `[batch, places]` along one axis, where 0 is the first
    /// element: `[batch, channels, places]`.
    pub fn find(&self, x: &Tensor, places: &[Tensor]) -> Result<Tensor> {
        let parts = self.parts(x, places)?;
        let (first, others) = parts.split_first().ok_or_else(|| {
            Error::shape(
                "grid_sample",
                "self",
                x.shape(),
                "at least one spatial axis",
            )
        })?;
        others
            .iter()
            .try_fold(first.clone(), |sum, part| sum.add(part))?
            .to_dtype(x.dtype())
    }

    /// What the elements around each place give to its value.
    pub fn parts(&self, x: &Tensor, places: &[Tensor]) -> Result<Vec<Tensor>> {
        let (batch, channels) = (x.shape()[0], x.shape()[1]);
        let flat = x.reshape(&[batch, channels, x.shape()[2..].iter().product()])?;
        let flat = flat.to_dtype(wide(x.dtype()))?;
        // Row-major indices, one axis after the other.
        let mut corners = vec![None];
        for (place, &size) in places.iter().zip(&x.shape()[2..]) {
            let taps = self.taps(place, size)?;
            let mut finer = Vec::new();
            for corner in &corners {
                for tap in &taps {
                    finer.push(Some(tap.behind(corner.as_ref(), size)?));
                }
            }
            corners = finer;
        }
        let count = places.first().map_or(0, |place| place.shape()[1]);
        let shape = [batch, channels, count];
        let mut parts = Vec::new();
        for corner in corners.into_iter().flatten() {
            let index = corner.index.unsqueeze(1)?.broadcast_to(&shape)?;
            let found = flat.gather(2, &index)?;
            parts.push(match corner.weight {
                Some(weight) => found.mul(&weight.unsqueeze(1)?)?,
                None => found,
            });
        }
        Ok(parts)
    }

    fn taps(&self, place: &Tensor, size: usize) -> Result<Vec<Tap>> {
        let last = size as f64 - 1.0;
        let place = match self.sampling {
            Sampling::Nearest => place.round()?,
            _ => place.clone(),
        };
        let place = match self.outside {
            Outside::Zeros => place,
            // Of a cubic, whose neighbours beyond count, each neighbour is moved to the edge by itself.
            Outside::Edge if self.sampling == Sampling::Cubic => place,
            Outside::Edge => place.clamp(0.0, last)?,
            Outside::Reflect => self.mirrored(&place, last)?,
        };
        if self.sampling == Sampling::Nearest {
            return Ok(vec![self.tap(&place, None, last)?]);
        }
        let base = place.floor()?;
        let beyond = place.sub(&base)?;
        let weights = match self.sampling {
            Sampling::Cubic => {
                let distance = [
                    beyond.add(1.0)?,
                    beyond.clone(),
                    beyond.rsub(1.0)?,
                    beyond.rsub(2.0)?,
                ];
                let [far, near, after, last] = distance;
                vec![
                    (-1.0, outer(&far)?),
                    (0.0, inner(&near)?),
                    (1.0, inner(&after)?),
                    (2.0, outer(&last)?),
                ]
            }
            _ => vec![(0.0, beyond.rsub(1.0)?), (1.0, beyond)],
        };
        let tap = |(offset, weight)| self.tap(&base.add(offset)?, Some(weight), last);
        weights.into_iter().map(tap).collect()
    }

    /// The element at a whole place, which may be outside.
    fn tap(&self, place: &Tensor, weight: Option<Tensor>, last: f64) -> Result<Tap> {
        let (place, weight) = match self.outside {
            Outside::Zeros => {
                let inside = place
                    .ge(0.0)?
                    .logical_and(&place.le(last)?)?
                    .to_dtype(place.dtype())?;
                let weight = match weight {
                    Some(weight) => weight.mul(&inside)?,
                    None => inside,
                };
                (place.clone(), Some(weight))
            }
            Outside::Edge => (place.clone(), weight),
            Outside::Reflect => (self.mirrored(place, last)?.round()?, weight),
        };
        let index = place.clamp(0.0, last)?.to_dtype(DType::I64)?;
        Ok(Tap { index, weight })
    }

    /// Thrown back and forth between the mirrors.
    fn mirrored(&self, place: &Tensor, last: f64) -> Result<Tensor> {
        let beyond = if self.mirrors_inside { 0.0 } else { 0.5 };
        let (low, width) = (-beyond, last + 2.0 * beyond);
        if width <= 0.0 {
            return place.full_like(0.0);
        }
        let distance = place.sub(low)?.abs()?;
        let within = distance.modulo(2.0 * width)?;
        within.minimum(&within.rsub(2.0 * width)?)?.add(low)
    }
}

impl Tap {
    /// The place along one more axis of `size`, and the weights' product.
    fn behind(&self, corner: Option<&Tap>, size: usize) -> Result<Tap> {
        let Some(corner) = corner else {
            return Ok(Tap {
                index: self.index.clone(),
                weight: self.weight.clone(),
            });
        };
        let weight = match (&corner.weight, &self.weight) {
            (Some(before), Some(own)) => Some(before.mul(own)?),
            (Some(only), None) | (None, Some(only)) => Some(only.clone()),
            (None, None) => None,
        };
        Ok(Tap {
            index: corner.index.mul(size as i64)?.add(&self.index)?,
            weight,
        })
    }
}

const KEYS: f64 = -0.75;

/// Keys' cubic at distances up to one.
fn inner(t: &Tensor) -> Result<Tensor> {
    let cube = t.mul(KEYS + 2.0)?.sub(KEYS + 3.0)?;
    cube.mul(t)?.mul(t)?.add(1.0)
}

/// Keys' cubic at distances from one to two.
fn outer(t: &Tensor) -> Result<Tensor> {
    let cube = t.mul(KEYS)?.sub(5.0 * KEYS)?;
    cube.mul(t)?.add(8.0 * KEYS)?.mul(t)?.sub(4.0 * KEYS)
}
