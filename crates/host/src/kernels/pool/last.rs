//! Windows over pictures with the channels of each place side by side.

use std::slice;

use streampool_device::{Pool, PoolKind};

use super::kinds::Pooling;
use super::place::{Along, Line, spatial};
use crate::given_up::Steps;
use crate::kernels::scratch::{Count, with_scratch};
use crate::kernels::simd::vectorised;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::address;
use crate::team::Team;

/// Elements of windows that are worth a thread.
const GRAIN: usize = 1 << 15;
/// Fewer channels are not worth a loop.
const LEAST_CHANNELS: usize = 8;

/// Whether this is the way to go over the windows.
pub(super) fn suits(op: &Pool) -> bool {
    let beside = |strides: &[isize]| strides[1] == 1;
    op.src.shape()[1] >= LEAST_CHANNELS
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
    let padding = op.kind
        == PoolKind::Mean {
            count_padding: true,
        };
    split(lines, GRAIN.div_ceil(each.max(1)), team, &|range| {
        let mut taken = Steps::default();
        with_scratch(Count::of(channels), |sums: *mut P::Sum| {
            for number in range {
                // One channel, which stands for all.
                let line = Line::of(number, 1, &along);
                let outer = z.counted(line.z, padding) * y.counted(line.y, padding);
                for output in 0..x.outputs {
                    // SAFETY: what the window sees lies in the source, and the place in the result; the scratch has
                    // room for a sum of each channel. Ranges are disjoint.
                    unsafe {
                        let mut is_first = true;
                        for z_at in z.seen(line.z) {
                            taken.take(1);
                            for y_at in y.seen(line.y) {
                                let start = line.start(&op.src, z_at, y_at);
                                for x_at in x.seen(output) {
                                    taken.take(channels);
                                    let seen = from.at(start + x_at as isize * steps[0]);
                                    add::<P>(pooling, seen, sums, channels, is_first);
                                    is_first = false;
                                }
                            }
                        }
                        if is_first {
                            for channel in 0..channels {
                                sums.add(channel).write(pooling.nothing());
                            }
                        }
                        let count = outer * x.counted(output, padding);
                        let start = line.start(&op.dst, line.z, line.y);
                        let to = to.at(start + output as isize * steps[1]);
                        finish::<P>(pooling, sums, to, channels, count);
                    }
                }
            }
        });
    });
}

vectorised! {
    /// Joins an element of each channel to the sums.
    ///
    /// # Safety
    /// As many elements can be read, and sums be written and, save for the first, read.
    unsafe fn add[P: Pooling](
        pooling: &P,
        from: *const P::Element,
        sums: *mut P::Sum,
        channels: usize,
        is_first: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let from = slice::from_raw_parts(from, channels);
            if is_first {
                for (channel, &element) in from.iter().enumerate() {
                    sums.add(channel).write(pooling.one(element));
                }
            } else {
                for (channel, &element) in from.iter().enumerate() {
                    let sum = sums.add(channel);
                    sum.write(pooling.join(*sum, pooling.one(element)));
                }
            }
        }
    }
}

vectorised! {
    /// Stores the results of windows of which `count` elements count.
    ///
    /// # Safety
    /// As many sums can be read and elements be written.
    unsafe fn finish[P: Pooling](
        pooling: &P,
        sums: *const P::Sum,
        to: *mut P::Element,
        channels: usize,
        count: usize,
    ) {
        for channel in 0..channels {
            // SAFETY: the caller's promise.
            unsafe { to.add(channel).write(pooling.finish(*sums.add(channel), count)) };
        }
    }
}
