//! Convolutions of bytes in which each channel sees only itself. Sums of so few are exact as floats.

use std::mem::MaybeUninit;
use std::ops::Range;

use streampool_device::{Conv, Slide};

use super::operands::{Ends, LEAST_CHANNELS, Seen};
use crate::given_up::Steps;
use crate::kernels::byte_lanes::{ByteLanes, Narrow, Rounding, Wide};
use crate::kernels::conv::each::seen;
use crate::kernels::conv::then::Call;
use crate::kernels::matmul::quads::To;
use crate::kernels::simd::{Level, level};
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::address;
use crate::team::Team;

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 18;
/// Bytes of results that stay in a second-level cache until they are gone over again.
const MOST_RESULTS: usize = 128 << 10;
/// Results of a line whose sums are kept in registers. The lines of many models are so long, or twice as often so.
const PLACES: usize = 7;

/// Writes the weights of all channels for each tap.
///
/// # Safety
/// They can be read, and as many floats be written.
pub(super) unsafe fn pack(op: &Conv, to: *mut f32) {
    let (shape, strides) = (op.weight.shape(), op.weight.layout().strides());
    let from = address::<i8>(&op.weight).cast_const();
    for place in 0..op.weight.layout().elements() {
        let (tap, channel) = (place / shape[0], place % shape[0]);
        let at = channel as isize * strides[0]
            + (tap / shape[3]) as isize * strides[2]
            + (tap % shape[3]) as isize * strides[3];
        // SAFETY: the weight exists, and there is room for all.
        unsafe { *to.add(place) = f32::from(*from.wrapping_offset(at)) };
    }
}

/// A convolution.
pub(super) struct Each {
    seen: Seen,
    to: Shared<u8>,
    /// From image to image, line to line, place to place, channel to channel.
    written: [isize; 4],
    weights: Shared<f32>,
    ends: Ends,
    /// What is taken from each byte.
    zero_point: f32,
    channels: usize,
    images: usize,
    results: [usize; 2],
    slides: [Slide; 2],
}

/// Neighbouring results of a line, which see these taps.
struct Part<'a> {
    /// Where the first sees its first tap, which may be of the padding.
    from: isize,
    /// Where the first is written.
    to: isize,
    down: &'a Range<usize>,
    along: Range<usize>,
}

impl Each {
    pub(super) fn new(op: &Conv, seen: &Seen, weights: *const f32, ends: Ends) -> Self {
        let (dst, strides) = (op.dst.shape(), op.dst.layout().strides());
        Each {
            seen: *seen,
            to: Shared(address(&op.dst)),
            written: [strides[0], strides[2], strides[3], strides[1]],
            weights: Shared(weights.cast_mut()),
            ends,
            zero_point: op.zero_point.into(),
            channels: op.groups,
            images: dst[0],
            results: [dst[2], dst[3]],
            slides: [op.window[0], op.window[1]],
        }
    }

    /// # Safety
    /// The weights and ends are those of the op that it was made of, whose operands can be read and written.
    pub(super) unsafe fn execute(&self, team: &dyn Team, then: Option<&Call<'_>>) {
        let taps = self.slides[0].kernel as usize * self.slides[1].kernel as usize;
        let line = self.results[1].saturating_mul(self.channels);
        let each = line.saturating_mul(taps);
        let lines = self.images * self.results[0];
        let at_once = (MOST_RESULTS / (line * self.ends.size())).max(1);
        split(lines, GRAIN.div_ceil(each.max(1)), team, &|range| {
            let mut steps = Steps::default();
            for first in range.clone().step_by(at_once) {
                let some = first..range.end.min(first + at_once);
                for number in some.clone() {
                    steps.take(each);
                    let (image, line) = (number / self.results[0], number % self.results[0]);
                    // SAFETY: the level says that the machine has the instructions; the rest the caller promises.
                    unsafe {
                        match level() {
                            Level::Avx512 => wide(self, image, line),
                            _ => narrow(self, image, line),
                        }
                    }
                }
                if let Some(then) = then {
                    then(some.start * line..some.end * line);
                }
            }
        });
    }

    /// The first place that a result sees, which may be of the padding.
    #[inline(always)]
    fn begin(&self, axis: usize, result: usize) -> isize {
        let slide = &self.slides[axis];
        (result * slide.stride as usize) as isize - self.seen.before[axis]
    }

    /// The taps by which a result sees something.
    #[inline(always)]
    fn taps(&self, axis: usize, result: usize) -> Range<usize> {
        let begin = self.begin(axis, result);
        seen(&self.slides[axis], begin, self.seen.sizes[axis])
    }

    /// # Safety
    /// As for [`execute`](Self::execute); the machine has the instructions of `L`.
    #[inline(always)]
    unsafe fn line<L: ByteLanes>(&self, image: usize, line: usize) {
        let [picture, row, step] = self.seen.strides;
        let down = self.taps(0, line);
        let from = image as isize * picture + self.begin(0, line) * row;
        let to = image as isize * self.written[0] + line as isize * self.written[1];
        let slide = &self.slides[1];
        let all = slide.kernel as usize;
        let sees_all = |place: usize| self.taps(1, place) == (0..all);
        let slides_along = (slide.stride, slide.dilation) == (1, 1);
        let results = self.results[1];
        let mut place = 0;
        while place < results {
            // The last may go over some results again.
            let first = place.min(results.saturating_sub(PLACES));
            let last = first + PLACES - 1;
            let several = last < results && sees_all(first) && sees_all(last);
            let first = if several { first } else { place };
            let part = Part {
                from: from + self.begin(1, first) * step,
                to: to + first as isize * self.written[2],
                down: &down,
                along: self.taps(1, first),
            };
            // SAFETY: the places exist; the rest the caller promises.
            unsafe {
                match (several, slides_along, all) {
                    (true, true, 3) => self.sliding::<L, 3>(&part),
                    (true, true, 5) => self.sliding::<L, 5>(&part),
                    (true, ..) => self.places::<L, PLACES, 1>(&part),
                    // Sums that do not wait for each other.
                    _ if self.channels >= 4 * L::WIDTH => self.places::<L, 1, 4>(&part),
                    _ => self.places::<L, 1, 1>(&part),
                }
            }
            place = first + if several { PLACES } else { 1 };
        }
    }

    /// All channels of `P` neighbouring results, as many vectors of them at a time.
    ///
    /// # Safety
    /// As for [`line`](Self::line); there are so many channels.
    #[allow(
        clippy::needless_range_loop,
        reason = "a zip is called, not inlined, in builds of many units"
    )]
    #[inline(always)]
    unsafe fn places<L: ByteLanes, const P: usize, const V: usize>(&self, part: &Part<'_>) {
        let next = self.seen.strides[2] * self.slides[1].stride as isize;
        let below = self.seen.strides[1] * self.slides[0].dilation as isize;
        let beside = self.seen.strides[2] * self.slides[1].dilation as isize;
        for channel in (0..self.channels).step_by(V * L::WIDTH) {
            // The last vectors may go over some channels again.
            let channel = channel.min(self.channels - V * L::WIDTH);
            // SAFETY: channels, places and taps exist; there are as many channels as lanes.
            unsafe {
                let mut sums = [[L::all_floats(0.0); V]; P];
                for vector in 0..V {
                    let first = self.first::<L>(part, channel + vector * L::WIDTH);
                    for index in 0..P {
                        sums[index][vector] = first;
                    }
                }
                for down in part.down.clone() {
                    for along in part.along.clone() {
                        let from = part.from + down as isize * below + along as isize * beside;
                        let from = self.seen.at.at(from + channel as isize).cast_const();
                        for vector in 0..V {
                            let channel = channel + vector * L::WIDTH;
                            let weight = L::load_floats(self.weight(down, along, channel));
                            let from = from.add(vector * L::WIDTH);
                            for index in 0..P {
                                let seen = L::load_bytes(from.offset(index as isize * next));
                                sums[index][vector] = L::meet(seen, weight, sums[index][vector]);
                            }
                        }
                    }
                }
                for vector in 0..V {
                    let mut of_vector = [L::all_floats(0.0); P];
                    for index in 0..P {
                        of_vector[index] = sums[index][vector];
                    }
                    self.finish::<L, P>(of_vector, part.to, channel + vector * L::WIDTH);
                }
            }
        }
    }

    /// As [`places`](Self::places), of several results that see all of `K` taps along a line, one place further on each: what they see is
    /// read once for all of them.
    ///
    /// # Safety
    /// As for [`line`](Self::line).
    #[allow(
        clippy::needless_range_loop,
        reason = "a zip is called, not inlined, in builds of many units"
    )]
    #[inline(always)]
    unsafe fn sliding<L: ByteLanes, const K: usize>(&self, part: &Part<'_>) {
        let below = self.seen.strides[1] * self.slides[0].dilation as isize;
        let beside = self.seen.strides[2];
        for channel in (0..self.channels).step_by(L::WIDTH) {
            // The last vector may go over some channels again.
            let channel = channel.min(self.channels - L::WIDTH);
            // SAFETY: channels, places and taps exist; there are as many channels as lanes.
            unsafe {
                let mut sums = [self.first::<L>(part, channel); PLACES];
                for down in part.down.clone() {
                    let mut weights = [L::all_floats(0.0); K];
                    for along in 0..K {
                        weights[along] = L::load_floats(self.weight(down, along, channel));
                    }
                    let from = part.from + down as isize * below + channel as isize;
                    let from = self.seen.at.at(from).cast_const();
                    // Written out: in a loop that is not, the sums would lie in memory.
                    macro_rules! each_place {
                        ($($place:literal)*) => {
                            $(if $place < PLACES + K - 1 {
                                let seen = L::load_bytes(from.offset($place * beside));
                                for along in 0..K {
                                    let result = ($place as usize).wrapping_sub(along);
                                    if result < PLACES {
                                        sums[result] = L::meet(seen, weights[along], sums[result]);
                                    }
                                }
                            })*
                        };
                    }
                    each_place!(0 1 2 3 4 5 6 7 8 9 10);
                }
                self.finish::<L, PLACES>(sums, part.to, channel);
            }
        }
    }

    /// The weights of a tap, from those of this channel on.
    #[inline(always)]
    fn weight(&self, down: usize, along: usize, channel: usize) -> *const f32 {
        let tap = down * self.slides[1].kernel as usize + along;
        let at = tap * self.channels + channel;
        self.weights.at(at as isize).cast_const()
    }

    /// What sums of these taps begin with: what the zero point will be too much in them.
    ///
    /// # Safety
    /// As for [`line`](Self::line).
    #[inline(always)]
    unsafe fn first<L: ByteLanes>(&self, part: &Part<'_>, channel: usize) -> L::Floats {
        // SAFETY: channels and taps exist; the rest the caller promises.
        unsafe {
            let mut first = L::all_floats(0.0);
            let [down, along] = &self.slides;
            let all = (down.kernel as usize, along.kernel as usize);
            if (part.down.len(), part.along.len()) == all {
                first = L::floats(L::load(self.ends.first.at(channel as isize)));
            } else if self.zero_point != 0.0 {
                let zero_point = L::all_floats(-self.zero_point);
                for down in part.down.clone() {
                    for along in part.along.clone() {
                        let weight = L::load_floats(self.weight(down, along, channel));
                        first = L::meet(zero_point, weight, first);
                    }
                }
            }
            first
        }
    }

    /// Writes results of a vector of channels.
    ///
    /// # Safety
    /// As for [`line`](Self::line).
    #[allow(
        clippy::needless_range_loop,
        reason = "a zip is called, not inlined, in builds of many units"
    )]
    #[inline(always)]
    unsafe fn finish<L: ByteLanes, const P: usize>(
        &self,
        sums: [L::Floats; P],
        to: isize,
        channel: usize,
    ) {
        let [_, _, place, beside] = self.written;
        let size = self.ends.size();
        let to = self.to.at((to + channel as isize * beside) * size as isize);
        let mut own = MaybeUninit::<[i32; PLACES * LEAST_CHANNELS]>::uninit();
        let own = own.as_mut_ptr().cast::<u8>();
        let ending = match beside {
            1 => self.ends.to(channel, to, place, L::WIDTH),
            _ => self.ends.to(channel, own, L::WIDTH as isize, L::WIDTH),
        };
        // SAFETY: the results exist, and there is room for those that lie apart; the rest the caller promises.
        unsafe {
            match ending {
                To::Signed(..) => {}
                To::Biased { to, row, bias, .. } => {
                    let bias = L::load(bias);
                    for index in 0..P {
                        let sum = L::add(L::whole(sums[index]), bias);
                        L::store(sum, to.offset(index as isize * row), L::WIDTH);
                    }
                }
                To::Bytes {
                    to,
                    row,
                    scale,
                    more,
                    zero_point,
                    ..
                } => {
                    let rounding = Rounding::<L>::of(zero_point);
                    let (scale, more) = (L::load_floats(scale), L::load_floats(more));
                    for index in 0..P {
                        let bytes = rounding.bytes(sums[index], scale, more);
                        L::store_bytes(bytes, to.offset(index as isize * row), L::WIDTH);
                    }
                }
            }
            if beside != 1 {
                self.ends.spread(own, (P, L::WIDTH), to, [place, beside]);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn wide(each: &Each, image: usize, line: usize) {
    // SAFETY: the caller's promise; the function is only called where the features are.
    unsafe { each.line::<Wide>(image, line) }
}

#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn narrow(each: &Each, image: usize, line: usize) {
    // SAFETY: as above.
    unsafe { each.line::<Narrow>(image, line) }
}
