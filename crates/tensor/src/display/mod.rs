//! How tensors are shown: values as NumPy shows them, then shape, type and device.

mod number;

use std::fmt;

use streampool_device::{DType, Layout, Op};

use self::number::{Numbers, Texts};
use crate::{Encoder, Result, Tensor};

/// A tensor of more elements is summarised.
const MOST: usize = 1000;

/// How many elements of each end of an axis a summary shows.
const EDGE: usize = 3;

/// How wide a line gets before it is broken.
const WIDTH: usize = 100;

/// Its values, after waiting for them. One that cannot be read shows why.
///
/// ```text
/// [[1.5  2. ]
///  [ nan inf]]
/// f32 of shape [2, 2] on host
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Shown::of(self) {
            Ok(shown) => shown.write(f, self.shape())?,
            Err(error) => write!(f, "cannot be read: {error}")?,
        }
        write!(
            f,
            "\n{} of shape {:?} on {}",
            self.dtype(),
            self.shape(),
            self.device()
        )
    }
}

/// What it is, without its values: nothing is waited for.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({}, shape {:?}, on {}",
            self.dtype(),
            self.shape(),
            self.device()
        )?;
        if !self.is_contiguous() || self.layout().offset() != 0 {
            let layout = self.layout();
            write!(
                f,
                ", strides {:?} from {}",
                layout.strides(),
                layout.offset()
            )?;
        }
        f.write_str(")")
    }
}

/// The values that are shown, as text.
struct Shown {
    texts: Texts,
    summarised: bool,
}

impl Shown {
    fn of(tensor: &Tensor) -> Result<Shown> {
        let summarised = tensor.elem_count() > MOST;
        let wide = match tensor.dtype() {
            DType::Bool => DType::Bool,
            DType::U64 => DType::U64,
            float if float.is_float() => DType::F64,
            _ => DType::I64,
        };
        let values = if summarised {
            corners(tensor, wide)?
        } else {
            tensor.to_dtype(wide)?
        };
        let numbers = match wide {
            DType::Bool => Numbers::Truths(values.to_vec()?),
            DType::U64 => Numbers::Naturals(values.to_vec()?),
            DType::F64 => Numbers::Floats(values.to_vec()?),
            _ => Numbers::Integers(values.to_vec()?),
        };
        Ok(Shown {
            texts: numbers.texts(),
            summarised,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, shape: &[usize]) -> fmt::Result {
        let mut next = self.texts.iter();
        self.write_axis(f, shape, 0, &mut next)
    }

    fn write_axis<'t>(
        &self,
        f: &mut fmt::Formatter<'_>,
        shape: &[usize],
        axis: usize,
        next: &mut impl Iterator<Item = &'t str>,
    ) -> fmt::Result {
        let Some(&size) = shape.get(axis) else {
            return f.write_str(next.next().unwrap_or_default());
        };
        let innermost = axis + 1 == shape.len();
        let mut column = axis + 1;
        f.write_str("[")?;
        // Without elements nothing fills the axes: as many brackets as there are numbers say nothing.
        let shown = if shape.contains(&0) {
            0
        } else {
            shown_of(size, self.summarised)
        };
        for index in 0..shown {
            if index > 0 {
                self.separate(f, shape, axis, &mut column)?;
            }
            if shown < size && index == EDGE {
                f.write_str("...")?;
                column += 3;
                self.separate(f, shape, axis, &mut column)?;
            }
            self.write_axis(f, shape, axis + 1, next)?;
            if innermost {
                column += self.texts.width();
            }
        }
        f.write_str("]")
    }

    /// What stands between two neighbours along `axis`: a space, or as many line ends as bring them apart.
    fn separate(
        &self,
        f: &mut fmt::Formatter<'_>,
        shape: &[usize],
        axis: usize,
        column: &mut usize,
    ) -> fmt::Result {
        let below = shape.len() - axis - 1;
        if below == 0 && *column + 1 + self.texts.width() < WIDTH {
            *column += 1;
            return f.write_str(" ");
        }
        *column = axis + 1;
        let ends = below.max(1);
        write!(f, "{}{}", "\n".repeat(ends), " ".repeat(axis + 1))
    }
}

/// How many elements of an axis are shown.
fn shown_of(size: usize, summarised: bool) -> usize {
    if summarised { size.min(2 * EDGE) } else { size }
}

/// The elements at the ends of each axis, brought together on the device: a large tensor is not downloaded to
/// show a few of its values.
fn corners(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    let shape: Vec<usize> = tensor
        .shape()
        .iter()
        .map(|&size| shown_of(size, true))
        .collect();
    let on = Encoder::new("display", tensor.pool())?;
    let mut together = on.blank(dtype, &shape)?;
    let mut pieces = vec![(*tensor.layout(), *together.layout())];
    for (axis, &size) in tensor.shape().iter().enumerate() {
        if size > 2 * EDGE {
            let halves = |(from, to): &(Layout, Layout)| {
                [(0, 0), (size - EDGE, EDGE)].map(|(first, place)| {
                    let from = from.slice(axis, first, first + EDGE, 1)?;
                    Ok((from, to.slice(axis, place, place + EDGE, 1)?))
                })
            };
            pieces = pieces.iter().flat_map(halves).collect::<Result<_>>()?;
        }
    }
    for (from, to) in pieces {
        on.encode(Op::Copy {
            src: tensor.operand_as(from)?,
            dst: together.operand_as(to)?,
        })?;
    }
    Ok(together.finish())
}
