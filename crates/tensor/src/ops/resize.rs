//! Interpolation to other sizes.

use streampool_device::{Along, Dims, Interpolation, Op, Resize, Rounding};

use crate::{Error, Result, Tensor};

/// Where the elements of the result lie among those of the source, along an axis of `from` elements that becomes one
/// of `to`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Alignment {
    /// Elements are cells whose outer edges meet.
    #[default]
    HalfPixel,
    /// As `HalfPixel`, with cells that stay in the middle where a scale that is given leaves a remainder.
    HalfPixelSymmetric,
    /// As `HalfPixel`, but a single element lies at the start.
    PyTorchHalfPixel,
    /// The first meet, and so do the last.
    Corners,
    /// The first meet, and the distance is the scale.
    Asymmetric,
    /// The part of the source from the first to the second number (0 is its first element, 1 its last), corners
    /// aligned.
    Crop(f64, f64),
}

/// How sizes are changed.
#[derive(Debug, Clone, Copy)]
pub struct ResizeOptions {
    /// How values between elements are made.
    pub interpolation: Interpolation,
    /// Where elements lie.
    pub alignment: Alignment,
    /// Whether making smaller averages over all elements.
    pub antialias: bool,
    /// Whether elements beyond an edge get no weight, instead of that of the edge.
    pub exclude_outside: bool,
    /// The value of places beyond the source, where `Crop` reaches there; the edge's, if left out.
    pub outside: Option<f64>,
}

impl Default for ResizeOptions {
    fn default() -> Self {
        ResizeOptions {
            interpolation: Interpolation::Linear,
            alignment: Alignment::HalfPixel,
            antialias: false,
            exclude_outside: false,
            outside: None,
        }
    }
}

impl Tensor {
    /// The tensor at the sizes `shape`, one for each axis.
    pub fn resize(&self, shape: &[usize], options: &ResizeOptions) -> Result<Tensor> {
        let scales: Vec<f64> = self
            .shape()
            .iter()
            .zip(shape)
            .map(|(&from, &to)| to as f64 / from as f64)
            .collect();
        self.resize_scaled(
            shape,
            &scales,
            &vec![options.alignment; self.rank()],
            options,
        )
    }

    /// As [`resize`](Self::resize), with the scale and the alignment of each axis, where a scale is not just the
    /// quotient of the sizes; the alignment of `options` does not count.
    pub fn resize_scaled(
        &self,
        shape: &[usize],
        scales: &[f64],
        alignments: &[Alignment],
        options: &ResizeOptions,
    ) -> Result<Tensor> {
        let on = self.encoder("resize")?;
        for (argument, count) in [
            ("shape", shape.len()),
            ("scales", scales.len()),
            ("alignments", alignments.len()),
        ] {
            if count != self.rank() {
                let expected = format!("{}, one for each axis of {:?}", self.rank(), self.shape());
                let got = format!("{count} values");
                return Err(Error::parameter(on.op(), argument, got, expected));
            }
        }
        let mut along = Dims::new(&[Along::default(); streampool_device::MAX_RANK][..self.rank()])?;
        for (axis, place) in along.iter_mut().enumerate() {
            let (from, to) = (self.shape()[axis], shape[axis]);
            let same = from == to && !matches!(alignments[axis], Alignment::Crop(..));
            if to > 0 && !(same && scales[axis] == 1.0) {
                *place = alignments[axis].along(from, to, scales[axis]);
                if let (Interpolation::Nearest(rounding), None) =
                    (options.interpolation, options.outside)
                {
                    place.shift += nudge(rounding, from);
                }
            }
        }
        let mut dst = on.blank(self.dtype(), shape)?;
        on.encode(Op::Resize(Resize {
            src: self.operand()?,
            dst: dst.operand()?,
            along,
            interpolation: options.interpolation,
            antialias: options.antialias,
            exclude_outside: options.exclude_outside,
            outside: options.outside,
        }))?;
        Ok(dst.finish())
    }
}

/// What a place is moved by, so that one which is an element, or half way between two, counts as that where a product of numbers that
/// were rounded lies beside it: more than that is off, and far less than places are apart.
fn nudge(rounding: Rounding, from: usize) -> f64 {
    let off = (from as f64 + 1.0) * 8.0 * f64::EPSILON;
    match rounding {
        Rounding::HalfDown | Rounding::Ceil => -off,
        Rounding::HalfUp | Rounding::Floor => off,
    }
}

impl Alignment {
    fn along(self, from: usize, to: usize, scale: f64) -> Along {
        let (size, count) = (from as f64, to as f64);
        let half_pixel = Along {
            scale: 1.0 / scale,
            shift: 0.5 / scale - 0.5,
        };
        match self {
            Alignment::HalfPixel => half_pixel,
            Alignment::HalfPixelSymmetric => {
                let adjustment = count / (scale * size);
                Along {
                    shift: size / 2.0 * (1.0 - adjustment) + half_pixel.shift,
                    ..half_pixel
                }
            }
            Alignment::PyTorchHalfPixel if to == 1 => Along {
                scale: 0.0,
                shift: 0.0,
            },
            Alignment::PyTorchHalfPixel => half_pixel,
            Alignment::Corners => Along {
                scale: if to == 1 {
                    0.0
                } else {
                    // A scale that is given may leave a part of an element.
                    (size - 1.0) / (size * scale - 1.0)
                },
                shift: 0.0,
            },
            Alignment::Asymmetric => Along {
                scale: 1.0 / scale,
                shift: 0.0,
            },
            Alignment::Crop(start, end) if to == 1 => Along {
                scale: 0.0,
                shift: 0.5 * (start + end) * (size - 1.0),
            },
            Alignment::Crop(start, end) => Along {
                scale: (end - start) * (size - 1.0) / (count - 1.0),
                shift: start * (size - 1.0),
            },
        }
    }
}
