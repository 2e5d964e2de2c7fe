//! The copy of a part of the image that the sums read.

use std::ops::Range;

use streampool_device::View;

use super::Axis;
use crate::given_up::{self, Steps};
use crate::kernels::convert::{Float, Native};
use crate::kernels::matmul::factor::convert;
use crate::kernels::scratch::{Count, with_room};
use crate::kernels::simd::vectorised;
use crate::kernels::strided::address;

/// What one call computes.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) image: usize,
    pub(super) group: usize,
    /// The first result along each dimension, and how many there are.
    pub(super) first: [usize; 3],
    pub(super) outputs: [usize; 3],
    pub(super) rows: Range<usize>,
}

/// How the copy lies: for each channel the folds of all dimensions, each of `lengths`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) lengths: [usize; 3],
    /// Elements of one choice of folds.
    pub(super) plane: usize,
    /// Elements of a channel.
    pub(super) channel: usize,
}

/// Elements behind the copy that may be read, and counted for nothing.
pub(super) const SLACK: usize = 256;

impl Shape {
    /// For at most so many results along each dimension; `is_whole` tells whether these are all along the last.
    pub(super) fn new(axes: &[Axis; 3], outputs: [usize; 3], is_whole: bool) -> Shape {
        let mut lengths = [0, 1, 2].map(|place| axes[place].length(outputs[place]));
        if is_whole {
            lengths[2] = shared(&axes[2], lengths[2]);
        }
        // More than can be counted is more than there is memory for.
        let plane = lengths.into_iter().fold(1, usize::saturating_mul);
        let folds = axes.iter().map(|axis| axis.folds.len());
        Shape {
            lengths,
            plane,
            channel: folds.fold(plane, usize::saturating_mul),
        }
    }

    /// Where each tap of each channel sees the first result.
    pub(super) fn offsets(&self, axes: &[Axis; 3], channels: usize) -> Vec<usize> {
        let [z, y, x] = axes;
        let taps = Count::of(z.taps.len()) * y.taps.len() * x.taps.len();
        let mut offsets = with_room(taps * channels);
        for channel in 0..channels {
            given_up::check();
            for tz in &z.taps {
                for ty in &y.taps {
                    for tx in &x.taps {
                        let fold = (tz.fold * y.folds.len() + ty.fold) * x.folds.len() + tx.fold;
                        let at = (tz.at * self.lengths[1] + ty.at) * self.lengths[2] + tx.at;
                        let before = channel.saturating_mul(self.channel);
                        offsets.push(
                            before
                                .saturating_add(fold.saturating_mul(self.plane))
                                .saturating_add(at),
                        );
                    }
                }
            }
        }
        offsets
    }
}

/// How much of a line of `length` is left if the zeros before the next line serve as those behind it.
fn shared(axis: &Axis, length: usize) -> usize {
    if axis.folds.len() != 1 {
        return length;
    }
    let inside = axis.inside(axis.begin(0, 0), length);
    let behind = length - inside.end;
    // Behind the last line of all there is only the slack.
    match behind <= inside.start.min(SLACK / 4) {
        true => (length - behind).max(axis.outputs),
        false => length,
    }
}

/// Copies the channels of a part to `to`, and zeros for the padding and behind.
///
/// # Safety
/// The source can be read and is of type `T`; `to` has room for all channels and the slack.
pub(super) unsafe fn copy<T: Float>(
    src: &View,
    axes: &[Axis; 3],
    shape: &Shape,
    part: &Part,
    channels: usize,
    to: *mut T::Wide,
) {
    let strides = src.layout().strides();
    let stride = |place| spatial(strides, place);
    let [z, y, x] = axes;
    let first = (part.group * channels) as isize * strides[1] + part.image as isize * strides[0];
    let from: *const T = address::<T>(src).wrapping_offset(first);
    let (mut to, mut steps) = (to, Steps::default());
    for channel in 0..channels {
        let from = from.wrapping_offset(channel as isize * strides[1]);
        for fold in folds(axes) {
            let begin = |place: usize| axes[place].begin(part.first[place], fold[place]);
            let begin = [begin(0), begin(1), begin(2)];
            let inside = x.inside(begin[2], shape.lengths[2]);
            let lines = Lines {
                lines: shape.lengths[1],
                inside: y.inside(begin[1], shape.lengths[1]),
                next: stride(1) * y.step() as isize,
                length: shape.lengths[2],
                before: inside.start,
                count: inside.len(),
                step: stride(2) * x.step() as isize,
            };
            let start = begin[1] * stride(1)
                + begin[2] * stride(2)
                + lines.inside.start as isize * lines.next
                + inside.start as isize * lines.step;
            for index in 0..shape.lengths[0] {
                steps.take(1 + shape.lengths[1] * shape.lengths[2]);
                // SAFETY: elements inside lie in the source, and each line in the room for it and what follows.
                unsafe {
                    match z.element(begin[0], index) {
                        Some(plane) => {
                            let at = from.wrapping_offset(plane as isize * stride(0) + start);
                            copy_lines::<T>(at, &lines, to);
                        }
                        None => zeros(to, shape.lengths[1] * shape.lengths[2]),
                    }
                }
                to = to.wrapping_add(shape.lengths[1] * shape.lengths[2]);
            }
        }
    }
    // SAFETY: there is room for the slack.
    unsafe { zeros(to, SLACK - ZEROS) };
}

/// Each choice of folds.
fn folds(axes: &[Axis; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [z, y, x] = [0, 1, 2].map(|place| axes[place].folds.len());
    (0..z * y * x).map(move |number| [number / x / y, number / x % y, number % x])
}

/// The stride along a spatial dimension, of which missing ones come first.
pub(super) fn spatial(strides: &[isize], place: usize) -> isize {
    let axis = (place + strides.len()).checked_sub(3);
    axis.filter(|&axis| axis >= 2)
        .map_or(0, |axis| strides[axis])
}

/// How the lines of a plane are copied.
struct Lines {
    lines: usize,
    /// Those that are none of the padding.
    inside: Range<usize>,
    /// From one to the next in the source.
    next: isize,
    /// Elements of a line.
    length: usize,
    /// Zeros before what is copied.
    before: usize,
    /// What is copied; zeros follow.
    count: usize,
    /// From one element to the next in the source.
    step: isize,
}

vectorised! {
    /// Copies lines, the first of those inside from `from`. Up to [`ZEROS`] elements behind them are overwritten.
    ///
    /// # Safety
    /// The lines inside can be read, and all lines be written.
    unsafe fn copy_lines[T: Float](from: *const T, how: &Lines, to: *mut T::Wide) {
        let behind = how.before + how.count;
        for line in 0..how.lines {
            let to = to.wrapping_add(line * how.length);
            // SAFETY: lines inside and their elements lie in the source; lines are written in their order, so
            // that what is overwritten behind one is written after it.
            unsafe {
                if !how.inside.contains(&line) || how.count == 0 {
                    zeros(to, how.length);
                    continue;
                }
                let from = from.offset((line - how.inside.start) as isize * how.next);
                zeros(to, how.before);
                let copied = to.add(how.before);
                if how.step == 1 {
                    convert(from, copied, how.count, |element: T| element.widen());
                } else {
                    for index in 0..how.count {
                        *copied.add(index) = (*from.offset(index as isize * how.step)).widen();
                    }
                }
                zeros(to.add(behind), how.length - behind);
            }
        }
    }
}

/// So many zeros are written at once.
const ZEROS: usize = 16;

/// Writes at least `count` zeros, and fewer than [`ZEROS`] more: mostly there is one, and a loop over it would
/// become a call.
///
/// # Safety
/// As many can be written.
#[inline(always)]
unsafe fn zeros<W: Native>(to: *mut W, count: usize) {
    let some = [W::from_scalar(0.0.into()); ZEROS];
    let mut done = 0;
    while done < count {
        // SAFETY: the caller's promise.
        unsafe { to.add(done).cast::<[W; ZEROS]>().write_unaligned(some) };
        done += ZEROS;
    }
}
