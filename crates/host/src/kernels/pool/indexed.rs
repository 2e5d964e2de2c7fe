//! The largest of a window, and where it is.

use streampool_device::{Pool, View};

use super::kinds::lowest;
use super::place::{Along, Line, spatial};
use crate::given_up::Steps;
use crate::kernels::combine::Reducible;
use crate::kernels::real::is_nan;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::address;
use crate::team::Team;

/// Elements of windows that are worth a thread.
const GRAIN: usize = 1 << 13;
/// So many elements of a window are looked at without a look at whether anybody wants it.
const TOGETHER: usize = 1 << 16;

/// # Safety
/// As for `execute`; the elements are of type `T`, the indices `i64`.
pub(super) unsafe fn execute<T: Reducible>(op: &Pool, indices: &View, team: &dyn Team) {
    let along = Along::of(op);
    let [z, y, x] = along;
    let channels = op.src.shape()[1];
    let lines = op.src.shape()[0] * channels * z.outputs * y.outputs;
    let each = [z.kernel(), y.kernel(), x.kernel(), x.outputs];
    let each = each.into_iter().fold(1, usize::saturating_mul);
    let (from, to, place) = (
        Shared(address::<T>(&op.src)),
        Shared(address::<T>(&op.dst)),
        Shared(address::<i64>(indices)),
    );
    let [read, write, note] = [&op.src, &op.dst, indices].map(|view| spatial(view, 2));
    let lowest = lowest::<T>();
    split(lines, GRAIN.div_ceil(each.max(1)), team, &|range| {
        let mut steps = Steps::default();
        for number in range {
            let line = Line::of(number, channels, &along);
            for output in 0..x.outputs {
                let mut largest = (lowest, -1);
                for z_at in z.seen(line.z) {
                    steps.take(1);
                    for y_at in y.seen(line.y) {
                        let start = line.start(&op.src, z_at, y_at);
                        let mut seen = x.seen(output);
                        loop {
                            steps.take(1 + seen.len().min(TOGETHER));
                            for x_at in seen.by_ref().take(TOGETHER) {
                                // SAFETY: what the window sees lies in the source.
                                let value =
                                    unsafe { *from.at(start + x_at as isize * read) }.widen();
                                let is_larger =
                                    value > largest.0 || is_nan(value) && !is_nan(largest.0);
                                if is_larger || largest.1 < 0 {
                                    let index = (z_at * y.size + y_at) * x.size + x_at;
                                    largest = (value, index as i64);
                                }
                            }
                            if seen.len() == 0 {
                                break;
                            }
                        }
                    }
                }
                let at = |view: &View| line.start(view, line.z, line.y);
                // SAFETY: the window lies in the results; ranges are disjoint.
                unsafe {
                    to.at(at(&op.dst) + output as isize * write)
                        .write(T::finish(largest.0, None));
                    place
                        .at(at(indices) + output as isize * note)
                        .write(largest.1);
                }
            }
        }
    });
}
