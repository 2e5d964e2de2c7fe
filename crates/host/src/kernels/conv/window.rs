//! What the windows of a convolution see of a picture, and how that becomes rows.

use std::ops::Range;

use streampool_device::{Conv, Slide};

use crate::kernels::matmul::Lying;
use crate::kernels::scratch::{Count, push, with_room};
use crate::kernels::simd::vectorised;

/// How what windows see becomes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Gathered,
    /// They are the rows of a matrix, as they lie.
    Whole,
    /// Those of a line have equal distances, if what pads it lies beside it.
    Lines,
}

/// Shorter lines have too few rows for a block.
const LEAST_LINE: usize = 12;
/// Longer lines are cut, to share them and to copy little at a time; so is a line that is all there is.
const MOST_LINE: usize = 1024;
const MOST_ALONE: usize = 96;

/// The most floats that are copied for a tap.
const MOST_SEEN: usize = 1 << 20;

impl Way {
    pub(super) fn of(op: &Conv, is_wide: bool) -> Way {
        let (shape, strides) = (op.src.shape(), op.src.layout().strides());
        let is_place =
            |slide: &Slide| (slide.kernel, slide.stride, slide.before, slide.after) == (1, 1, 0, 0);
        let follow = strides[2] == strides[3] * shape[3] as isize || shape[2] == 1;
        // At such distances all rows are in the same few sets of a cache.
        let collide = |place: isize| {
            let row = place * op.window[1].stride as isize;
            row % (4096 / size_of::<f32>()) as isize == 0
        };
        let collide = collide(strides[3]) || collide(op.weight.shape()[1] as isize);
        let is_apart = strides[1] != 1;
        let [lines, line] = [op.dst.shape()[2], op.dst.shape()[3]];
        let is_long = line > MOST_LINE || lines == 1 && line > MOST_ALONE;
        if is_wide || collide && !is_apart {
            Way::Gathered
        } else if !is_apart && op.groups == 1 && op.window.iter().all(is_place) && follow {
            Way::Whole
        } else if !is_long && (is_apart || op.groups > 1 || line >= LEAST_LINE) {
            // Channels that lie apart would be gathered one by one, and there are few of a group.
            Way::Lines
        } else {
            Way::Gathered
        }
    }
}

/// What windows see, and where.
pub(super) struct Window {
    pub(super) at: *const f32,
    /// From one channel to the next, from line to line, from place to place.
    pub(super) strides: [isize; 3],
    /// Lines and places of a line.
    pub(super) sizes: [usize; 2],
    pub(super) slides: [Slide; 2],
    pub(super) channels: usize,
    /// Results of a line.
    pub(super) line: usize,
}

impl Window {
    /// The results of `from..to` along a dimension whose windows see something by a tap; all, some or none.
    pub(super) fn seeing(&self, axis: usize, tap: usize, results: Range<usize>) -> Range<usize> {
        let slide = &self.slides[axis];
        let stride = slide.stride as usize;
        let moved = tap * slide.dilation as usize;
        let before = slide.before as usize;
        let first = before.saturating_sub(moved).div_ceil(stride);
        let end = (self.sizes[axis] + before)
            .saturating_sub(moved)
            .div_ceil(stride);
        let first = first.clamp(results.start, results.end);
        first..end.clamp(first, results.end)
    }

    /// Whether the windows of so many lines of results see something by two thirds of their taps at most, in pictures of which a
    /// second-level cache holds much. Channels lie side by side.
    pub(super) fn sees_little(&self, lines: usize) -> bool {
        let along = |axis: usize, results: usize| -> usize {
            let taps = 0..self.slides[axis].kernel as usize;
            taps.map(|tap| self.seeing(axis, tap, 0..results).len())
                .sum()
        };
        let taps = self.slides.iter().map(|slide| slide.kernel as usize);
        let all = taps.fold(lines.saturating_mul(self.line), usize::saturating_mul);
        let seen = along(0, lines).saturating_mul(along(1, self.line));
        let results = lines.saturating_mul(self.line);
        self.strides[0] == 1
            && seen.saturating_mul(3) <= all.saturating_mul(2)
            && results.saturating_mul(self.channels) <= MOST_SEEN
    }

    /// Units of a window that lie side by side, by the strides of channels, lines and places.
    pub(super) fn run(&self, strides: [isize; 3]) -> usize {
        match strides[0] {
            1 => self.channels,
            _ => 1,
        }
    }

    /// Where each run of units of a window begins, from its first on, by the strides of channels, lines and places.
    pub(super) fn offsets(&self, strides: [isize; 3]) -> Vec<isize> {
        let [down, along] = self.slides;
        let taps = down.kernel as usize * along.kernel as usize;
        let runs = self.channels / self.run(strides);
        let mut offsets = with_room(Count::of(taps) * runs);
        for tap in 0..taps as isize {
            let across = along.kernel as isize;
            let tap = tap / across * down.dilation as isize * strides[1]
                + tap % across * along.dilation as isize * strides[2];
            for channel in 0..runs as isize {
                push(&mut offsets, tap + channel * strides[0]);
            }
        }
        offsets
    }

    /// Places that all windows of a line see together.
    pub(super) fn span(&self) -> usize {
        let slide = &self.slides[1];
        let reach = (slide.kernel as usize - 1) * slide.dilation as usize;
        (self.line - 1) * slide.stride as usize + reach + 1
    }

    /// Whether some windows see padding beside the picture.
    pub(super) fn is_padded(&self) -> bool {
        let before = self.slides[1].before as usize;
        before > 0 || self.span() > self.sizes[1]
    }

    /// The strides of lines that are copied with what pads them.
    pub(super) fn padded_strides(&self) -> [isize; 3] {
        let (span, channels) = (self.span() as isize, self.channels as isize);
        match self.strides[0] {
            1 => [1, channels * span, channels],
            _ => [span, channels * span, 1],
        }
    }

    /// The lines of the picture that some lines of results see.
    fn seen(&self, lines: Range<usize>) -> Range<usize> {
        let slide = &self.slides[0];
        let (stride, before) = (slide.stride as usize, slide.before as usize);
        let reach = (slide.kernel as usize - 1) * slide.dilation as usize;
        let place = |moved: usize| moved.saturating_sub(before).min(self.sizes[0]);
        let first = place(lines.start * stride);
        first..place((lines.end - 1) * stride + reach + 1).max(first)
    }

    /// Elements of the lines that some lines of results see, with what pads them.
    pub(super) fn padded_elements(&self, lines: Range<usize>) -> Count {
        Count::of(self.seen(lines).len()) * self.channels * self.span()
    }

    /// The same window over a copy of the lines that some lines of results see, with what pads them beside the picture.
    ///
    /// # Safety
    /// What they see can be read, and there is room for the [elements](Self::padded_elements).
    pub(super) unsafe fn padded(&self, lines: Range<usize>, to: *mut f32) -> Window {
        let seen = self.seen(lines);
        let strides = self.padded_strides();
        // SAFETY: passed on from the caller.
        unsafe { pad(self, seen.clone(), self.span(), to) };
        let [down, along] = self.slides;
        Window {
            at: to.wrapping_offset(-(seen.start as isize * strides[1])),
            strides,
            sizes: [self.sizes[0], self.span()],
            slides: [
                down,
                Slide {
                    before: 0,
                    after: 0,
                    ..along
                },
            ],
            ..*self
        }
    }

    /// Calls `f` with the results of some lines, and where what they see lies, if it does at equal distances.
    pub(super) fn lines(
        &self,
        offsets: &[isize],
        results: Range<usize>,
        mut f: impl FnMut(Range<usize>, Option<Lying<'_>>),
    ) {
        let taps = |axis: usize| 0..self.slides[axis].kernel as usize;
        for line in results.start / self.line..results.end.div_ceil(self.line) {
            let begin = line * self.line;
            let mut whole = 0..self.line;
            for tap in taps(1) {
                whole = self.seeing(1, tap, whole);
            }
            let sees = |tap: &usize| !self.seeing(0, *tap, line..line + 1).is_empty();
            let seen = taps(0).find(sees).zip(taps(0).rfind(sees));
            let Some((first, last)) = seen.filter(|_| !whole.is_empty()) else {
                f(begin..begin + self.line, None);
                continue;
            };
            let run = self.run(self.strides);
            let runs = taps(1).len() * self.channels / run;
            let runs = first * runs..(last + 1) * runs;
            let from = |axis: usize, result: usize| {
                let slide = &self.slides[axis];
                let place = result as isize * slide.stride as isize - slide.before as isize;
                place * self.strides[axis + 1]
            };
            let lying = Lying {
                at: self
                    .at
                    .wrapping_offset(from(0, line) + from(1, whole.start)),
                row: self.slides[1].stride as isize * self.strides[2],
                first: runs.start * run,
                runs: &offsets[runs],
                run,
                added: false,
                biased_last: false,
            };
            for edge in [0..whole.start, whole.end..self.line] {
                if !edge.is_empty() {
                    f(begin + edge.start..begin + edge.end, None);
                }
            }
            f(begin + whole.start..begin + whole.end, Some(lying));
        }
    }

    /// Where result `result` looks by a tap; it sees something there.
    pub(super) fn place(&self, axis: usize, tap: usize, result: usize) -> usize {
        let slide = &self.slides[axis];
        result * slide.stride as usize + tap * slide.dilation as usize - slide.before as usize
    }
}

vectorised! {
    /// Copies lines of the picture, so many places of each with what pads them before and after.
    ///
    /// # Safety
    /// They can be read, and there is room for all.
    unsafe fn pad[](window: &Window, lines: Range<usize>, span: usize, to: *mut f32) {
        let [next, line_step, place_step] = window.strides;
        // Elements that stay beside each other, and how many lines of places there are of a line of the picture.
        let (each, planes) = match next {
            1 => (window.channels, 1),
            _ => (1, window.channels),
        };
        let before = (window.slides[1].before as usize).min(span);
        let places = window.sizes[1].min(span - before);
        let after = span - before - places;
        let mut to = to;
        for line in lines {
            for plane in 0..planes {
                let from = window.at.wrapping_offset(line as isize * line_step + plane as isize * next);
                // SAFETY: the caller's promise.
                unsafe {
                    zero(to, before * each);
                    to = to.add(before * each);
                    if place_step == each as isize {
                        copy(from, to, places * each);
                    } else {
                        for place in 0..places {
                            copy(from.wrapping_offset(place as isize * place_step), to.add(place * each), each);
                        }
                    }
                    to = to.add(places * each);
                    zero(to, after * each);
                    to = to.add(after * each);
                }
            }
        }
    }
}

vectorised! {
    /// Writes for each of these results those of its units: each channel that it sees by each tap. Rows are so many units apart.
    /// Says whether any lies in the picture.
    ///
    /// # Safety
    /// What the windows see can be read, and the rows be written.
    pub(super) unsafe fn gather[](
        window: &Window,
        rows: Range<usize>,
        units: Range<usize>,
        stride: usize,
        to: *mut f32,
    ) -> bool {
        let mut is_any = false;
        let [next, line_step, place_step] = window.strides;
        let across = window.slides[1].kernel as usize;
        let mut unit = units.start;
        while unit < units.end {
            let (tap, channel) = (unit / window.channels, unit % window.channels);
            let count = (window.channels - channel).min(units.end - unit);
            let (down, along) = (tap / across, tap % across);
            let to = to.wrapping_add(unit - units.start);
            let mut row = rows.start;
            while row < rows.end {
                let (line, first) = (row / window.line, row % window.line);
                let results = first..window.line.min(first + rows.end - row);
                let to = to.wrapping_add((row - rows.start) * stride);
                row += results.len();
                let mut seeing = window.seeing(1, along, results.clone());
                if window.seeing(0, down, line..line + 1).is_empty() {
                    seeing = results.end..results.end;
                }
                // SAFETY: the caller's promise.
                unsafe {
                    for result in results.start..seeing.start {
                        zero(to.wrapping_add((result - results.start) * stride), count);
                    }
                    for result in seeing.end..results.end {
                        zero(to.wrapping_add((result - results.start) * stride), count);
                    }
                    if seeing.is_empty() {
                        continue;
                    }
                    is_any = true;
                    let place = window.place(1, along, seeing.start) as isize;
                    let from = window.at.wrapping_offset(
                        window.place(0, down, line) as isize * line_step
                            + place * place_step
                            + channel as isize * next,
                    );
                    let to = to.wrapping_add((seeing.start - results.start) * stride);
                    let moved = window.slides[1].stride as isize * place_step;
                    if next == 1 {
                        for result in 0..seeing.len() {
                            copy(from.wrapping_offset(result as isize * moved), to.wrapping_add(result * stride), count);
                        }
                    } else {
                        for channel in 0..count {
                            let from = from.wrapping_offset(channel as isize * next);
                            let to = to.wrapping_add(channel);
                            for result in 0..seeing.len() {
                                *to.wrapping_add(result * stride) = *from.wrapping_offset(result as isize * moved);
                            }
                        }
                    }
                }
            }
            unit += count;
        }
        is_any
    }
}

/// So many are copied at once.
const CHUNK: usize = 16;

/// # Safety
/// As many can be read and written.
#[inline(always)]
pub(super) unsafe fn copy(from: *const f32, to: *mut f32, count: usize) {
    let mut done = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while done + CHUNK <= count {
            let some = from.add(done).cast::<[f32; CHUNK]>().read_unaligned();
            to.add(done).cast::<[f32; CHUNK]>().write_unaligned(some);
            done += CHUNK;
        }
        while done < count {
            *to.add(done) = *from.add(done);
            done += 1;
        }
    }
}

/// # Safety
/// As many can be written.
#[inline(always)]
unsafe fn zero(to: *mut f32, count: usize) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *to.add(index) = 0.0 };
    }
}
