//! Convolutions of pictures with the channels of each place side by side, of `f32` and with constant weights.
//!
//! What a window sees is gathered into rows, a few at a time, and multiplied with the packed weights as any matrix is; or it is
//! multiplied where it lies, if that is as good. Where each channel sees only itself, the channels are the lanes of vectors
//! instead.

use std::ops::Range;
use std::sync::Arc;

use streampool_device::{Conv, DType};

use super::each::{self, Each};
use super::then::{Call, Then, in_parts};
use super::window::{Way, Window, gather};
use super::winograd;
use super::{apart, pointwise};
use crate::given_up::Steps;
use crate::kernels::matmul::lanes::Bounds;
use crate::kernels::matmul::{self, Gathering, Lying};
use crate::kernels::preparation::Preparation;
use crate::kernels::scratch::{Count, with_scratch};
use crate::kernels::simd::has_matrix_unit;
use crate::kernels::split::Shared;
use crate::kernels::strided::address;
use crate::packs::{Form, Pack};
use crate::team::Team;

/// Weights in the order in which they meet what a window sees.
pub(crate) struct Ready {
    pack: Arc<Pack>,
}

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 18;
/// The most rows that are gathered at a time: with their sums they stay in a second-level cache.
const MOST_ROWS: usize = 96;

/// Units that are summed at a time.
const PANEL: usize = 256;
/// Bytes of weights that leave room for rows and results in a second-level cache.
const MOST_WEIGHTS: usize = 1 << 19;

/// Whether each channel sees only itself.
fn is_each(op: &Conv) -> bool {
    op.groups > 1 && op.groups == op.src.shape()[1] && op.groups == op.dst.shape()[1]
}

/// Whether this is the way to compute it.
fn suits(op: &Conv) -> bool {
    if op.window.len() != 2 || op.transposed || op.src.dtype() != DType::F32 {
        return false;
    }
    let (src, dst) = (op.src.layout(), op.dst.layout());
    let beside = |shape: &[usize], strides: &[isize]| shape[1] > 1 && strides[1] == 1;
    let reads = beside(src.shape(), src.strides()) && src.strides()[3] != 1;
    let writes = beside(dst.shape(), dst.strides()) && dst.strides()[3] != 1;
    // Results are the rows of one matrix.
    let lines =
        dst.strides()[2] == dst.strides()[3] * dst.shape()[3] as isize || dst.shape()[2] == 1;
    if is_each(op) {
        return reads && writes && op.groups >= each::MOST_LANES;
    }
    // Gathering is worth its while also from channels that lie apart, if much of it sees nothing, and blocks are filled.
    let gathers = is_wide(op)
        && op.groups == 1
        && 2 * op.dst.shape()[1] >= matmul::columns_of_a_block()
        && !has_matrix_unit();
    // The matrix unit is faster where nothing is gathered.
    let is_on_amx = || pointwise::product(op).is_some_and(|product| matmul::is_on_amx(&product));
    lines && (reads || writes || gathers) && !is_on_amx()
}

/// Whether taps lie so far apart that some may see only padding for a whole block of rows. Those are left out.
fn is_wide(op: &Conv) -> bool {
    let mut slides = op.window.iter();
    slides.any(|slide| slide.kernel > 1 && slide.dilation > 4)
}

/// Bytes of the weights as they are read.
fn packed_bytes(op: &Conv) -> Count {
    if let Some(seen) = winograd::seen(op) {
        return winograd::packed_bytes(op, seen);
    }
    let shape = op.weight.shape();
    let units = Count::of(shape[1]) * shape[2] * shape[3];
    let columns = match is_each(op) {
        true => op.groups,
        false => {
            let made = shape[0] / op.groups;
            made.next_multiple_of(matmul::columns_of_a_block()) * op.groups
        }
    };
    units * columns * size_of::<f32>()
}

/// Writes the weights as they are read.
///
/// # Safety
/// They can be read, and [`packed_bytes`] be written.
unsafe fn pack(op: &Conv, to: *mut f32) {
    if let Some(seen) = winograd::seen(op) {
        // SAFETY: passed on from the caller.
        return unsafe { winograd::pack(op, seen, to) };
    }
    let (shape, strides) = (op.weight.shape(), op.weight.layout().strides());
    let (read, taps) = (shape[1], shape[2] * shape[3]);
    let from = address::<f32>(&op.weight).cast_const();
    let at = |made: usize, tap: usize, channel: usize| {
        from.wrapping_offset(
            made as isize * strides[0]
                + channel as isize * strides[1]
                + (tap / shape[3]) as isize * strides[2]
                + (tap % shape[3]) as isize * strides[3],
        )
    };
    let mut steps = Steps::default();
    if is_each(op) {
        for tap in 0..taps {
            steps.take(op.groups);
            for channel in 0..op.groups {
                // SAFETY: the weight exists, and there is room for all.
                unsafe { *to.add(tap * op.groups + channel) = *at(channel, tap, 0) };
            }
        }
        return;
    }
    let width = matmul::columns_of_a_block();
    let made = shape[0] / op.groups;
    let (blocks, size) = (made.div_ceil(width), taps * read * width);
    for number in 0..op.groups * blocks {
        let first = number / blocks * made + number % blocks * width;
        let count = width.min((number / blocks + 1) * made - first);
        let mut to = to.wrapping_add(number * size);
        for tap in 0..taps {
            steps.take(read * width);
            for channel in 0..read {
                for column in 0..width {
                    // SAFETY: as above.
                    unsafe {
                        *to.add(column) = match column < count {
                            true => *at(first + column, tap, channel),
                            false => 0.0,
                        };
                    }
                }
                to = to.wrapping_add(width);
            }
        }
    }
}

/// # Safety
/// Constants can be read.
pub(super) unsafe fn prepare(op: &Conv, preparation: &Preparation<'_>) -> Option<Ready> {
    if !suits(op) {
        return None;
    }
    let form = match winograd::seen(op) {
        Some(seen) => Form::Winograd { seen },
        None => Form::ChannelsLast { groups: op.groups },
    };
    let bytes = packed_bytes(op).known()?;
    let made = preparation.packs.get(&op.weight, form, bytes, |to| {
        // SAFETY: the caller lets constants be read, and the memory has room for all.
        unsafe { pack(op, to.cast()) };
    });
    Some(Ready { pack: made? })
}

/// Whether it did all there is to do, with weights that are no constants.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute_plain(op: &Conv, team: &dyn Team) -> bool {
    let suits = suits(op);
    if suits {
        with_scratch(packed_bytes(op), |scratch: *mut u8| {
            let weights: *mut f32 = scratch.cast();
            // SAFETY: there is room for the weights; the rest is passed on from the caller.
            unsafe {
                pack(op, weights);
                run(op, weights, team, None);
            }
        });
    }
    suits
}

/// # Safety
/// As for [`execute`](super::execute); what is ready was prepared for an op that differs in where its operands lie.
pub(super) unsafe fn execute(op: &Conv, ready: &Ready, team: &dyn Team, then: Option<Then<'_>>) {
    // SAFETY: passed on from the caller.
    unsafe { run(op, ready.pack.at(), team, then) }
}

/// # Safety
/// As for [`execute`]; the weights are packed.
unsafe fn run(op: &Conv, weights: *const f32, team: &dyn Team, then: Option<Then<'_>>) {
    let (bounds, then) = Then::parts(then);
    // SAFETY: passed on from the caller.
    unsafe {
        if is_each(op) {
            Each::new(op, weights, bounds).execute(team, then);
        } else if let Some(seen) = winograd::seen(op) {
            winograd::execute(op, seen, weights, team, bounds, then);
        } else {
            windows(op, weights, team, bounds, then);
        }
    }
}

/// Whether results lie one after another, all channels of a place and then those of the next.
pub(super) fn lies_in_order(op: &Conv) -> bool {
    let (shape, strides) = (op.dst.shape(), op.dst.layout().strides());
    let [images, channels, lines, places] = shape[..] else {
        return false;
    };
    let place = channels as isize;
    let line = place * places as isize;
    [images, channels, lines, places]
        .into_iter()
        .zip([line * lines as isize, 1, line, place])
        .zip(strides)
        .all(|((size, wanted), &stride)| size == 1 || stride == wanted)
}

/// # Safety
/// As for [`execute`].
unsafe fn windows(
    op: &Conv,
    weights: *const f32,
    team: &dyn Team,
    bounds: Bounds,
    then: Option<&Call<'_>>,
) {
    let (src, dst) = (op.src.layout(), op.dst.layout());
    let (read, made) = (op.weight.shape()[1], op.dst.shape()[1] / op.groups);
    let taps: usize = op.weight.shape()[2..].iter().product();
    let (rows, units) = (dst.shape()[2] * dst.shape()[3], taps * read);
    let packed = made.next_multiple_of(matmul::columns_of_a_block()) * units;
    let bias = op.bias.as_ref().map(|bias| {
        let step = bias.layout().strides()[0];
        (Shared(address::<f32>(bias)), step)
    });
    let weights = Shared(weights.cast_mut());
    let product = |number: usize| {
        let (image, group) = (number / op.groups, number % op.groups);
        let from = image as isize * src.strides()[0] + (group * read) as isize * src.strides()[1];
        let first = group * made;
        let to = image as isize * dst.strides()[0] + first as isize * dst.strides()[1];
        let window = Window {
            at: address::<f32>(&op.src).wrapping_offset(from),
            strides: [src.strides()[1], src.strides()[2], src.strides()[3]],
            sizes: [src.shape()[2], src.shape()[3]],
            slides: [op.window[0], op.window[1]],
            channels: read,
            line: dst.shape()[3],
        };
        let gathering = Gathering {
            sizes: [rows, made, units],
            weights: weights.at((group * packed) as isize),
            to: address::<f32>(&op.dst).wrapping_offset(to),
            // Lines follow one another.
            strides: [dst.strides()[3], dst.strides()[1]],
            bias: bias.map(|(bias, step)| (bias.at(first as isize * step), step)),
            activation: op.activation,
            bounds,
        };
        (window, gathering)
    };
    let products = src.shape()[0] * op.groups;
    let work = [rows, made, units, products]
        .into_iter()
        .fold(1, usize::saturating_mul);
    let wanted = match team.width() {
        1 => 1,
        width => (work / GRAIN).clamp(1, 4 * width),
    };
    let wide = is_wide(op);
    let way = Way::of(op, wide);
    let (first, _) = product(0);
    if wide && first.sees_little(dst.shape()[2]) && dst.strides()[1] == 1 {
        let most = made.div_ceil(64).min(team.width());
        let across = wanted.div_ceil(products).min(most);
        let part = |number: usize| {
            let (window, gathering) = product(number / across);
            let width = matmul::columns_of_a_block();
            let columns = matmul::part(made, across, number % across, width);
            // SAFETY: parts are disjoint; the rest is passed on from the caller.
            unsafe { apart::taps(&window, &gathering, columns) };
        };
        let results = products * rows * made;
        return in_parts(
            (products * across, wanted > 1),
            team,
            &part,
            (then, results),
        );
    }
    let is_padded = first.is_padded();
    let offsets = match way {
        Way::Gathered => Vec::new(),
        Way::Lines if is_padded => first.offsets(first.padded_strides()),
        Way::Whole | Way::Lines => first.offsets(first.strides),
    };
    let line = dst.shape()[3];
    let many = (MOST_ROWS * PANEL / units.max(1)).clamp(MOST_ROWS, 4 * MOST_ROWS);
    let most = match wide {
        _ if way == Way::Lines => line * many.div_ceil(line),
        true => line.clamp(24, MOST_ROWS),
        false => many,
    };
    // Weights that no cache of one processor holds are read once for each part of the rows: those of fewer columns are held.
    let across = match packed * size_of::<f32>() / MOST_WEIGHTS {
        0 => 1,
        times => (times + 1).min(made.div_ceil(64)),
    };
    let down = rows.div_ceil(most);
    let down = down.max(wanted.div_ceil(products * across).min(rows.div_ceil(24)));
    let across = across.max(wanted.div_ceil(products * down).min(made.div_ceil(64)));
    // Where a part makes all channels of its places, what follows is done with it.
    let (with, after) = match across * op.groups {
        1 => (then, None),
        _ => (None, then),
    };
    let part = |number: usize| {
        let (number, row) = (number / down, number % down);
        let (number, column) = (number / across, number % across);
        let (window, gathering) = product(number);
        // Lines are whole.
        let step = if way == Way::Lines { line } else { 1 };
        let range = matmul::part(rows, down, row, step);
        let columns = matmul::part(made, across, column, matmul::columns_of_a_block());
        if range.is_empty() || columns.is_empty() {
            return;
        }
        // SAFETY: tiles are disjoint, and what windows see lies in the source; the rest the caller promises.
        unsafe {
            let gathered = |rows: Range<usize>| {
                matmul::gathered(
                    &gathering,
                    rows,
                    columns.clone(),
                    &|rows, units, stride, to| gather(&window, rows, units, stride, to),
                );
            };
            match way {
                Way::Gathered => gathered(range.clone()),
                Way::Whole => {
                    let lying = Lying {
                        at: window
                            .at
                            .wrapping_offset(range.start as isize * window.strides[2]),
                        row: window.strides[2],
                        first: 0,
                        runs: &offsets,
                        run: window.run(window.strides),
                        added: false,
                        biased_last: false,
                    };
                    matmul::in_place(&gathering, range.clone(), columns, &lying);
                }
                Way::Lines => {
                    let multiply = |window: &Window| {
                        window.lines(&offsets, range.clone(), |rows, lying| match lying {
                            Some(lying) => {
                                matmul::in_place(&gathering, rows, columns.clone(), &lying);
                            }
                            None => gathered(rows),
                        });
                    };
                    let lines = range.start / line..range.end.div_ceil(line);
                    match is_padded {
                        true => with_scratch(window.padded_elements(lines.clone()), |to| {
                            multiply(&window.padded(lines, to));
                        }),
                        false => multiply(&window),
                    }
                }
            }
        }
        if let Some(then) = with {
            let before = number * rows;
            then((before + range.start) * made..(before + range.end) * made);
        }
    };
    let results = products * rows * made;
    in_parts(
        (products * down * across, wanted > 1),
        team,
        &part,
        (after, results),
    );
}
