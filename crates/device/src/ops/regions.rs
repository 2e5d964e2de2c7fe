//! Regions of pictures at one size.

use crate::check::{countable, dtype, float, require, same_type, shape, single, writable};
use crate::{Access, DType, OpKind, Result, View};

/// `dst[r, c] =` region `r` of picture `batches[r]`, divided into as many cells as `dst` has rows and columns, each of them
/// the mean of samples spread over it evenly.
///
/// A sample lies between four elements and is interpolated between them. One less than a row or column beyond the edge
/// is at the edge; one that is farther away is zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regions<T = View> {
    /// `[pictures, channels, height, width]`, floats; at least one row and column.
    pub src: T,
    /// `[regions, 4]`, corners as `x, y, x, y`: of the type that `src` is computed in.
    pub corners: T,
    /// `[regions]`, `i64`: the picture of each.
    pub batches: T,
    /// `[regions, channels, rows, columns]`, of the type of `src`.
    pub dst: T,
    /// Multiplied onto the corners.
    pub scale: f64,
    /// Samples along each side of a cell; 0 for as many as a cell has elements there, rounded up.
    pub samples: usize,
    /// Whether corners are moved by half an element, so that elements are cells; else regions have at least one element.
    pub aligned: bool,
    /// Whether a cell is the largest of its samples' weighted neighbours, instead of the samples' mean.
    pub largest: bool,
}

/// The most samples along a side of a cell.
const MOST_SAMPLES: usize = 1 << 16;

impl<T> Regions<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Regions<U>, E> {
        Ok(Regions {
            src: f("src", Access::Read, &self.src)?,
            corners: f("corners", Access::Read, &self.corners)?,
            batches: f("batches", Access::Read, &self.batches)?,
            dst: f("dst", Access::Write, &self.dst)?,
            scale: self.scale,
            samples: self.samples,
            aligned: self.aligned,
            largest: self.largest,
        })
    }
}

impl Regions<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Regions;
        let Regions { src, dst, .. } = self;
        writable(kind, "dst", dst)?;
        float(kind, "src", src)?;
        same_type(kind, "dst", dst, src)?;
        let of_sums = match src.dtype() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        dtype(kind, "corners", self.corners.dtype(), of_sums)?;
        dtype(kind, "batches", self.batches.dtype(), DType::I64)?;
        for (argument, view) in [("src", src), ("dst", dst)] {
            crate::check::rank(kind, argument, view, 4)?;
        }
        let count = dst.shape()[0];
        shape(kind, "corners", self.corners.shape(), &[count, 4])?;
        shape(kind, "batches", self.batches.shape(), &[count])?;
        require(
            kind,
            "dst",
            dst.shape()[1] == src.shape()[1],
            format_args!("of {} channels", dst.shape()[1]),
            format_args!("{}, as src has", src.shape()[1]),
        )?;
        require(
            kind,
            "src",
            src.layout().elements() > 0 || dst.layout().elements() == 0,
            format_args!("of shape {:?}", src.shape()),
            "at least one element to look at",
        )?;
        require(
            kind,
            "samples",
            self.samples <= MOST_SAMPLES,
            self.samples,
            format_args!("at most {MOST_SAMPLES}"),
        )?;
        let [.., rows, columns] = *dst.shape() else {
            return Ok(());
        };
        countable(kind, "dst", "rows of samples", [rows, self.samples.max(1)])?;
        countable(
            kind,
            "dst",
            "columns of samples",
            [columns, self.samples.max(1)],
        )?;
        single(kind, "scale", self.scale, src.dtype())
    }

    /// About how many elements are looked at: cells of regions seldom overlap, so that all together see each element of a
    /// picture a few times; or as many as there are samples.
    pub(crate) fn seen(&self) -> u64 {
        let sizes = |sizes: &[usize]| {
            let sizes = sizes.iter().map(|&size| size as u64);
            sizes.fold(4, u64::saturating_mul)
        };
        let (src, dst) = (self.src.shape(), self.dst.shape());
        match self.samples {
            0 => sizes(&[dst[0], dst[1], src[2], src[3]]).max(sizes(dst)),
            samples => sizes(&[dst[0], dst[1], dst[2], dst[3], samples, samples]),
        }
    }
}
