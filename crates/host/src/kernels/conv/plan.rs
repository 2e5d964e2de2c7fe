//! How one convolution is divided into parts, and the work of each.

use std::mem::MaybeUninit;
use std::ops::Range;

use streampool_device::Conv;

use super::Axis;
use super::image::{self, Part, SLACK, Shape, spatial};
use super::store::{Ending, store};
use super::sums::{Form, MOST_SUMS, Summed, Terms, best_form};
use super::weights::Weights;
use crate::given_up::{self, Steps};
use crate::kernels::convert::Float;
use crate::kernels::matmul::amx::BLOCK;
use crate::kernels::matmul::amx::gathered::Gathered;
use crate::kernels::matmul::blocked::even_parts;
use crate::kernels::scratch::{Count, LINE, with_scratch};
use crate::kernels::split::split;
use crate::kernels::strided::address;
use crate::team::Team;

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 19;
/// Multiplications of a part, at most: some tenths of a second.
const MOST_WORK: usize = 1 << 31;
/// Elements of the copy of a part of the image: with the weights, they stay in a second-level cache.
const MOST_COPIED: usize = 96 << 10;
/// Results of the banded dimension below which more bands would mostly copy what their neighbours do.
const LEAST_BAND: usize = 4;
/// As few rows of sums still pay for a copy of the image.
const LEAST_ROWS: usize = 16;

/// The division of a convolution; it serves every op that differs in where its operands lie.
pub(super) struct Plan {
    axes: [Axis; 3],
    /// Channels of a group that are read and made.
    read: usize,
    made: usize,
    /// The dimension that is cut into bands of so many results.
    banded: usize,
    band: usize,
    /// Into how many parts the rows are cut.
    row_parts: usize,
    /// Whether sums are the matrix unit's.
    on_amx: bool,
    shape: Shape,
    offsets: Vec<usize>,
}

impl Plan {
    pub(super) fn new(op: &Conv, axes: [Axis; 3], on_amx: bool, width: usize) -> Self {
        let (read, made) = (op.src.shape()[1] / op.groups, op.dst.shape()[1] / op.groups);
        let taps: usize = axes.iter().map(|axis| axis.taps.len()).product();
        // What no tap sees is not read.
        let read = if taps == 0 { 0 } else { read };
        let outputs = [0, 1, 2].map(|place| axes[place].outputs);
        let banded = (0..3).find(|&place| outputs[place] > 1).unwrap_or(2);
        let shape_of = |band: usize| {
            let mut part = outputs;
            part[banded] = band;
            Shape::new(&axes, part, banded != 2)
        };
        let mut band = outputs[banded];
        while band > 1 && read.saturating_mul(shape_of(band).channel) > MOST_COPIED {
            let half = band.div_ceil(2);
            // Most of it is what the window spans, which each band copies anew.
            let [less, more] = [half, band].map(|band| shape_of(band).channel);
            if less.saturating_mul(8) > more.saturating_mul(7) {
                break;
            }
            band = half;
        }
        let elements: usize = outputs.iter().product();
        let pairs = op.src.shape()[0] * op.groups;
        let work = [pairs, elements, made, read, taps.max(1)];
        let work = work.into_iter().fold(1, usize::saturating_mul);
        let wanted = match width {
            1 => 1,
            width => (work / GRAIN).min(4 * width),
        };
        // Between parts it is asked whether anybody still wants the work.
        let wanted = wanted.max(work / MOST_WORK);
        let bands = |band: usize| outputs[banded].div_ceil(band);
        let least = LEAST_BAND.max(outputs[banded].div_ceil(wanted.div_ceil(pairs).max(1)));
        band = band.min(least.max(1)).min(outputs[banded]);
        // Bands of the same size, nearly.
        band = outputs[banded].div_ceil(bands(band.max(1)).max(1)).max(1);
        let row_parts = wanted
            .div_ceil(pairs * bands(band))
            .min(made.div_ceil(if on_amx { 2 * BLOCK } else { LEAST_ROWS }))
            .max(1);
        let shape = shape_of(band);
        let offsets = shape.offsets(&axes, read);
        Plan {
            axes,
            read,
            made,
            banded,
            band,
            row_parts,
            on_amx,
            shape,
            offsets,
        }
    }

    /// # Safety
    /// As for `execute`; the elements are of type `T`.
    pub(super) unsafe fn execute<T: Float>(&self, op: &Conv, weights: &Weights<T>, team: &dyn Team)
    where
        T::Wide: Summed,
    {
        let bands = self.axes[self.banded].outputs.div_ceil(self.band);
        let parts = op.src.shape()[0] * op.groups * bands * self.row_parts;
        let each = self.made.saturating_mul(self.offsets.len());
        let each = each.saturating_mul(self.shape.plane) / self.row_parts;
        let form = best_form::<T::Wide>(self.made.div_ceil(self.row_parts));
        let work = |range: Range<usize>| {
            let elements = Count::of(self.read) * self.shape.channel + SLACK;
            let bytes = (elements * size_of::<T::Wide>()).rounded_to(LINE);
            let more = match self.on_amx {
                true => Gathered::scratch_bytes(self.made, self.offsets.len()),
                false => 0,
            };
            with_scratch(bytes + more, |scratch: *mut u8| {
                for number in range {
                    given_up::check();
                    let part = self.part(op, number, bands);
                    // SAFETY: parts are disjoint, and the scratch has room for the copy of any; the rest the
                    // caller promises.
                    unsafe {
                        let image: *mut T::Wide = scratch.cast();
                        let (axes, shape) = (&self.axes, &self.shape);
                        image::copy::<T>(&op.src, axes, shape, &part, self.read, image);
                        self.compute(op, &part, form, weights, image, scratch.add(bytes.here()));
                    }
                }
            });
        };
        // Few parts are taken one by one: in ranges, some thread would get one more than others.
        let few = 8 * team.width();
        match each >= GRAIN / 4 && parts <= few {
            true => team.run(parts, &|number| work(number..number + 1)),
            false => split(parts, GRAIN.div_ceil(each.max(1)), team, &work),
        }
    }

    fn part(&self, op: &Conv, number: usize, bands: usize) -> Part {
        let (number, rows) = (number / self.row_parts, number % self.row_parts);
        let (pair, band) = (number / bands, number % bands);
        let (mut first, mut outputs) = ([0; 3], [0, 1, 2].map(|place| self.axes[place].outputs));
        first[self.banded] = band * self.band;
        outputs[self.banded] = self
            .band
            .min(outputs[self.banded].saturating_sub(first[self.banded]));
        let step = if self.on_amx { BLOCK } else { 1 };
        let steps = self.made.div_ceil(step);
        let bound = |part: usize| (steps * part / self.row_parts * step).min(self.made);
        Part {
            image: pair / op.groups,
            group: pair % op.groups,
            first,
            outputs,
            rows: bound(rows)..bound(rows + 1),
        }
    }

    /// # Safety
    /// As for [`execute`](Self::execute); `image` is the copy that the part needs, and the scratch what the matrix unit
    /// does.
    unsafe fn compute<T: Float>(
        &self,
        op: &Conv,
        part: &Part,
        form: Form,
        weights: &Weights<T>,
        image: *const T::Wide,
        scratch: *mut u8,
    ) where
        T::Wide: Summed,
    {
        let [_, line_count, length] = part.outputs;
        if line_count == 0 || length == 0 {
            return;
        }
        let strides = op.dst.layout().strides();
        let place_of = |place: usize, output: usize| {
            let axis = &self.axes[place];
            (axis.first + (part.first[place] + output) * axis.every) as isize
                * spatial(strides, place)
        };
        let every = |place: usize| self.axes[place].every as isize * spatial(strides, place);
        let channel = part.group * self.made;
        let to = address::<T>(&op.dst)
            .wrapping_offset(part.image as isize * strides[0])
            .wrapping_offset(place_of(1, 0) + place_of(2, 0));
        let bias = op.bias.map(|bias| {
            let step = bias.layout().strides()[0];
            (address::<T>(&bias).cast_const(), step)
        });
        let (pitch, width) = (self.shape.lengths[2], T::Wide::width());
        let columns = (line_count - 1) * pitch + length;
        let mut steps = Steps::default();
        for plane in 0..part.outputs[0] {
            let image = image.wrapping_add(plane * self.shape.lengths[1] * pitch);
            let to = to.wrapping_offset(place_of(0, plane));
            let ending = |first: usize, column: usize| {
                let made = (channel + first) as isize;
                Ending {
                    to: to
                        .wrapping_offset(made * strides[1])
                        .wrapping_offset((column / pitch) as isize * every(1)),
                    channel: strides[1],
                    line: every(1),
                    step: every(2),
                    length,
                    pitch,
                    place: column % pitch,
                    bias: bias.map(|(bias, step)| (bias.wrapping_offset(made * step), step)),
                    activation: op.activation,
                }
            };
            if self.on_amx {
                let gathered = Gathered {
                    packed: weights.packed(part.group),
                    rows: weights.row(part.group, 0).cast(),
                    next: weights.row,
                    range: part.rows.clone(),
                    image: image.cast(),
                    offsets: &self.offsets,
                    columns,
                };
                // SAFETY: as below; the sums are `f32`, as `T` is summed in.
                unsafe {
                    gathered.multiply(scratch, |results| {
                        let ending = ending(results.row, results.column);
                        let (rows, columns) = (results.rows, results.columns);
                        store::<T>(results.sums.cast(), BLOCK, rows, columns, ending);
                    });
                }
                continue;
            }
            let mut column = 0;
            while column < columns {
                steps.take(self.offsets.len() * part.rows.len());
                let left = columns - column;
                // What is left may be fewer columns than the narrowest block has.
                let vectors = form
                    .vectors
                    .iter()
                    .find(|&&vectors| vectors * width <= left);
                let vectors = *vectors.unwrap_or(&1);
                for rows in even_parts(part.rows.len(), form.rows) {
                    let first = part.rows.start + rows.start;
                    let terms = Terms {
                        weights: weights.row(part.group, first),
                        row: weights.row,
                        rows: rows.len(),
                        image: image.wrapping_add(column),
                        offsets: &self.offsets,
                        vectors,
                    };
                    let mut sums = MaybeUninit::<[T::Wide; MOST_SUMS]>::uninit();
                    let sums: *mut T::Wide = sums.as_mut_ptr().cast();
                    // SAFETY: the columns of all taps lie in the copy and the slack behind it; those of sums
                    // that are stored are results of this part.
                    unsafe {
                        T::Wide::sums(&terms, sums);
                        let stored = (vectors * width).min(left);
                        store::<T>(
                            sums,
                            vectors * width,
                            rows.len(),
                            stored,
                            ending(first, column),
                        );
                    }
                }
                column += vectors * width;
            }
        }
    }
}
