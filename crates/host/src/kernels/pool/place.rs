//! Where the window lies.

use std::ops::Range;

use streampool_device::{Pool, PoolKind, Slide, View};

/// One spatial dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Along {
    slide: Slide,
    /// Elements of the source.
    pub(super) size: usize,
    /// Windows.
    pub(super) outputs: usize,
}

impl Along {
    /// The three spatial dimensions of an op. Missing ones come first, and have one element.
    pub(super) fn of(op: &Pool) -> [Along; 3] {
        [0, 1, 2].map(|place| {
            let axis = (place + op.window.len()).checked_sub(3);
            match axis {
                Some(axis) => Along {
                    slide: op.window[axis],
                    size: op.src.shape()[axis + 2],
                    outputs: op.dst.shape()[axis + 2],
                },
                None => Along {
                    slide: Slide::new(1),
                    size: 1,
                    outputs: 1,
                },
            }
        })
    }

    fn begin(&self, output: usize) -> isize {
        output as isize * self.slide.stride as isize - self.slide.before as isize
    }

    /// Which elements of the window are none of the padding.
    fn inside(&self, output: usize) -> Range<usize> {
        self.below(output, 0)..self.below(output, self.size as isize)
    }

    /// How many elements of the window lie before `limit`.
    fn below(&self, output: usize, limit: isize) -> usize {
        let distance = usize::try_from(limit - self.begin(output)).unwrap_or(0);
        let kernel = self.slide.kernel as usize;
        distance.div_ceil(self.slide.dilation as usize).min(kernel)
    }

    /// The places of the source that the window sees, rising.
    pub(super) fn seen(
        &self,
        output: usize,
    ) -> impl ExactSizeIterator<Item = usize> + Clone + use<> {
        let (begin, dilation) = (self.begin(output), self.slide.dilation as isize);
        self.inside(output)
            .map(move |tap| (begin + tap as isize * dilation) as usize)
    }

    /// How many elements of the window count, with the padding or without.
    pub(super) fn counted(&self, output: usize, padding: bool) -> usize {
        match padding {
            false => self.inside(output).len(),
            true => self.below(output, (self.size + self.slide.after as usize) as isize),
        }
    }

    /// The outputs whose element `tap` of the window is none of the padding, and the place that the first of
    /// them sees by it.
    pub(super) fn seeing(&self, tap: usize) -> (Range<usize>, usize) {
        let reach = (tap * self.slide.dilation as usize) as isize - self.slide.before as isize;
        let stride = self.slide.stride as usize;
        let before = |limit: isize| {
            let distance = usize::try_from(limit - reach).unwrap_or(0);
            distance.div_ceil(stride).min(self.outputs)
        };
        let outputs = before(0)..before(self.size as isize);
        let first = (outputs.start * stride) as isize + reach;
        (outputs, usize::try_from(first).unwrap_or(0))
    }

    /// The outputs whose window has nothing of the padding.
    pub(super) fn whole(&self) -> Range<usize> {
        let last = self.kernel().saturating_sub(1);
        let [(first, _), (last, _)] = [0, last].map(|tap| self.seeing(tap));
        first.start..last.end.max(first.start)
    }

    /// The elements of the window that are none of the padding for some output.
    pub(super) fn taps(&self) -> Range<usize> {
        let last = self.outputs.saturating_sub(1);
        let end = self.below(0, self.size as isize);
        self.below(last, 0).min(end)..end
    }

    pub(super) fn kernel(&self) -> usize {
        self.slide.kernel as usize
    }

    pub(super) fn stride(&self) -> usize {
        self.slide.stride as usize
    }
}

/// Whether a mean counts what lies in the padding.
pub(super) fn counts_padding(op: &Pool) -> bool {
    op.kind
        == PoolKind::Mean {
            count_padding: true,
        }
}

/// The stride of a view along a spatial dimension, of which missing ones come first.
pub(super) fn spatial(view: &View, place: usize) -> isize {
    let strides = view.layout().strides();
    let axis = (place + strides.len()).checked_sub(3);
    axis.filter(|&axis| axis >= 2)
        .map_or(0, |axis| strides[axis])
}

/// A line of windows: image, channel, and the window along the outer dimensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    image: usize,
    channel: usize,
    pub(super) z: usize,
    pub(super) y: usize,
}

impl Line {
    /// The line of this number.
    pub(super) fn of(number: usize, channels: usize, along: &[Along; 3]) -> Line {
        let (number, y) = (number / along[1].outputs, number % along[1].outputs);
        let (number, z) = (number / along[0].outputs, number % along[0].outputs);
        Line {
            image: number / channels,
            channel: number % channels,
            z,
            y,
        }
    }

    /// Where the line's place of a view begins, for this place along the outer dimensions.
    pub(super) fn start(&self, view: &View, z: usize, y: usize) -> isize {
        let strides = view.layout().strides();
        self.image as isize * strides[0]
            + self.channel as isize * strides[1]
            + z as isize * spatial(view, 0)
            + y as isize * spatial(view, 1)
    }
}
