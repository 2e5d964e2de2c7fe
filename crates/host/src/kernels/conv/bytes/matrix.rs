//! Convolutions of bytes as products: what windows see, four neighbours of a tap's channels at a time, with packed weights.

use std::ops::Range;

use streampool_device::Conv;

use super::operands::{Ends, Seen, UNIT, in_blocks, made, units, units_of_a_tap};
use crate::given_up::Steps;
use crate::kernels::conv::then::{Call, in_parts};
use crate::kernels::matmul;
use crate::kernels::matmul::blocked::even_part;
use crate::kernels::matmul::multiply::{MAX_COLUMNS, MAX_ROWS, Unit};
use crate::kernels::matmul::quads::{Columns, Quad, Rows, multiply};
use crate::kernels::scratch::Count;
use crate::kernels::split::Shared;
use crate::kernels::strided::address;
use crate::team::Team;

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 20;
/// The most pieces of a part, of as many rows as a block has: with what is made of them they stay in a second-level cache.
const MOST_PIECES: usize = 20;

/// Bytes of the packed weights, after which the sum of each column's comes.
pub(super) fn packed_bytes(op: &Conv) -> Count {
    Count::of(in_blocks(op)) * (units(op) + 1) * op.groups * UNIT
}

/// Writes the weights as they are read.
///
/// # Safety
/// They can be read, and [`packed_bytes`] be written.
pub(super) unsafe fn pack(op: &Conv, to: *mut u8) {
    let (shape, strides) = (op.weight.shape(), op.weight.layout().strides());
    let (read, along) = (shape[1], shape[3]);
    let from = address::<i8>(&op.weight).cast_const();
    let (made, width, of_a_tap) = (made(op), Quad::block().1, units_of_a_tap(op));
    let (units, blocks) = (units(op), made.div_ceil(width));
    let sums = to.wrapping_add(op.groups * blocks * width * units * UNIT);
    let mut steps = Steps::default();
    for block in 0..op.groups * blocks {
        let group = block / blocks;
        // SAFETY: there is room for all sums.
        unsafe { sums.add(block * width * UNIT).write_bytes(0, width * UNIT) };
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
                        let weight = if is_there {
                            *from.wrapping_offset(at)
                        } else {
                            0
                        };
                        *to.add(place).cast() = weight;
                        let sum = sums.cast::<i32>().add(block * width + index);
                        sum.write(sum.read().wrapping_add(weight.into()));
                    }
                }
            }
        }
    }
}

/// How far apart the elements of axes of these sizes are if they lie evenly, one after the other.
fn even_step(sizes: &[usize], steps: &[isize]) -> Option<isize> {
    let mut even = None;
    for (&size, &step) in sizes
        .iter()
        .zip(steps)
        .rev()
        .filter(|&(&size, _)| size != 1)
    {
        let (each, count) = *even.get_or_insert((step, 1));
        if step != each.wrapping_mul(count) {
            return None;
        }
        even = Some((each, count.wrapping_mul(size as isize)));
    }
    Some(even.map_or(0, |(each, _)| each))
}

/// # Safety
/// As for [`execute`](super::execute); the weights are packed.
pub(super) unsafe fn run(
    op: &Conv,
    seen: &Seen,
    weights: *const i32,
    ends: Ends,
    (team, then): (&dyn Team, Option<&Call<'_>>),
) {
    let (shape, strides) = (op.dst.shape(), op.dst.layout().strides());
    let (made, blocks, units) = (made(op), in_blocks(op), units(op));
    let (most, width) = Quad::block();
    let (offsets, each) = seen.segments(op);
    // Windows of one place make rows of one matrix of lines that follow one another, and of pictures.
    let sizes = [shape[0], shape[2], shape[3]];
    let (to_steps, from_steps) = ([strides[0], strides[2], strides[3]], seen.steps(op));
    let even = |axes: Range<usize>| {
        let to = even_step(&sizes[axes.clone()], &to_steps[axes.clone()])?;
        let from = even_step(&sizes[axes.clone()], &from_steps[axes])?;
        Some([to, from])
    };
    let (images, lines, rows, [to_step, from_step]) = match (even(0..3), even(1..3)) {
        (Some(all), _) => (1, 1, sizes[0] * sizes[1] * sizes[2], all),
        (None, Some(both)) => (shape[0], 1, shape[2] * shape[3], both),
        (None, None) => (shape[0], shape[2], shape[3], [to_steps[2], from_steps[2]]),
    };
    let pieces_of_a_line = rows.div_ceil(most);
    let pieces = lines * pieces_of_a_line;
    let products = images * op.groups;
    let work = [rows, lines, made, units * UNIT, products]
        .into_iter()
        .fold(1, usize::saturating_mul);
    let wanted = match team.width() {
        1 => 1,
        width => (work / GRAIN).clamp(1, 4 * width),
    };
    let down = pieces.div_ceil(MOST_PIECES);
    let down = down.max(wanted.div_ceil(products).min(pieces.div_ceil(2)));
    let across = wanted
        .div_ceil(products * down)
        .min(made.div_ceil(2 * width));
    // Where a part makes all channels of its places, what follows is done with it.
    let (with, after) = match across * op.groups {
        1 => (then, None),
        _ => (None, then),
    };
    let (weights, to) = (Shared(weights.cast_mut()), Shared(address::<u8>(&op.dst)));
    let size = ends.size() as isize;
    let part = |number: usize| {
        let (number, row) = (number / down, number % down);
        let (number, column) = (number / across, number % across);
        let (image, group) = (number / op.groups, number % op.groups);
        let some = matmul::part(pieces, down, row, 1);
        let columns = matmul::part(made, across, column, width);
        if some.is_empty() || columns.is_empty() {
            return;
        }
        let rows_of = |piece: usize| {
            let line = piece / pieces_of_a_line;
            (line, even_part(rows, most, piece % pieces_of_a_line))
        };
        let from = image as isize * from_steps[0] + (group * seen.group) as isize;
        let first = image as isize * to_steps[0] + (group * made) as isize * strides[1];
        let mut steps = Steps::default();
        for column in columns.clone().step_by(width) {
            let count = width.min(columns.end - column);
            let place = group * blocks + column;
            let block = Columns {
                at: weights.at((place * units) as isize),
                first: ends.first.at(place as isize),
                units: each,
                are_half: 2 * count <= width,
            };
            for piece in some.clone() {
                let (line, range) = rows_of(piece);
                steps.take(range.len() * width * units);
                let at = |steps: &[isize], step: isize| {
                    line as isize * steps[1] + range.start as isize * step
                };
                let rows = Rows {
                    first: seen.at.at(from + at(&from_steps, from_step)),
                    segments: &offsets,
                    step: from_step,
                    count: range.len(),
                };
                let first = first + at(&to_steps, to_step) + column as isize * strides[1];
                let to = to.at(first * size);
                // SAFETY: rows and columns exist, results lie in the destination, and a block has room for those that lie apart.
                unsafe {
                    if strides[1] == 1 {
                        multiply(&rows, &block, &ends.to(place, to, to_step, count));
                        continue;
                    }
                    let mut own = [0i32; MAX_ROWS * MAX_COLUMNS];
                    let own = own.as_mut_ptr().cast::<u8>();
                    multiply(&rows, &block, &ends.to(place, own, count as isize, count));
                    ends.spread(own, (range.len(), count), to, [to_step, strides[1]]);
                }
            }
        }
        if let Some(then) = with {
            let place = |(line, row): (usize, usize)| ((image * lines + line) * rows + row) * made;
            let (first, range) = rows_of(some.start);
            let (last, end) = rows_of(some.end - 1);
            then(place((first, range.start))..place((last, end.end)));
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
