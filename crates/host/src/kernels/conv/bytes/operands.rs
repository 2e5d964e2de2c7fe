//! What convolutions of bytes read, and what they end with.

use streampool_device::{Conv, View};

use crate::given_up::Steps;
use crate::kernels::matmul::multiply::Unit;
use crate::kernels::matmul::quads::{Quad, To};
use crate::kernels::scratch::{Count, list};
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::address;
use crate::team::Team;

/// Bytes that are copied, which are worth a thread.
const COPIED: usize = 1 << 16;
/// Fewer channels are no vector of the most lanes.
pub(super) const LEAST_CHANNELS: usize = 16;
/// Taps whose sums are exact: 255 * 128 * 512 is less than two to the power of 24.
const MOST_TAPS: usize = 512;
/// The longest lines of results that are made of copies with what pads them: of longer ones, few see that.
const MOST_PADDED: usize = 28;
/// The most places that pad such copies on a side.
const MOST_PADDING: u32 = 8;
/// Bytes of a unit.
pub(super) const UNIT: usize = 4;

/// Units of a tap: those of a group's channels, the last one filled up.
pub(super) fn units_of_a_tap(op: &Conv) -> usize {
    op.weight.shape()[1].div_ceil(UNIT)
}

/// Units of a window.
pub(super) fn units(op: &Conv) -> usize {
    let shape = op.weight.shape();
    units_of_a_tap(op) * shape[2] * shape[3]
}

/// The groups that are computed apart: all channels together, if each sees only itself.
pub(super) fn groups(op: &Conv) -> usize {
    match is_for_each(op) {
        true => 1,
        false => op.groups,
    }
}

/// Channels that a group makes.
pub(super) fn made(op: &Conv) -> usize {
    op.weight.shape()[0] / groups(op)
}

/// Channels that a group makes, in whole blocks.
pub(super) fn in_blocks(op: &Conv) -> usize {
    made(op).next_multiple_of(Quad::block().1)
}

/// Whether each channel sees only itself, and few enough taps. Of an op that lies otherwise it is the same: so are the packed weights.
pub(super) fn is_for_each(op: &Conv) -> bool {
    let weight = op.weight.shape();
    op.groups >= LEAST_CHANNELS
        && weight[..2] == [op.groups, 1]
        && weight[2].saturating_mul(weight[3]) <= MOST_TAPS
}

/// Whether it is better made of copies of the pictures with what pads them.
fn wants_padded(op: &Conv) -> bool {
    let padding = || (op.window.iter()).flat_map(|slide| [slide.before, slide.after]);
    is_for_each(op)
        && padding().any(|count| count > 0)
        && padding().all(|count| count <= MOST_PADDING)
        && op.dst.shape()[3] <= MOST_PADDED
}

/// What sums begin and end with, that of each group in whole blocks.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    /// What the zero point is too much in them.
    pub(super) first: Shared<i32>,
    /// Biases of sums, or, where these become bytes, as floats.
    bias: Shared<i32>,
    scale: Shared<f32>,
    zero_point: Option<u8>,
}

impl Ends {
    /// What [`written`](Self::written) takes.
    pub(super) fn bytes(op: &Conv) -> Count {
        Count::of(in_blocks(op)) * groups(op) * 3 * UNIT
    }

    /// # Safety
    /// The packed weights, the bias and the scale can be read, and three times all groups' blocks be written.
    pub(super) unsafe fn written(op: &Conv, weights: *const i32, to: *mut i32) -> Ends {
        let (groups, made, blocks) = (groups(op), made(op), in_blocks(op));
        let all = blocks * groups;
        let zero_point = i32::from(op.zero_point);
        let sums = weights.wrapping_add(all * units(op));
        let taps = op.weight.shape()[2] * op.weight.shape()[3];
        // SAFETY: the caller promises room, and a sum of each column, or all weights of each tap.
        unsafe {
            match is_for_each(op) {
                false => {
                    for place in 0..all {
                        *to.add(place) = (*sums.add(place)).wrapping_mul(-zero_point);
                    }
                }
                true => {
                    to.write_bytes(0, all);
                    let weights = weights.cast::<f32>();
                    for tap in (0..taps).filter(|_| zero_point != 0) {
                        for channel in 0..made {
                            let weight = *weights.add(tap * made + channel) as i32;
                            *to.add(channel) -= weight * zero_point;
                        }
                    }
                }
            }
        }
        // Both are of four bytes, and of nothing they are zero.
        let copy = |view: Option<&View>, to: *mut i32| {
            for group in 0..groups {
                let to = to.wrapping_add(group * blocks);
                // SAFETY: the channels exist, and the caller promises room.
                unsafe {
                    to.write_bytes(0, blocks);
                    let Some(view) = view else { continue };
                    let step = view.layout().strides()[0];
                    let first = (group * made) as isize * step;
                    let from = address::<i32>(view).wrapping_offset(first);
                    for index in 0..made {
                        *to.add(index) = *from.wrapping_offset(index as isize * step);
                    }
                }
            }
        };
        let (bias, scale) = (to.wrapping_add(all), to.wrapping_add(2 * all));
        copy(op.bias.as_ref(), bias);
        copy(op.to_bytes.as_ref().map(|bytes| &bytes.scale), scale);
        Ends {
            first: Shared(to),
            bias: Shared(bias),
            scale: Shared(scale.cast()),
            zero_point: op.to_bytes.as_ref().map(|bytes| bytes.zero_point),
        }
    }

    /// Where results of channels are written, from the one at this place of the blocks on.
    pub(super) fn to(&self, place: usize, to: *mut u8, row: isize, columns: usize) -> To {
        let bias = self.bias.at(place as isize);
        match self.zero_point {
            None => To::Biased {
                to: to.cast(),
                row,
                columns,
                bias,
            },
            Some(zero_point) => To::Bytes {
                to,
                row,
                columns,
                scale: self.scale.at(place as isize),
                more: bias.cast(),
                zero_point,
            },
        }
    }

    /// Copies rows of results that lie side by side to where they lie so far apart, from row to row and from column to column.
    ///
    /// # Safety
    /// They can be read, and the results be written.
    pub(super) unsafe fn spread(
        &self,
        from: *const u8,
        (rows, columns): (usize, usize),
        to: *mut u8,
        steps: [isize; 2],
    ) {
        let size = self.size();
        for result in 0..rows * columns {
            let (row, column) = (result / columns, result % columns);
            let at = row as isize * steps[0] + column as isize * steps[1];
            let from = from.wrapping_add(result * size);
            let to = to.wrapping_offset(at * size as isize);
            // SAFETY: passed on from the caller.
            unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
        }
    }

    /// Bytes of a result.
    pub(super) fn size(&self) -> usize {
        match self.zero_point {
            Some(_) => 1,
            None => size_of::<i32>(),
        }
    }
}

/// Pictures with the channels of each place side by side, those of each group in whole units.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) at: Shared<u8>,
    /// From picture to picture, line to line, place to place.
    pub(super) strides: [isize; 3],
    /// Lines and places of a line, and how many of them pad at the beginning that are not there.
    pub(super) sizes: [usize; 2],
    pub(super) before: [isize; 2],
    /// Bytes of a group.
    pub(super) group: usize,
}

impl Seen {
    /// Whether the pictures lie so.
    pub(super) fn is_in_order(op: &Conv) -> bool {
        let step = op.src.layout().strides()[1];
        let is_whole = op.weight.shape()[1].is_multiple_of(UNIT) || is_for_each(op);
        let is_padded = [0, 1].map(|axis| Seen::padding(op, axis)[1] > 0);
        is_whole && (step == 1 || op.src.shape()[1] == 1) && is_padded == [false; 2]
    }

    pub(super) fn in_place(op: &Conv) -> Seen {
        let strides = op.src.layout().strides();
        Seen {
            at: Shared(address(&op.src)),
            strides: [strides[0], strides[2], strides[3]],
            sizes: [op.src.shape()[2], op.src.shape()[3]],
            before: [0, 1].map(|axis| op.window[axis].before as isize),
            group: op.weight.shape()[1],
        }
    }

    fn bytes_of_a_group(op: &Conv) -> usize {
        match is_for_each(op) {
            true => 1,
            false => units_of_a_tap(op) * UNIT,
        }
    }

    /// What is there of an axis beyond its own places: before them, and in all.
    fn padding(op: &Conv, axis: usize) -> [usize; 2] {
        let slide = &op.window[axis];
        match !is_for_each(op) || wants_padded(op) {
            true => [
                slide.before as usize,
                slide.before as usize + slide.after as usize,
            ],
            false => [0; 2],
        }
    }

    pub(super) fn copied_bytes(op: &Conv) -> Count {
        let shape = op.src.shape();
        let of_axis = |axis: usize| shape[axis + 2] + Seen::padding(op, axis)[1];
        let places = Count::of(shape[0]) * of_axis(0) * of_axis(1);
        places * op.groups * Seen::bytes_of_a_group(op)
    }

    /// Copies of them, with what pads them if that is wanted.
    ///
    /// # Safety
    /// The pictures can be read, and [`copied_bytes`](Self::copied_bytes) be written.
    pub(super) unsafe fn copied(op: &Conv, to: *mut u8, team: &dyn Team) -> Seen {
        let (shape, strides) = (op.src.shape(), op.src.layout().strides());
        let (group, read) = (Seen::bytes_of_a_group(op), op.weight.shape()[1]);
        let [[above, height], [left, width]] = [0, 1].map(|axis| Seen::padding(op, axis));
        let sizes = [shape[2] + height, shape[3] + width];
        let place = group * op.groups;
        let line = place * sizes[1];
        let to = Shared(to);
        let from = Shared(address::<u8>(&op.src));
        let lines = shape[0] * sizes[0];
        let copy = |from: *const u8, to: *mut u8| {
            // SAFETY: the line exists, and there is room for all.
            unsafe {
                if (op.groups, read, strides[3]) == (1, 3, 1) {
                    let three = [0, 1, 2].map(|channel| {
                        let from = from.wrapping_offset(channel * strides[1]);
                        std::slice::from_raw_parts(from, shape[3])
                    });
                    return side_by_side(
                        three,
                        std::slice::from_raw_parts_mut(to.cast(), shape[3]),
                    );
                }
                if (strides[1], strides[3]) == (1, place as isize) && group == read {
                    return std::ptr::copy_nonoverlapping(from, to, place * shape[3]);
                }
                for channel in 0..place {
                    let (of, index) = (channel / group, channel % group);
                    let from = from.wrapping_offset((of * read + index) as isize * strides[1]);
                    for x in 0..shape[3] {
                        *to.add(x * place + channel) = match index < read {
                            true => *from.wrapping_offset(x as isize * strides[3]),
                            false => 0,
                        };
                    }
                }
            }
        };
        split(lines, COPIED.div_ceil(line.max(1)), team, &|range| {
            let mut steps = Steps::default();
            for number in range {
                steps.take(line);
                let (image, y) = (number / sizes[0], number % sizes[0]);
                let to = to.at((number * line) as isize);
                let y = y.wrapping_sub(above);
                // SAFETY: there is room for the line.
                unsafe {
                    if y >= shape[2] {
                        to.write_bytes(op.zero_point, line);
                        continue;
                    }
                    let at = image as isize * strides[0] + y as isize * strides[2];
                    to.write_bytes(op.zero_point, left * place);
                    copy(from.at(at), to.add(left * place));
                    let after = (left + shape[3]) * place;
                    to.add(after).write_bytes(op.zero_point, line - after);
                }
            }
        });
        Seen {
            at: to,
            strides: [(line * sizes[0]) as isize, line as isize, place as isize],
            sizes,
            before: [0, 1]
                .map(|axis| op.window[axis].before as isize - Seen::padding(op, axis)[0] as isize),
            group,
        }
    }

    /// From one result to the next in what windows see, by the axes of pictures, lines and places.
    pub(super) fn steps(&self, op: &Conv) -> [isize; 3] {
        let [picture, line, place] = self.strides;
        let [down, across] = [0, 1].map(|axis| op.window[axis].stride as isize);
        [picture, line * down, place * across]
    }

    /// Where what a window sees lies side by side, from its first byte on, and how many units each time: a line of its taps, or a tap.
    pub(super) fn segments(&self, op: &Conv) -> (Vec<isize>, usize) {
        let [_, line, place] = self.strides;
        let [down, along] = [&op.window[0], &op.window[1]];
        let tap = units_of_a_tap(op);
        let side_by_side = along.dilation == 1 && place == (tap * UNIT) as isize;
        let (count, each) = match side_by_side {
            true => (1, tap * along.kernel as usize),
            false => (along.kernel as isize, tap),
        };
        let below = line * down.dilation as isize;
        let beside = place * along.dilation as isize;
        let offsets = (0..down.kernel as usize * count as usize).map(|number| {
            let (y, x) = (number as isize / count, number as isize % count);
            y * below + x * beside
        });
        (list(offsets), each)
    }
}

/// Writes three channels side by side, and a fourth of zeros.
fn side_by_side([first, second, third]: [&[u8]; 3], to: &mut [[u8; UNIT]]) {
    for (((to, &first), &second), &third) in to.iter_mut().zip(first).zip(second).zip(third) {
        *to = [first, second, third, 0];
    }
}
