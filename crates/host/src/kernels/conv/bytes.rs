//! Convolutions of bytes: what windows see is gathered, four neighbours of a tap's channels at a time, and multiplied with packed weights.

use std::ops::Range;
use std::sync::Arc;

use streampool_device::Conv;

use super::then::{Call, in_parts};
use crate::given_up::Steps;
use crate::kernels::matmul;
use crate::kernels::matmul::quads::{Gathered, Quad, columns_of_a_block};
use crate::kernels::preparation::Preparation;
use crate::kernels::scratch::{Count, with_scratch};
use crate::kernels::split::Shared;
use crate::kernels::strided::address;
use crate::packs::{Form, Pack};
use crate::team::Team;

/// Weights in the order in which they meet what a window sees.
pub(crate) struct Ready {
    pack: Arc<Pack>,
}

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 20;
/// The most rows that are gathered at a time: with their sums they stay in a second-level cache.
const MOST_ROWS: usize = 120;
/// Bytes of a unit.
const UNIT: usize = 4;

/// Units of a tap: those of a group's channels, the last one filled up.
fn units_of_a_tap(op: &Conv) -> usize {
    op.weight.shape()[1].div_ceil(UNIT)
}

/// Units of a window.
fn units(op: &Conv) -> usize {
    let shape = op.weight.shape();
    units_of_a_tap(op) * shape[2] * shape[3]
}

/// Channels that a group makes.
fn made(op: &Conv) -> usize {
    op.weight.shape()[0] / op.groups
}

/// Elements of the packed weights of a group.
fn packed(op: &Conv) -> usize {
    made(op).next_multiple_of(columns_of_a_block()) * units(op)
}

fn packed_bytes(op: &Conv) -> Count {
    let columns = made(op).next_multiple_of(columns_of_a_block());
    Count::of(columns) * units(op) * op.groups * UNIT
}

/// Writes the weights as they are read.
///
/// # Safety
/// They can be read, and [`packed_bytes`] be written.
unsafe fn pack(op: &Conv, to: *mut u8) {
    let (shape, strides) = (op.weight.shape(), op.weight.layout().strides());
    let (read, along) = (shape[1], shape[3]);
    let from = address::<u8>(&op.weight).cast_const();
    let (made, width, of_a_tap) = (made(op), columns_of_a_block(), units_of_a_tap(op));
    let (units, blocks) = (units(op), made.div_ceil(width));
    let mut steps = Steps::default();
    for block in 0..op.groups * blocks {
        let group = block / blocks;
        for unit in 0..units {
            steps.take(width * UNIT);
            let (tap, first) = (unit / of_a_tap, unit % of_a_tap * UNIT);
            for index in 0..width {
                let column = block % blocks * width + index;
                for byte in 0..UNIT {
                    let channel = first + byte;
                    let is_there = column < made && channel < read;
                    let at = (group * made + column) as isize * strides[0]
                        + channel as isize * strides[1]
                        + (tap / along) as isize * strides[2]
                        + (tap % along) as isize * strides[3];
                    let place = ((block * units + unit) * width + index) * UNIT + byte;
                    // SAFETY: the weight exists if it is read, and there is room for all.
                    unsafe {
                        *to.add(place) = if is_there {
                            *from.wrapping_offset(at)
                        } else {
                            0
                        }
                    };
                }
            }
        }
    }
}

/// # Safety
/// Constants can be read.
pub(super) unsafe fn prepare(op: &Conv, preparation: &Preparation<'_>) -> Option<Ready> {
    let form = Form::ChannelsLast { groups: op.groups };
    let made = preparation
        .packs
        .get(&op.weight, form, packed_bytes(op).known()?, |to| {
            // SAFETY: the caller lets constants be read, and the memory has room for all.
            unsafe { pack(op, to) };
        });
    Some(Ready { pack: made? })
}

/// # Safety
/// As for [`execute`](super::execute); what is ready was prepared for an op that differs in where its operands lie.
pub(super) unsafe fn execute(
    op: &Conv,
    ready: Option<&Ready>,
    team: &dyn Team,
    then: Option<&Call<'_>>,
) {
    if let Some(ready) = ready {
        // SAFETY: passed on from the caller.
        return unsafe { run(op, ready.pack.at(), team, then) };
    }
    with_scratch(packed_bytes(op), |scratch: *mut u8| {
        // SAFETY: there is room for the weights; the rest is passed on from the caller.
        unsafe {
            pack(op, scratch);
            run(op, scratch.cast(), team, then);
        }
    });
}

/// # Safety
/// As for [`execute`]; the weights are packed.
unsafe fn run(op: &Conv, weights: *const i32, team: &dyn Team, then: Option<&Call<'_>>) {
    let (shape, strides) = (op.dst.shape(), op.dst.layout().strides());
    let (made, units, packed) = (made(op), units(op), packed(op));
    // Lines that follow one another are rows of one matrix.
    let follow = shape[2] == 1 || strides[2] == strides[3] * shape[3] as isize;
    let (lines, rows) = match follow {
        true => (1, shape[2] * shape[3]),
        false => (shape[2], shape[3]),
    };
    let products = shape[0] * op.groups * lines;
    let work = [rows, made, units * UNIT, products]
        .into_iter()
        .fold(1, usize::saturating_mul);
    let wanted = match team.width() {
        1 => 1,
        width => (work / GRAIN).clamp(1, 4 * width),
    };
    let down = rows.div_ceil(MOST_ROWS);
    let down = down.max(wanted.div_ceil(products).min(rows.div_ceil(24)));
    let across = wanted.div_ceil(products * down).min(made.div_ceil(64));
    // Where a part makes all channels of its places, what follows is done with it.
    let (with, after) = match across * op.groups {
        1 => (then, None),
        _ => (None, then),
    };
    let weights = Shared(weights.cast_mut());
    let part = |number: usize| {
        let (number, row) = (number / down, number % down);
        let (number, column) = (number / across, number % across);
        let (image, line) = (number / lines / op.groups, number % lines);
        let group = number / lines % op.groups;
        let range = matmul::part(rows, down, row, 1);
        let columns = matmul::part(made, across, column, columns_of_a_block());
        if range.is_empty() || columns.is_empty() {
            return;
        }
        let first = (group * made) as isize;
        let to = image as isize * strides[0] + first * strides[1] + line as isize * strides[2];
        let gathered = Gathered {
            sizes: [rows, made, units],
            weights: weights.at((group * packed) as isize),
            to: address::<i32>(&op.dst).wrapping_offset(to),
            strides: [strides[3], strides[1]],
            bias: op.bias.as_ref().map(|bias| {
                let step = bias.layout().strides()[0];
                (address::<i32>(bias).wrapping_offset(first * step), step)
            }),
        };
        let window = Window::new(op, image, group);
        let before = line * rows;
        // SAFETY: tiles are disjoint, and what windows see lies in the source; the rest the caller promises.
        unsafe {
            gathered.tile(range.clone(), columns, &|some, bytes, stride, to| {
                let units = bytes.start / UNIT..bytes.end.div_ceil(UNIT);
                for (index, row) in some.enumerate() {
                    window.gather(before + row, units.clone(), to.add(index * stride));
                }
                true
            });
        }
        if let Some(then) = with {
            let before = (image * lines + line) * rows;
            then((before + range.start) * made..(before + range.end) * made);
        }
    };
    let results = op.dst.layout().elements();
    in_parts(
        (products * down * across, wanted > 1),
        team,
        &part,
        (after, results),
    );
}

/// What windows see of a group of a picture.
struct Window<'a> {
    op: &'a Conv,
    /// The first byte.
    at: *const u8,
    of_a_tap: usize,
}

impl<'a> Window<'a> {
    fn new(op: &'a Conv, image: usize, group: usize) -> Self {
        let strides = op.src.layout().strides();
        let channel = group * op.weight.shape()[1];
        let from = image as isize * strides[0] + channel as isize * strides[1];
        Window {
            op,
            at: address::<u8>(&op.src).wrapping_offset(from),
            of_a_tap: units_of_a_tap(op),
        }
    }

    /// Writes these units of what the result of this number sees.
    ///
    /// # Safety
    /// The picture can be read, and so many units be written.
    #[inline]
    unsafe fn gather(&self, result: usize, units: Range<usize>, mut to: *mut Quad<false>) {
        if units.is_empty() {
            return;
        }
        let op = self.op;
        let (sizes, strides) = (&op.src.shape()[2..], op.src.layout().strides());
        let (line, along) = (op.dst.shape()[3], op.weight.shape()[3]);
        let places = [result / line, result % line];
        let (tap, mut first) = (units.start / self.of_a_tap, units.start % self.of_a_tap);
        let mut taps = [tap / along, tap % along];
        let mut left = units.len();
        while left > 0 {
            let count = (self.of_a_tap - first).min(left);
            let mut from = Some(self.at);
            for (axis, tap) in taps.into_iter().enumerate() {
                let slide = &op.window[axis];
                let place = places[axis] * slide.stride as usize + tap * slide.dilation as usize;
                // Before the picture it wraps around.
                let place = place.wrapping_sub(slide.before as usize);
                from = from
                    .filter(|_| place < sizes[axis])
                    .map(|from| from.wrapping_offset(place as isize * strides[axis + 2]));
            }
            // SAFETY: the caller promises room for the units, and the place lies in the picture.
            unsafe {
                match from {
                    Some(from) => self.channels(from, first, count, to),
                    None => {
                        (0..count).for_each(|index| to.add(index).write(Quad::of_left([0; UNIT])))
                    }
                }
            }
            to = to.wrapping_add(count);
            left -= count;
            first = 0;
            taps[1] += 1;
            if taps[1] == along {
                taps = [taps[0] + 1, 0];
            }
        }
    }

    /// Writes so many units of a place, from the unit `first` on.
    ///
    /// # Safety
    /// As for [`gather`](Self::gather); the place lies in the picture.
    #[inline]
    unsafe fn channels(&self, from: *const u8, first: usize, count: usize, to: *mut Quad<false>) {
        let (read, step) = (self.op.weight.shape()[1], self.op.src.layout().strides()[1]);
        let whole = match step {
            1 => (read / UNIT).clamp(first, first + count) - first,
            _ => 0,
        };
        // SAFETY: so many channels exist; the rest the caller promises.
        unsafe {
            std::ptr::copy_nonoverlapping(from.wrapping_add(first * UNIT), to.cast(), whole * UNIT);
            for index in whole..count {
                let mut bytes = [0; UNIT];
                for (byte, value) in bytes.iter_mut().enumerate() {
                    let channel = (first + index) * UNIT + byte;
                    if channel < read {
                        *value = *from.wrapping_offset(channel as isize * step);
                    }
                }
                to.add(index).write(Quad::of_left(bytes));
            }
        }
    }
}
