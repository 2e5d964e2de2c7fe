//! One spatial dimension of a convolution.

use std::ops::Range;

use streampool_device::Slide;

use crate::kernels::scratch::{Count, list, push, with_room};

/// How the window lies along one dimension of the source, for results `every` elements apart.
///
/// The copy of the image has every `step`-th element side by side, in as many folds as taps need, so that what a
/// tap sees for neighbouring results are neighbours.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// How many results there are.
    pub(super) outputs: usize,
    /// Where the first is in the result.
    pub(super) first: usize,
    /// The distance between two in the result.
    pub(super) every: usize,
    /// Elements of the source.
    size: usize,
    /// Where in the source the first result looks first.
    start: isize,
    /// How much further the next looks.
    step: usize,
    pub(super) taps: Vec<Tap>,
    /// The remainders of taps' distances from the start by the step: a fold for each.
    pub(super) folds: Vec<usize>,
}

/// An element of the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tap {
    /// Its number in the kernel.
    pub(super) number: usize,
    /// In which fold it sees elements.
    pub(super) fold: usize,
    /// Which one there, for the first result.
    pub(super) at: usize,
}

impl Axis {
    /// A dimension that is not there.
    pub(super) fn single() -> Axis {
        Axis::forward(&Slide::new(1), 1, 1)
    }

    pub(super) fn forward(slide: &Slide, size: usize, outputs: usize) -> Axis {
        let (dilation, before) = (slide.dilation as usize, slide.before as usize);
        let moved = outputs.saturating_sub(1) * slide.stride as usize;
        // Elements of the window that no result sees anything but padding by are left out.
        let end = (size + before)
            .div_ceil(dilation)
            .min(slide.kernel as usize);
        let first = before.saturating_sub(moved).div_ceil(dilation).min(end);
        let places = (first..end).map(|tap| (tap, (tap - first) * dilation));
        Axis {
            outputs,
            first: 0,
            every: 1,
            size,
            start: (first * dilation) as isize - before as isize,
            step: slide.stride as usize,
            taps: Vec::new(),
            folds: Vec::new(),
        }
        .with(list(places))
    }

    /// For a transpose, the results `phase`, `phase + stride`, … for each phase: they see the same taps. None for those that
    /// see none.
    pub(super) fn transposed(
        slide: &Slide,
        size: usize,
        outputs: usize,
    ) -> impl Iterator<Item = Option<Axis>> {
        let slide = *slide;
        let stride = slide.stride as usize;
        let shared = common(stride, slide.dilation as usize);
        // Each so many taps on there is one that sees elements, not what lies between.
        let step = stride / shared;
        let inverse = inverse(slide.dilation as usize / shared % step, step);
        (0..outputs.min(stride)).map(move |phase| {
            let behind = phase + slide.before as usize;
            let fitting = behind.is_multiple_of(shared);
            let fitting = fitting.then(|| behind / shared % step * inverse % step)?;
            Axis::phase(&slide, size, outputs, phase, step, fitting)
        })
    }

    /// Those of one phase, which sees elements through each `step`-th tap, and such is the one numbered `fitting`.
    fn phase(
        slide: &Slide,
        size: usize,
        outputs: usize,
        phase: usize,
        step: usize,
        fitting: usize,
    ) -> Option<Axis> {
        let (stride, dilation) = (slide.stride as usize, slide.dilation as usize);
        let behind = phase + slide.before as usize;
        let outputs = (outputs - phase).div_ceil(stride);
        let place = |tap: usize| (behind as isize - (tap * dilation) as isize) / stride as isize;
        // As above.
        let last = behind + outputs.saturating_sub(1) * stride;
        let end = (last / dilation + 1).min(slide.kernel as usize);
        let first = (behind + 1).saturating_sub(size.saturating_mul(stride));
        let first = first.div_ceil(dilation).min(end);
        let first = first + (fitting + step - first % step) % step;
        let mut places = with_room(Count::of(end.saturating_sub(first).div_ceil(step)));
        for tap in (first..end).step_by(step) {
            push(&mut places, (tap, place(tap)));
        }
        let start = places.iter().map(|(_, place)| *place).min()?;
        let axis = Axis {
            outputs,
            first: phase,
            every: stride,
            size,
            start,
            step: 1,
            taps: Vec::new(),
            folds: Vec::new(),
        };
        let places = places.into_iter();
        Some(axis.with(list(
            places.map(|(tap, place)| (tap, (place - start) as usize)),
        )))
    }

    /// All results, as if none saw anything.
    pub(super) fn blank(outputs: usize) -> Axis {
        Axis {
            outputs,
            first: 0,
            every: 1,
            size: 0,
            start: 0,
            step: 1,
            taps: Vec::new(),
            folds: Vec::new(),
        }
    }

    /// With taps at these distances from the start.
    fn with(mut self, places: Vec<(usize, usize)>) -> Axis {
        self.folds = list(places.iter().map(|(_, place)| place % self.step));
        self.folds.sort_unstable();
        self.folds.dedup();
        self.taps = list(places.iter().map(|&(number, place)| Tap {
            number,
            fold: self.folds.partition_point(|&fold| fold < place % self.step),
            at: place / self.step,
        }));
        self
    }

    /// How many neighbours of a fold so many results see.
    pub(super) fn length(&self, outputs: usize) -> usize {
        outputs + self.taps.iter().map(|tap| tap.at).max().unwrap_or(0)
    }

    /// Where in the source the first element of a fold lies, for results from `output` on.
    pub(super) fn begin(&self, output: usize, fold: usize) -> isize {
        self.start + (output * self.step + self.folds[fold]) as isize
    }

    /// The element of the source `index` elements of a fold on, if it is none of the padding.
    pub(super) fn element(&self, begin: isize, index: usize) -> Option<usize> {
        usize::try_from(begin + (index * self.step) as isize)
            .ok()
            .filter(|&element| element < self.size)
    }

    /// Which of the first `length` elements of a fold are none of the padding.
    pub(super) fn inside(&self, begin: isize, length: usize) -> Range<usize> {
        let before = |limit: isize| {
            let distance = usize::try_from(limit - begin).unwrap_or(0);
            distance.div_ceil(self.step).min(length)
        };
        before(0)..before(self.size as isize)
    }

    /// From one element of a fold to the next, in elements of the source.
    pub(super) fn step(&self) -> usize {
        self.step
    }
}

/// The greatest common divisor of two numbers that are not zero.
fn common(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The number below `modulus` by which `number` is one, as far as they go round; they have no common divisor.
fn inverse(number: usize, modulus: usize) -> usize {
    let (mut before, mut rest) = ((modulus, 0), (number, 1 % modulus));
    while rest.0 != 0 {
        let times = before.0 / rest.0;
        let less = times % modulus * rest.1 % modulus;
        let next = (before.0 % rest.0, (before.1 + modulus - less) % modulus);
        (before, rest) = (rest, next);
    }
    before.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What result `output` sees through each tap, by the definition of [`Slide`].
    fn seen(axis: &Axis, output: usize) -> Vec<(usize, Option<usize>)> {
        axis.taps
            .iter()
            .map(|tap| {
                let begin = axis.begin(0, tap.fold);
                (tap.number, axis.element(begin, tap.at + output))
            })
            .collect()
    }

    #[test]
    fn taps_see_what_the_slide_says() {
        for stride in 1..4 {
            for dilation in 1..4 {
                for before in 0..4 {
                    let slide = Slide {
                        stride,
                        dilation,
                        before,
                        after: 2,
                        ..Slide::new(3)
                    };
                    let size = 9;
                    let axis = Axis::forward(&slide, size, slide.windows(size));
                    for output in 0..axis.outputs {
                        for (tap, element) in seen(&axis, output) {
                            let place = output as isize * stride as isize
                                + tap as isize * dilation as isize
                                - before as isize;
                            let wanted = usize::try_from(place).ok().filter(|&at| at < size);
                            assert_eq!(element, wanted);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn transposed_taps_spread_each_element_once() {
        for (stride, dilation, before) in [
            (1, 1, 0),
            (2, 1, 1),
            (3, 2, 1),
            (2, 2, 3),
            (3, 1, 0),
            (12, 10, 7),
            (7, 5, 2),
            (9, 1, 4),
        ] {
            let slide = Slide {
                stride,
                dilation,
                before,
                after: 1,
                ..Slide::new(4)
            };
            let size = 5;
            let outputs = slide.spread(size).max(0) as usize;
            let mut spread = Vec::new();
            for axis in Axis::transposed(&slide, size, outputs).flatten() {
                for output in 0..axis.outputs {
                    let place = axis.first + output * axis.every;
                    let found = seen(&axis, output).into_iter();
                    spread.extend(found.filter_map(|(tap, from)| Some((from?, tap, place))));
                }
            }
            spread.sort_unstable();
            let mut wanted = Vec::new();
            for from in 0..size {
                for tap in 0..4 {
                    let place = (from * stride as usize + tap * dilation as usize) as isize
                        - before as isize;
                    if let Ok(place) = usize::try_from(place)
                        && place < outputs
                    {
                        wanted.push((from, tap, place));
                    }
                }
            }
            wanted.sort_unstable();
            assert_eq!(spread, wanted, "{slide:?}");
        }
    }

    #[test]
    fn the_inside_is_what_is_no_padding() {
        let slide = Slide {
            stride: 2,
            before: 3,
            after: 4,
            ..Slide::new(3)
        };
        let axis = Axis::forward(&slide, 8, slide.windows(8));
        let length = axis.length(axis.outputs);
        for output in 0..3 {
            for fold in 0..axis.folds.len() {
                let begin = axis.begin(output, fold);
                let inside = axis.inside(begin, length);
                for index in 0..length {
                    let is_inside = axis.element(begin, index).is_some();
                    assert_eq!(inside.contains(&index), is_inside);
                }
            }
        }
    }
}
