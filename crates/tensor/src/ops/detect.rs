//! Boxes in pictures.

use super::checks::{floats, shaped};
use super::formula::wide;
use super::grid::{Lookup, Outside, Sampling};
use crate::{Error, Result, Tensor};

/// How a box is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoxFormat {
    /// Two opposite corners: `[y, x, y, x]`, or `[x, y, x, y]`.
    #[default]
    Corners,
    /// The middle and the size: `[x, y, width, height]`.
    Center,
}

/// How [`roi_align`](Tensor::roi_align) samples.
#[derive(Debug, Clone, Copy)]
pub struct RoiOptions {
    /// The rows and columns that each region becomes.
    pub sizes: [usize; 2],
    /// How many samples there are to a row or column of the result; 0 for as many as a region has elements there.
    pub samples: usize,
    /// Multiplied onto the regions' corners.
    pub scale: f64,
    /// Whether corners are moved by half an element, so that elements are cells; else regions have at least one element.
    pub aligned: bool,
    /// Whether the largest of the weighted neighbours of the samples counts, as ONNX has it, instead of the samples' mean.
    pub largest: bool,
}

impl Tensor {
    /// Regions of `[batch, channels, height, width]` at one size each, `[regions, channels, rows, columns]`, by linear
    /// interpolation. `regions` is `[regions, 4]`, corners as `x, y, x, y`, and `batches` says in which batch each is.
    ///
    /// Without a number of samples it waits for the regions.
    pub fn roi_align(
        &self,
        regions: &Tensor,
        batches: &Tensor,
        options: &RoiOptions,
    ) -> Result<Tensor> {
        let op = "roi_align";
        floats(op, "self", self)?;
        let [_, channels, ..] = *self.shape() else {
            return Err(Error::shape(
                op,
                "self",
                self.shape(),
                "[batch, channels, height, width]",
            ));
        };
        let count = batches.elem_count();
        shaped(
            op,
            "regions",
            regions,
            &[count, 4],
            "the corners of each region",
        )?;
        let [rows, columns] = options.sizes;
        if self.rank() != 4 || rows == 0 || columns == 0 {
            let expected = "[batch, channels, height, width], and at least one row and column";
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        let half = if options.aligned { 0.5 } else { 0.0 };
        let corners = regions
            .to_dtype(wide(self.dtype()))?
            .mul(options.scale)?
            .sub(half)?;
        let start = corners.narrow(1, 0, 2)?;
        let mut spread = corners.narrow(1, 2, 2)?.sub(&start)?;
        if !options.aligned {
            spread = spread.maximum(1.0)?;
        }
        // Down, then across.
        let cell = |column: isize, size: usize| spread.select(1, column)?.div(size as f64);
        let (cells, start) = (
            [cell(1, rows)?, cell(0, columns)?],
            [start.select(1, 1)?, start.select(1, 0)?],
        );
        if options.samples > 0 {
            let x = self.index_select(0, batches)?;
            return sampled(&x, &start, &cells, options, [options.samples; 2]);
        }
        let counts = |cells: &Tensor| {
            cells
                .ceil()?
                .maximum(0.0)?
                .to_dtype(streampool_device::DType::I64)?
                .to_vec::<i64>()
        };
        let (down, across) = (counts(&cells[0])?, counts(&cells[1])?);
        let mut made = vec![Tensor::zeros(
            self.pool(),
            &[0, channels, rows, columns],
            self.dtype(),
        )?];
        for region in 0..count {
            let x = self.index_select(0, &batches.narrow(0, region, 1)?)?;
            let own = |tensor: &Tensor| tensor.narrow(0, region, 1);
            let (start, cells) = (
                [own(&start[0])?, own(&start[1])?],
                [own(&cells[0])?, own(&cells[1])?],
            );
            let samples = [down[region] as usize, across[region] as usize];
            if samples.contains(&0) {
                // Nothing is summed.
                let shape = [1, channels, rows, columns];
                made.push(Tensor::zeros(self.pool(), &shape, self.dtype())?);
                continue;
            }
            made.push(sampled(&x, &start, &cells, options, samples)?);
        }
        Tensor::cat(&made.iter().collect::<Vec<_>>(), 0)
    }

    /// Of boxes, `[boxes, 4]`, those that are rated above `least` and share no more than `overlap` (of the area of both
    /// together) with a better one that is kept: their numbers, the best first, as `i64`.
    ///
    /// Waits for which boxes overlap.
    pub fn non_max_suppression(
        &self,
        ratings: &Tensor,
        format: BoxFormat,
        overlap: f64,
        least: f64,
    ) -> Result<Tensor> {
        let op = "non_max_suppression";
        floats(op, "self", self)?;
        let count = ratings.elem_count();
        shaped(op, "ratings", ratings, &[count], "one for each box")?;
        shaped(op, "self", self, &[count, 4], "as there are ratings")?;
        let (ratings, order) = ratings.sort(0, true)?;
        let boxes = self.index_select(0, &order)?;
        let (first, second) = (boxes.narrow(1, 0, 2)?, boxes.narrow(1, 2, 2)?);
        let (low, high) = match format {
            BoxFormat::Corners => (first.minimum(&second)?, first.maximum(&second)?),
            BoxFormat::Center => {
                let half = second.div(2.0)?;
                (first.sub(&half)?, first.add(&half)?)
            }
        };
        let area = |sizes: &Tensor| sizes.select(-1, 0)?.mul(&sizes.select(-1, 1)?);
        let areas = area(&high.sub(&low)?)?;
        // Each with each: `[boxes, boxes, 2]`.
        let near = high.unsqueeze(0)?.minimum(&high.unsqueeze(1)?)?;
        let far = low.unsqueeze(0)?.maximum(&low.unsqueeze(1)?)?;
        let shared = area(&near.sub(&far)?.maximum(0.0)?)?;
        let together = areas
            .unsqueeze(0)?
            .add(&areas.unsqueeze(1)?)?
            .sub(&shared)?;
        let rivals = shared.div(&together)?.gt(overlap)?.to_vec::<bool>()?;
        let rated = ratings.gt(least)?.to_vec::<bool>()?;
        let mut kept: Vec<usize> = Vec::new();
        for place in 0..count {
            if rated[place] && !kept.iter().any(|better| rivals[place * count + better]) {
                kept.push(place);
            }
        }
        let kept: Vec<i64> = kept.into_iter().map(|place| place as i64).collect();
        order.index_select(0, &Tensor::from_vec(self.pool(), kept)?)
    }
}

/// One region of each batch, from `start`, in cells of these sizes, each `[regions]`, down and across.
fn sampled(
    x: &Tensor,
    start: &[Tensor; 2],
    cells: &[Tensor; 2],
    options: &RoiOptions,
    samples: [usize; 2],
) -> Result<Tensor> {
    let (regions, channels) = (x.shape()[0], x.shape()[1]);
    // Of more than a shape may have, the first tensor is refused.
    let count = [0, 1].map(|axis| options.sizes[axis].saturating_mul(samples[axis]));
    let along = |axis: usize| -> Result<(Tensor, Tensor)> {
        let middle = 0.5 / samples[axis] as f64;
        let last = options.sizes[axis] as f64 - middle;
        let steps = Tensor::linspace(x.pool(), middle, last, count[axis], start[axis].dtype())?;
        let places = cells[axis]
            .unsqueeze(1)?
            .mul(&steps)?
            .add(&start[axis].unsqueeze(1)?)?;
        let places = places.unsqueeze(if axis == 0 { 2 } else { 1 })?;
        let places = places.broadcast_to(&[regions, count[0], count[1]])?;
        let places = places.reshape(&[regions, count[0].saturating_mul(count[1])])?;
        let size = x.shape()[axis + 2] as f64;
        let inside = places.ge(-1.0)?.logical_and(&places.le(size)?)?;
        Ok((places, inside))
    };
    let ((down, inside_rows), (across, inside_columns)) = (along(0)?, along(1)?);
    let lookup = Lookup {
        sampling: Sampling::Linear,
        outside: Outside::Edge,
        mirrors_inside: false,
    };
    let parts = lookup.parts(x, &[down, across])?;
    let joined = |a: &Tensor, b: &Tensor| {
        if options.largest {
            a.maximum(b)
        } else {
            a.add(b)
        }
    };
    let (first, others) = parts.split_first().ok_or_else(|| {
        Error::shape(
            "roi_align",
            "self",
            x.shape(),
            "[batch, channels, height, width]",
        )
    })?;
    let found = others
        .iter()
        .try_fold(first.clone(), |sum, part| joined(&sum, part))?;
    let inside = inside_rows.logical_and(&inside_columns)?.unsqueeze(1)?;
    let found = inside.where_cond(&found, 0.0)?;
    let [rows, columns] = options.sizes;
    let found = found.reshape(&[regions, channels, rows, samples[0], columns, samples[1]])?;
    let pooled = match options.largest {
        true => found.max(&[3, 5], false)?,
        false => found.mean(&[3, 5], false)?,
    };
    pooled.to_dtype(x.dtype())
}
