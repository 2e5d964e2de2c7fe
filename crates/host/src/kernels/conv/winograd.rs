//! Convolutions of 3 x 3 taps by Winograd's method, with the channels of each place side by side: 36 multiplications make 16
//! results, or 16 make four, in place of nine for each.
//!
//! Lines of two or four results are a tile of as many lines. What a tile sees becomes as many numbers for each channel; those of
//! all tiles at one of their positions are the rows of a matrix, which is multiplied with the weights of that position. Of these
//! products come the results of a tile.
//!
//! For what stands behind it see Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016). Larger tiles are
//! exact polynomials through the points 0, 2/3, -2/3, 3/2, -3/2 and infinity, which lose few digits; and products are summed by
//! [`CHUNK`] channels, so that the error stays near that of a plain sum.

use std::ops::Range;

use streampool_device::{Activation, Conv, Slide};

use super::each::activated;
use super::then::{Call, in_parts};
use super::tiles::{COLUMNS, LINE, MOST_SEEN, Room, TAPS, Tiles, make, see};
pub(super) use super::tiles::{pack, packed_bytes};
use crate::given_up;
use crate::kernels::matmul::lanes::Bounds;
use crate::kernels::matmul::{self, Gathering, Lying};
use crate::kernels::scratch::{Count, odd_lines, with_scratch};
use crate::kernels::split::Shared;
use crate::kernels::strided::address;
use crate::team::Team;

/// Fewer channels are not worth their change.
const LEAST_CHANNELS: usize = 16;
/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 18;
/// Channels whose products are summed before they are added to others.
const CHUNK: usize = 32;
/// Changing what tiles see takes as long as multiplying it with so many columns.
const CHANGE: usize = 5;
/// Floats of what tiles see and of their products that stay in a second-level cache.
const CACHE: usize = 1 << 18;
/// A block of rows.
const ROWS: usize = 12;
/// Reading weights takes as long as multiplying so many rows with them.
const READING: usize = 30;

/// How many places a tile sees along a dimension, if this is the way to compute a convolution of pictures whose channels lie side
/// by side. It does not depend on how many pictures there are: each has the same results among others.
pub(super) fn seen(op: &Conv) -> Option<usize> {
    let is_three = |slide: &Slide| (slide.kernel, slide.stride, slide.dilation) == (3, 1, 1);
    let (src, dst) = (op.src.layout(), op.dst.layout());
    let [_, made, lines, places] = dst.shape()[..] else {
        return None;
    };
    let suits = op.groups == 1
        && op.window.iter().all(is_three)
        && src.strides()[1] == 1
        && dst.strides()[1] == 1
        && src.shape()[1] >= LEAST_CHANNELS
        && made >= LEAST_CHANNELS;
    if !suits {
        return None;
    }
    // Multiplications for each weight of a tap, with a tenth for what is changed.
    let rows = lines.saturating_mul(places).saturating_add(READING);
    let plain = (TAPS * TAPS * 10).saturating_mul(rows);
    let cost = |seen: usize| {
        let results = seen + 1 - TAPS;
        let tiles = lines
            .div_ceil(results)
            .saturating_mul(places.div_ceil(results));
        let times = tiles.div_ceil(most_tiles(seen, [src.shape()[1], made]));
        let rows = tiles.saturating_add(READING.saturating_mul(times));
        (seen * seen * 11).saturating_mul(rows)
    };
    let (cost, seen) = [4, MOST_SEEN]
        .map(|seen| (cost(seen), seen))
        .into_iter()
        .min()?;
    (cost < plain).then_some(seen)
}

/// Tiles whose products stay in a cache.
fn most_tiles(seen: usize, [read, made]: [usize; 2]) -> usize {
    let tiles = CACHE / (seen * seen) / (read + COLUMNS.min(made));
    (tiles / ROWS).max(1) * ROWS
}

/// A convolution.
struct Winograd {
    tiles: Tiles,
    /// Those of each position.
    weights: Shared<f32>,
    activation: Activation,
}

/// # Safety
/// The operands can be read and written; the weights are [packed](pack), and tiles [see](seen) so many places.
pub(super) unsafe fn execute(
    op: &Conv,
    seen: usize,
    weights: *const f32,
    team: &dyn Team,
    bounds: Bounds,
    then: Option<&Call<'_>>,
) {
    let (src, dst) = (op.src.layout(), op.dst.layout());
    let of = |strides: &[isize]| [strides[0], strides[2], strides[3]];
    let tiles = Tiles {
        from: Shared(address(&op.src)),
        to: Shared(address(&op.dst)),
        read: of(src.strides()),
        written: of(dst.strides()),
        bias: (op.bias.as_ref()).map(|view| (Shared(address(view)), view.layout().strides()[0])),
        channels: [src.shape()[1], dst.shape()[1]],
        sizes: [src.shape()[2], src.shape()[3]],
        results: [dst.shape()[2], dst.shape()[3]],
        before: [0, 1].map(|axis: usize| op.window[axis].before as usize),
        seen,
        made: seen + 1 - TAPS,
        along: dst.shape()[3].div_ceil(seen + 1 - TAPS),
        bounds: Bounds::of(op.activation, bounds),
    };
    let images = src.shape()[0];
    let [read, made] = tiles.channels;
    let lines = tiles.results[0].div_ceil(tiles.made);
    let work = [lines, tiles.along, seen * seen, read, made, images];
    let work = work.into_iter().fold(1, usize::saturating_mul);
    let results = images * made * tiles.results[0] * tiles.results[1];
    let winograd = Winograd {
        tiles,
        weights: Shared(weights.cast_mut()),
        activation: op.activation,
    };
    let [down, across] = winograd.parts(images, lines, team.width());
    // Where a part makes all channels of its places, what follows is done with it.
    let (with, after) = match across {
        1 => (then, None),
        _ => (None, then),
    };
    let part = |number: usize| {
        let (number, column) = (number / across, number % across);
        let (image, part) = (number / down, number % down);
        let lines = matmul::part(lines, down, part, 1);
        let columns = matmul::part(made, across, column, matmul::columns_of_a_block());
        // SAFETY: parts are disjoint; the rest is passed on from the caller.
        unsafe { winograd.part(image, lines, columns, with) };
    };
    let is_divided = work >= 2 * GRAIN && team.width() > 1;
    in_parts(
        (images * down * across, is_divided),
        team,
        &part,
        (after, results),
    );
}

impl Winograd {
    /// Into how many parts the lines of tiles and the channels are divided.
    fn parts(&self, images: usize, lines: usize, width: usize) -> [usize; 2] {
        let made = self.tiles.channels[1];
        let most = made.div_ceil(COLUMNS);
        let parts = |across: usize, times: usize| {
            let whole = images.saturating_mul(across);
            let down = (width.div_ceil(whole) * times).min(lines);
            let rounds = whole.saturating_mul(down).div_ceil(width);
            // By the channels, what tiles see is changed anew for each part.
            let columns = made.div_ceil(across) + CHANGE;
            let cost = rounds
                .saturating_mul(lines.div_ceil(down))
                .saturating_mul(columns);
            (cost, [down, across])
        };
        let ways =
            (1..=most.min(width)).flat_map(|across| (1..=4).map(move |times| (across, times)));
        let best = ways.map(|(across, times)| parts(across, times)).min();
        best.map_or([1, 1], |(_, parts)| parts)
    }

    /// # Safety
    /// As for [`execute`].
    unsafe fn part(
        &self,
        image: usize,
        lines: Range<usize>,
        columns: Range<usize>,
        then: Option<&Call<'_>>,
    ) {
        if lines.is_empty() || columns.is_empty() {
            return;
        }
        let Tiles {
            seen,
            along,
            channels,
            results,
            ..
        } = self.tiles;
        let [read, made] = channels;
        let positions = seen * seen;
        let most = most_tiles(seen, channels).min(lines.len() * along);
        let at_once = (most / along).max(1);
        let rows = [odd_lines(read), odd_lines(COLUMNS.min(columns.len()))];
        let steps = rows.map(|row| odd_lines(row.saturating_mul(most)));
        let zeros = read.next_multiple_of(LINE);
        let floats = Count::of(positions) * steps[0] + Count::of(positions) * steps[1] + zeros;
        with_scratch(floats, |scratch: *mut f32| {
            let room = Room {
                zeros: scratch,
                seen: scratch.wrapping_add(zeros),
                products: scratch.wrapping_add(zeros + positions * steps[0]),
                steps,
                rows,
            };
            // SAFETY: there is room for them.
            unsafe { room.zeros.write_bytes(0, zeros) };
            for first in lines.clone().step_by(at_once) {
                let some = first..lines.end.min(first + at_once);
                let tiles = some.start * along..some.end * along;
                for tile in tiles.clone().step_by(most) {
                    let tiles = tile..tiles.end.min(tile + most);
                    // SAFETY: there is room for as many tiles; the rest is passed on from the caller.
                    unsafe { self.multiply(image, tiles, columns.clone(), &room) };
                }
                let each = self.tiles.made;
                let lines = some.start * each..results[0].min(some.end * each);
                // SAFETY: as above.
                unsafe { self.activate(image, lines.clone(), &columns) };
                if let Some(then) = then {
                    let (before, line) = (image * results[0], results[1] * made);
                    then((before + lines.start) * line..(before + lines.end) * line);
                }
            }
        });
    }

    /// Makes these channels of these tiles.
    ///
    /// # Safety
    /// As for [`execute`]; there is room for these tiles.
    unsafe fn multiply(
        &self,
        image: usize,
        tiles: Range<usize>,
        columns: Range<usize>,
        room: &Room,
    ) {
        let Tiles {
            seen,
            channels: [read, made],
            ..
        } = self.tiles;
        let width = matmul::columns_of_a_block();
        let padded = made.next_multiple_of(width);
        let count = tiles.len();
        // Smaller tiles lose fewer digits.
        let chunk = if seen < MOST_SEEN { read } else { CHUNK };
        // SAFETY: the level says that the machine has the instructions; the rest the caller promises.
        unsafe { see(&self.tiles, image, tiles.clone(), room) };
        for column in columns.clone().step_by(COLUMNS) {
            let columns = column..columns.end.min(column + COLUMNS);
            // Whole vectors, also of what no weight is for.
            let whole = columns.start..columns.end.next_multiple_of(width / 2);
            for position in 0..seen * seen {
                given_up::check();
                let gathering = Gathering {
                    sizes: [count, padded, read],
                    weights: self.weights.at((position * padded * read) as isize),
                    to: room
                        .products
                        .wrapping_add(position * room.steps[1])
                        .wrapping_sub(column),
                    strides: [room.rows[1] as isize, 1],
                    bias: None,
                    activation: Activation::None,
                    bounds: Bounds::default(),
                };
                for first in (0..read).step_by(chunk) {
                    let lying = Lying {
                        at: room.seen.wrapping_add(position * room.steps[0]),
                        row: room.rows[0] as isize,
                        first,
                        runs: &[first as isize],
                        run: chunk.min(read - first),
                        added: first > 0,
                        biased_last: false,
                    };
                    // SAFETY: what tiles see has been written, and there is room for the products.
                    unsafe { matmul::in_place(&gathering, 0..count, whole.clone(), &lying) };
                }
            }
            // SAFETY: the products are there; the rest the caller promises.
            unsafe { make(&self.tiles, image, tiles.clone(), columns, room) };
        }
    }

    /// # Safety
    /// As for [`execute`].
    unsafe fn activate(&self, image: usize, lines: Range<usize>, columns: &Range<usize>) {
        let Tiles {
            written, results, ..
        } = self.tiles;
        if self.tiles.bounds.is_some() {
            return;
        }
        for line in lines {
            for place in 0..results[1] {
                let at = image as isize * written[0]
                    + line as isize * written[1]
                    + place as isize * written[2]
                    + columns.start as isize;
                // SAFETY: the place lies in the result.
                unsafe { activated(self.tiles.to.at(at), columns.len(), self.activation) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::ops::Tensor;
    use crate::team::Solo;
    use streampool_conformance::rng::Rng;
    use streampool_device::{DType, Window};

    const PADDED: Slide = Slide {
        before: 1,
        after: 1,
        ..Slide::new(3)
    };

    /// A convolution of pictures with the channels last, of numbers as `draw` gives them for the source and the weights.
    fn op(
        channels: [usize; 2],
        size: usize,
        images: usize,
        slide: Slide,
        mut draw: impl FnMut(usize) -> f64,
    ) -> (Conv, [Tensor; 3]) {
        let mut picture = |channels: usize, size: usize, which: usize| {
            Tensor::of(DType::F32, &[images, size, size, channels], || draw(which))
                .permuted(&[0, 3, 1, 2])
        };
        let (src, dst) = (
            picture(channels[0], size, 0),
            picture(channels[1], slide.windows(size), 2),
        );
        let weight = [channels[1], channels[0], TAPS, TAPS];
        let weight = Tensor::of(DType::F32, &weight, || draw(1));
        let conv = Conv {
            src: src.view,
            weight: weight.view,
            bias: None,
            dst: dst.view,
            window: Window::new(&[slide; 2]).unwrap(),
            groups: 1,
            transposed: false,
            activation: Activation::None,
            to_bytes: None,
            zero_point: 0,
        };
        (conv, [src, dst, weight])
    }

    #[test]
    fn tiles_are_as_large_as_pictures_are_worth() {
        let seen = |channels: usize, size: usize, images: usize, slide: Slide| {
            let (conv, _tensors) = op([channels; 2], size, images, slide, |_| 0.0);
            seen(&conv)
        };
        assert_eq!(seen(64, 56, 1, PADDED), Some(6));
        assert_eq!(seen(128, 28, 1, PADDED), Some(6));
        assert_eq!(seen(256, 14, 1, PADDED), Some(4));
        // The weights of all positions take longer to read than what is spared.
        assert_eq!(seen(512, 7, 1, PADDED), None);
        // Others in the batch change nothing.
        assert_eq!(seen(512, 7, 64, PADDED), None);
        assert_eq!(seen(8, 56, 1, PADDED), None);
        let stride = Slide {
            stride: 2,
            ..PADDED
        };
        assert_eq!(seen(64, 56, 1, stride), None);
    }

    /// The result of a convolution of 16 by 16 places, summed in the order of taps and channels by `add`.
    fn summed<T: Copy + Default>(
        [src, weight]: [&[f32]; 2],
        read: usize,
        made: usize,
        add: impl Fn(T, f32, f32) -> T,
    ) -> Vec<T> {
        let mut results = Vec::new();
        for (line, place) in (0..16).flat_map(|line| (0..16).map(move |place| (line, place))) {
            for unit in 0..made {
                let mut sum = T::default();
                for (down, along) in (0..3).flat_map(|down| (0..3).map(move |along| (down, along)))
                {
                    let (line, place) = (line + down, place + along);
                    if !(1..=16).contains(&line) || !(1..=16).contains(&place) {
                        continue;
                    }
                    for channel in 0..read {
                        let seen = src[((line - 1) * 16 + place - 1) * read + channel];
                        let weight = weight[((unit * read + channel) * 3 + down) * 3 + along];
                        sum = add(sum, seen, weight);
                    }
                }
                results.push(sum);
            }
        }
        results
    }

    #[test]
    fn tiles_lose_no_digit() {
        const MADE: usize = 16;
        let mut rng = Rng::new(15);
        for seen in [4, MOST_SEEN] {
            for read in [32, 64, 128, 256] {
                // As after a ReLU.
                let (conv, [src, dst, weight]) =
                    op([read, MADE], 16, 1, PADDED, |which| match which {
                        0 => rng.real(-1.0, 1.0).max(0.0),
                        1 => rng.real(-1.0, 1.0),
                        _ => 0.0,
                    });
                let bytes = packed_bytes(&conv, seen).known().unwrap();
                let mut packed = vec![0.0f32; bytes / size_of::<f32>()];
                // SAFETY: the tensors are there, and there is room for the weights.
                unsafe {
                    pack(&conv, seen, packed.as_mut_ptr());
                    execute(&conv, seen, packed.as_ptr(), &Solo, Bounds::default(), None);
                }
                let numbers = [src.floats(), weight.floats()];
                let exact = summed(numbers, read, MADE, |sum: f64, x, y| {
                    sum + f64::from(x) * f64::from(y)
                });
                let plain = summed(numbers, read, MADE, |sum: f32, x, y| x.mul_add(y, sum));
                let largest = exact.iter().fold(0.0, |most: f64, sum| most.max(sum.abs()));
                let errors = |results: &[f32]| {
                    let errors = results.iter().zip(&exact);
                    let errors = errors.map(|(&x, &y)| (f64::from(x) - y).abs() / largest);
                    let (most, squares) = errors.fold((0.0, 0.0), |(most, squares), error| {
                        (f64::max(most, error), squares + error * error)
                    });
                    (most, (squares / exact.len() as f64).sqrt())
                };
                let (ours, plain) = (errors(dst.floats()), errors(&plain));
                let ratio = ours.1 / plain.1;
                println!(
                    "{seen} places, {read} channels: at most {:.1e} of the largest (plain {:.1e}), root mean square {ratio:.2} of plain",
                    ours.0, plain.0
                );
                let most = if seen == MOST_SEEN { 2.5 } else { 1.0 };
                assert!(ratio < most && ours.0 < 1.5e-6);
            }
        }
    }
}
