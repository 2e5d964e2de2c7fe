//! Convolutions in which each channel sees only itself, with the channels of each place side by side.

use std::ops::Range;

use streampool_device::{Activation, Conv, Slide};

use super::then::Call;
use super::window::Window;
use crate::given_up::Steps;
use crate::kernels::matmul::lanes::{Bounded, Bounds, PlainF32, between};
use crate::kernels::rows::fetch_later;
use crate::kernels::scratch::{FLOATS_OF_A_LINE, with_scratch};
use crate::kernels::simd::{level, vectorised};
use crate::kernels::smooth::activate;
use crate::kernels::split::{Shared, parts, split_into};
use crate::kernels::strided::address;
#[cfg(target_arch = "x86_64")]
use crate::kernels::{
    matmul::lanes::{Avx2F32, Avx512F32},
    simd::Level,
};
use crate::team::Team;

/// The most lanes of a vector: fewer channels are no vector.
pub(super) const MOST_LANES: usize = 16;
/// The most places that a line of results sees: of more, few see what pads them.
const MOST_PADDED: usize = 20;
/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 16;
/// Bytes of what a line of results sees, and of its weights, that stay in a first-level cache while lines are gone through.
const CACHE: usize = 24 << 10;
/// Bytes of a copy that stay in a second-level cache.
const MOST_COPIED: usize = 1 << 20;
/// Bytes of results that stay in a second-level cache until they are gone over again.
const MOST_RESULTS: usize = 128 << 10;

/// A convolution.
pub(super) struct Each {
    from: Shared<f32>,
    to: Shared<f32>,
    /// From image to image, from line to line, from place to place.
    read: [isize; 3],
    written: [isize; 3],
    /// For each tap, those of all channels.
    weights: Shared<f32>,
    /// The first bias, and from one to the next.
    bias: Option<(Shared<f32>, isize)>,
    channels: usize,
    images: usize,
    /// Lines and places of a line, of the source and of the result.
    sizes: [usize; 2],
    results: [usize; 2],
    slides: [Slide; 2],
    activation: Activation,
    /// Between which numbers results are kept, if the activation does no more.
    bounds: Option<Bounds>,
}

impl Each {
    pub(super) fn new(op: &Conv, weights: *const f32, bounds: Bounds) -> Self {
        let (src, dst) = (op.src.layout(), op.dst.layout());
        let of = |strides: &[isize]| [strides[0], strides[2], strides[3]];
        let bias = |view| Shared(address::<f32>(view));
        Each {
            from: Shared(address(&op.src)),
            to: Shared(address(&op.dst)),
            read: of(src.strides()),
            written: of(dst.strides()),
            weights: Shared(weights.cast_mut()),
            bias: (op.bias.as_ref()).map(|view| (bias(view), view.layout().strides()[0])),
            channels: op.groups,
            images: src.shape()[0],
            sizes: [src.shape()[2], src.shape()[3]],
            results: [dst.shape()[2], dst.shape()[3]],
            slides: [op.window[0], op.window[1]],
            activation: op.activation,
            bounds: Bounds::of(op.activation, bounds),
        }
    }

    /// # Safety
    /// The weights are those of the op that it was made of, whose operands can be read and written.
    pub(super) unsafe fn execute(&self, team: &dyn Team, then: Option<&Call<'_>>) {
        let taps = self.slides[0].kernel as usize * self.slides[1].kernel as usize;
        let each = [self.results[1], self.channels, taps];
        let each = each.into_iter().fold(1, usize::saturating_mul);
        let lines = self.images * self.results[0];
        let window = self.window(0);
        let copies = window.span() <= MOST_PADDED && window.is_padded();
        let worth = lines / GRAIN.div_ceil(each.max(1));
        let most = parts(worth, team.width());
        let count = match copies {
            // Each part copies the lines around its own, too: no more of them than threads, unless copies would be large.
            true => {
                let line = window.span().saturating_mul(self.channels) * size_of::<f32>();
                let all = line
                    .saturating_mul(lines)
                    .saturating_mul(self.slides[0].stride as usize);
                (all / MOST_COPIED)
                    .max(worth.min(team.width()))
                    .clamp(1, most)
            }
            false => most,
        };
        split_into(count, lines, team, &|range| {
            let mut number = range.start;
            while number < range.end {
                let (image, line) = (number / self.results[0], number % self.results[0]);
                let lines = line..self.results[0].min(line + range.end - number);
                number += lines.len();
                let window = self.window(image);
                // SAFETY: passed on from the caller.
                unsafe {
                    if copies {
                        with_scratch(window.padded_elements(lines.clone()), |to| {
                            let window = window.padded(lines.clone(), to);
                            let padded = Each {
                                from: Shared(window.at.cast_mut()),
                                read: [0, window.strides[1], window.strides[2]],
                                sizes: window.sizes,
                                slides: window.slides,
                                ..*self
                            };
                            padded.lines(image, lines, padded.blocks(), then);
                        });
                    } else {
                        self.lines(image, lines, (1, self.channels), then);
                    }
                }
            }
        });
    }

    fn window(&self, image: usize) -> Window {
        Window {
            at: self.from.at(image as isize * self.read[0]).cast_const(),
            strides: [1, self.read[1], self.read[2]],
            sizes: self.sizes,
            slides: self.slides,
            channels: self.channels,
            line: self.results[1],
        }
    }

    /// Of how many lines and channels results are made at a time, if what is seen lies in a second-level cache.
    fn blocks(&self) -> (usize, usize) {
        let [down, along] = self.slides.map(|slide| slide.kernel as usize);
        let each = (down * self.sizes[1] + down * along) * size_of::<f32>();
        let vectors = CACHE / each / MOST_LANES;
        let line = self.results[1] * self.channels * size_of::<f32>();
        (
            (MOST_RESULTS / line).max(1),
            vectors.max(1).saturating_mul(MOST_LANES),
        )
    }

    /// # Safety
    /// As for [`execute`](Self::execute).
    unsafe fn lines(
        &self,
        image: usize,
        lines: Range<usize>,
        (at_once, chunk): (usize, usize),
        then: Option<&Call<'_>>,
    ) {
        let taps = self.slides[0].kernel as usize * self.slides[1].kernel as usize;
        let length = self.results[1] * self.channels;
        let mut steps = Steps::default();
        for first in lines.clone().step_by(at_once) {
            let some = first..lines.end.min(first + at_once);
            for channel in (0..self.channels).step_by(chunk) {
                let channels = channel..self.channels.min(channel + chunk);
                let work = self.results[1].saturating_mul(channels.len());
                for line in some.clone() {
                    let channels = channels.clone();
                    steps.take(work.saturating_mul(taps));
                    // SAFETY: the level says that the machine has the instructions; the rest the caller promises.
                    unsafe {
                        match level() {
                            #[cfg(target_arch = "x86_64")]
                            Level::Avx512 => avx512(self, image, line, channels),
                            #[cfg(target_arch = "x86_64")]
                            Level::Avx2 => avx2(self, image, line, channels),
                            _ => self.line::<PlainF32>(image, line, channels),
                        }
                    }
                }
            }
            for line in some.clone() {
                // SAFETY: passed on from the caller.
                unsafe { self.activate(image, line) };
            }
            if let Some(then) = then {
                let before = image * self.results[0];
                then((before + some.start) * length..(before + some.end) * length);
            }
        }
    }

    /// The first element of the window of a result, which may be of the padding.
    fn begin(&self, axis: usize, result: usize) -> isize {
        let slide = &self.slides[axis];
        (result * slide.stride as usize) as isize - slide.before as isize
    }

    /// The taps by which a result sees something.
    fn seen(&self, axis: usize, result: usize) -> Range<usize> {
        let begin = self.begin(axis, result);
        seen(&self.slides[axis], begin, self.sizes[axis])
    }

    /// The results of a line that see something by all taps.
    fn inner(&self) -> Range<usize> {
        let slide = &self.slides[1];
        let (stride, before) = (slide.stride as usize, slide.before as usize);
        let reach = (slide.kernel as usize - 1) * slide.dilation as usize;
        let places = (self.sizes[1] + before).saturating_sub(reach);
        let end = places.div_ceil(stride).min(self.results[1]);
        before.div_ceil(stride).min(end)..end
    }

    /// Computes these channels of one line of results, but for an activation that is more than bounds.
    ///
    /// # Safety
    /// As for [`execute`](Self::execute); the machine has the instructions of `L`.
    #[inline(always)]
    unsafe fn line<L: Bounded>(&self, image: usize, line: usize, channels: Range<usize>) {
        let down = self.seen(0, line);
        let from = image as isize * self.read[0] + self.begin(0, line) * self.read[1];
        let to = image as isize * self.written[0] + line as isize * self.written[1];
        let all = 0..self.slides[1].kernel as usize;
        let results = self.results[1];
        // As many as have sums that stay in registers. The lines of many models are seven places long, or twice as often so.
        let most = if results.is_multiple_of(7) { 7 } else { 8 };
        let inner = self.inner();
        let whole = |place: usize, count: usize| place >= inner.start && place + count <= inner.end;
        let mut place = 0;
        while place < results {
            // The last may go over some results again.
            let last = results.saturating_sub(most);
            let (first, count) = if whole(place.min(last), most) {
                (place.min(last), most)
            } else if whole(place, 4) {
                (place, 4)
            } else {
                (place, 1)
            };
            if channels.len() == self.channels {
                self.fetch_below(image, line, first..first + count);
            }
            let from = from + self.begin(1, first) * self.read[2];
            let to = to + first as isize * self.written[2];
            // SAFETY: what is seen lies in the source; the rest the caller promises.
            unsafe {
                match count {
                    8 => self.places::<L, 8, 1>(from, to, &channels, &down, &all),
                    7 => self.places::<L, 7, 1>(from, to, &channels, &down, &all),
                    4 => self.places::<L, 4, 1>(from, to, &channels, &down, &all),
                    _ => {
                        let along = self.seen(1, first);
                        // Sums that do not wait for each other.
                        match channels.len() / L::WIDTH {
                            0 | 1 => self.places::<L, 1, 1>(from, to, &channels, &down, &along),
                            2 | 3 => self.places::<L, 1, 2>(from, to, &channels, &down, &along),
                            _ => self.places::<L, 1, 4>(from, to, &channels, &down, &along),
                        }
                    }
                }
            }
            place = first + count;
        }
    }

    /// Fetches what these places of the next line of results see in lines that this one does not see. All channels of a line are
    /// gone through for a few places at a time, which no processor takes for reading on.
    #[inline(always)]
    fn fetch_below(&self, image: usize, line: usize, places: Range<usize>) {
        let [down, along] = &self.slides;
        let reach = (down.kernel as usize - 1) * down.dilation as usize;
        let end = self.begin(0, line + 1) + reach as isize + 1;
        let lines = (end - down.stride as isize).max(0)..end.min(self.sizes[0] as isize);
        let first = self.begin(1, places.start).max(0);
        let length = places.len() * along.stride as usize * self.channels;
        for below in lines {
            let at = image as isize * self.read[0] + below * self.read[1] + first * self.read[2];
            for float in (0..length).step_by(FLOATS_OF_A_LINE) {
                fetch_later(self.from.at(at + float as isize).cast_const().cast());
            }
        }
    }

    /// These channels, of which there are at least `V` vectors, of `P` neighbouring results that see these taps.
    ///
    /// # Safety
    /// As for [`line`](Self::line).
    #[allow(
        clippy::needless_range_loop,
        reason = "a zip is called, not inlined, in builds of many units"
    )]
    #[inline(always)]
    unsafe fn places<L: Bounded, const P: usize, const V: usize>(
        &self,
        from: isize,
        to: isize,
        channels: &Range<usize>,
        down: &Range<usize>,
        along: &Range<usize>,
    ) {
        let across = self.slides[1].kernel as usize;
        let bounds = self.bounds.unwrap_or_default();
        let step = self.slides[1].stride as isize * self.read[2];
        let next = [
            self.slides[0].dilation as isize * self.read[1],
            self.slides[1].dilation as isize * self.read[2],
        ];
        for channel in channels.clone().step_by(V * L::WIDTH) {
            // The last vectors may go over some channels again.
            let channel = channel.min(self.channels - V * L::WIDTH);
            // SAFETY: channels, places and taps exist; there are as many channels as lanes.
            unsafe {
                let mut sums = [[L::zero(); V]; P];
                for vector in 0..V {
                    let first = self.first::<L>(channel + vector * L::WIDTH);
                    for place in 0..P {
                        sums[place][vector] = first;
                    }
                }
                for tap_down in down.clone() {
                    let from = from + tap_down as isize * next[0] + channel as isize;
                    for tap in along.clone() {
                        let weight = (tap_down * across + tap) * self.channels + channel;
                        let weights = self.weights.at(weight as isize);
                        let from = self.from.at(from + tap as isize * next[1]);
                        for vector in 0..V {
                            let weight = L::units(weights.add(vector * L::WIDTH));
                            let from = from.add(vector * L::WIDTH);
                            for place in 0..P {
                                let seen = L::units(from.offset(place as isize * step));
                                sums[place][vector] =
                                    sums[place][vector].plus_product(weight, seen);
                            }
                        }
                    }
                }
                let to = self.to.at(to + channel as isize);
                let bounds = bounds.lanes::<L>();
                for place in 0..P {
                    let to = to.offset(place as isize * self.written[2]);
                    for vector in 0..V {
                        let lanes = between(sums[place][vector], bounds);
                        lanes.store(to.add(vector * L::WIDTH));
                    }
                }
            }
        }
    }

    /// The sums of nothing: the bias.
    ///
    /// # Safety
    /// As for [`line`](Self::line).
    #[inline(always)]
    unsafe fn first<L: Bounded>(&self, channel: usize) -> L {
        // SAFETY: each channel has a bias; the rest the caller promises.
        unsafe {
            match &self.bias {
                None => L::zero(),
                Some((at, 1)) => L::load(at.at(channel as isize)),
                Some((at, step)) => {
                    let mut some = [0.0; MOST_LANES];
                    for (index, value) in some.iter_mut().enumerate().take(L::WIDTH) {
                        *value = *at.at((channel + index) as isize * step);
                    }
                    L::load(some.as_ptr())
                }
            }
        }
    }

    /// # Safety
    /// As for [`execute`](Self::execute).
    unsafe fn activate(&self, image: usize, line: usize) {
        if self.bounds.is_some() {
            return;
        }
        let to = image as isize * self.written[0] + line as isize * self.written[1];
        // Places that follow one another are one run.
        let (runs, length) = match self.written[2] == self.channels as isize {
            true => (1, self.results[1] * self.channels),
            false => (self.results[1], self.channels),
        };
        for run in 0..runs {
            let at = self.to.at(to + run as isize * self.written[2]);
            // SAFETY: the line lies in the result.
            unsafe { activated(at, length, self.activation) };
        }
    }
}

/// The taps of a window that begins there by which it sees something of so many places.
#[inline(always)]
pub(super) fn seen(slide: &Slide, begin: isize, places: usize) -> Range<usize> {
    let dilation = slide.dilation as usize;
    let before = |limit: isize| {
        let distance = usize::try_from(limit - begin).unwrap_or(0);
        distance.div_ceil(dilation).min(slide.kernel as usize)
    };
    let end = before(places as isize);
    before(0).min(end)..end
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512(each: &Each, image: usize, line: usize, channels: Range<usize>) {
    // SAFETY: the caller's promise; the function is only called where the features are.
    unsafe { each.line::<Avx512F32>(image, line, channels) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2(each: &Each, image: usize, line: usize, channels: Range<usize>) {
    // SAFETY: as above.
    unsafe { each.line::<Avx2F32>(image, line, channels) }
}

vectorised! {
    /// # Safety
    /// As many can be read and written.
    pub(super) unsafe fn activated<M>[](at: *mut f32, count: usize, activation: Activation) {
        // SAFETY: the caller's promise.
        activate::<M, _>(activation, unsafe { std::slice::from_raw_parts_mut(at, count) });
    }
}
