//! Windows over pictures with the channels of each place side by side.

use streampool_device::Pool;

use super::kinds::Pooling;
use super::place::{Along, Line, counts_padding, spatial};
use crate::given_up::Steps;
use crate::kernels::scratch::{Count, push, with_room};
use crate::kernels::simd::vectorised;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::address;
use crate::team::Team;

/// Elements of windows that are worth a thread.
const GRAIN: usize = 1 << 15;
/// Fewer channels are not worth a loop.
const LEAST_CHANNELS: usize = 8;

/// The elements of larger windows are not listed.
const MOST_SEEN: usize = 1 << 10;

/// Whether this is the way to go over the windows.
pub(super) fn suits(op: &Pool) -> bool {
    let beside = |strides: &[isize]| strides[1] == 1;
    let seen = Along::of(op).map(|along| along.kernel().min(along.size));
    op.src.shape()[1] >= LEAST_CHANNELS
        && seen.into_iter().fold(1, usize::saturating_mul) <= MOST_SEEN
        && beside(op.src.layout().strides())
        && beside(op.dst.layout().strides())
}

/// # Safety
/// As for `execute`; the elements are those of the pooling, and it [`suits`].
pub(super) unsafe fn execute<P: Pooling>(op: &Pool, pooling: &P, team: &dyn Team) {
    let along = Along::of(op);
    let [z, y, x] = along;
    let channels = op.src.shape()[1];
    let lines = op.src.shape()[0] * z.outputs * y.outputs;
    let each = [z.kernel(), y.kernel(), x.kernel(), x.outputs, channels];
    let each = each.into_iter().fold(1, usize::saturating_mul);
    let (from, to) = (
        Shared(address::<P::Element>(&op.src)),
        Shared(address::<P::Element>(&op.dst)),
    );
    let steps = [spatial(&op.src, 2), spatial(&op.dst, 2)];
    let padding = counts_padding(op);
    let whole = x.whole();
    split(lines, GRAIN.div_ceil(each.max(1)), team, &|range| {
        let mut taken = Steps::default();
        let taps =
            Count::of(z.kernel().min(z.size)) * y.kernel().min(y.size) * x.kernel().min(x.size);
        let mut seen = with_room(taps);
        for number in range {
            // One channel, which stands for all.
            let line = Line::of(number, 1, &along);
            let outer = z.counted(line.z, padding) * y.counted(line.y, padding);
            let mut output = 0;
            while output < x.outputs {
                seen.clear();
                for z_at in z.seen(line.z) {
                    for y_at in y.seen(line.y) {
                        let start = line.start(&op.src, z_at, y_at);
                        for place in x.seen(output) {
                            push(&mut seen, start + place as isize * steps[0]);
                        }
                    }
                }
                let windows = match whole.contains(&output) {
                    true => whole.end - output,
                    false => 1,
                };
                taken.take(windows * (1 + seen.len() * channels));
                let count = outer * x.counted(output, padding);
                let start = line.start(&op.dst, line.z, line.y);
                let to = to.at(start + output as isize * steps[1]);
                let steps = [x.stride() as isize * steps[0], steps[1]];
                // SAFETY: what these windows see lies in the source, and their places in the result. Ranges are disjoint.
                unsafe {
                    places::<P>(
                        pooling,
                        from.at(0),
                        &seen,
                        to,
                        channels,
                        count,
                        windows,
                        steps,
                    );
                }
                output += windows;
            }
        }
    });
}

/// Channels whose sums stay in registers.
const TOGETHER: usize = 16;

vectorised! {
    /// Neighbouring windows of all channels, of which the first sees these elements and `count` count in each. Steps are those from
    /// a window to the next in the source and in the result.
    ///
    /// # Safety
    /// An element of each channel can be read there, and be written.
    #[allow(clippy::too_many_arguments)]
    unsafe fn places[P: Pooling](
        pooling: &P,
        from: *const P::Element,
        seen: &[isize],
        to: *mut P::Element,
        channels: usize,
        count: usize,
        windows: usize,
        steps: [isize; 2],
    ) {
        for window in 0..windows as isize {
            let from = from.wrapping_offset(window * steps[0]);
            let to = to.wrapping_offset(window * steps[1]);
            let mut channel = 0;
            // SAFETY: the caller's promise.
            unsafe {
                while channel < channels && channels >= TOGETHER {
                    // The last may go over some channels again.
                    channel = channel.min(channels - TOGETHER);
                    let mut sums = [pooling.nothing(); TOGETHER];
                    for &at in seen {
                        // Read at once: else the compiler would go over several windows' elements together.
                        let from = from.offset(at + channel as isize).cast::<[P::Element; TOGETHER]>();
                        let some = from.read_unaligned();
                        for (sum, element) in sums.iter_mut().zip(some) {
                            *sum = pooling.join(*sum, pooling.one(element));
                        }
                    }
                    for (index, &sum) in sums.iter().enumerate() {
                        *to.add(channel + index) = pooling.finish(sum, count);
                    }
                    channel += TOGETHER;
                }
                while channel < channels {
                    let mut sum = pooling.nothing();
                    for &at in seen {
                        sum = pooling.join(sum, pooling.one(*from.offset(at + channel as isize)));
                    }
                    *to.add(channel) = pooling.finish(sum, count);
                    channel += 1;
                }
            }
        }
    }
}
