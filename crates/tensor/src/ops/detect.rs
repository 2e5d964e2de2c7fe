//! Regions of pictures.

use streampool_device::{DType, Op, Regions};

use super::checks::{floats, shaped};
use super::formula::wide;
use crate::{Error, Result, Tensor};

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
        let of_sums = wide(self.dtype());
        let on = self.encoder(op)?.with("regions", [regions, batches])?;
        let (corners, batches) = (regions.to_dtype(of_sums)?, batches.to_dtype(DType::I64)?);
        let batches = batches.reshape(&[count])?;
        let mut dst = on.blank(self.dtype(), &[count, channels, rows, columns])?;
        on.encode(Op::Regions(Regions {
            src: self.operand()?,
            corners: corners.operand()?,
            batches: batches.operand()?,
            dst: dst.operand()?,
            scale: options.scale,
            samples: options.samples,
            aligned: options.aligned,
            largest: options.largest,
        }))?;
        Ok(dst.finish())
    }
}
