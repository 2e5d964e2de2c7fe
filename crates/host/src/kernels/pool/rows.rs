//! Lines of windows: first what each column of a line's windows comes to, then neighbouring columns joined.

use streampool_device::Pool;

use super::kinds::Pooling;
use super::place::{Along, Line, counts_padding, spatial};
use crate::given_up::Steps;
use crate::kernels::scratch::{Count, with_scratch};
use crate::kernels::simd::vectorised;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::address;
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 15;

/// # Safety
/// As for `execute`; the elements are those of the pooling.
pub(super) unsafe fn execute<P: Pooling>(op: &Pool, pooling: &P, team: &dyn Team) {
    let along = Along::of(op);
    let [z, y, x] = along;
    let channels = op.src.shape()[1];
    let lines = op.src.shape()[0] * channels * z.outputs * y.outputs;
    let each = (x.size.saturating_mul(z.kernel()).saturating_mul(y.kernel()))
        .saturating_add(x.outputs.saturating_mul(x.kernel()));
    let (from, to) = (
        Shared(address::<P::Element>(&op.src)),
        Shared(address::<P::Element>(&op.dst)),
    );
    let steps = [spatial(&op.src, 2), spatial(&op.dst, 2)];
    let padding = counts_padding(op);
    split(lines, GRAIN.div_ceil(each.max(1)), team, &|range| {
        let room = Count::of(x.size) + x.outputs;
        let mut steps_taken = Steps::default();
        with_scratch(room, |columns: *mut P::Sum| {
            let sums = columns.wrapping_add(x.size);
            for number in range {
                let line = Line::of(number, channels, &along);
                // SAFETY: what the window sees lies in the source, the line in the result, and columns and
                // sums in the scratch; ranges are disjoint.
                unsafe {
                    let mut is_first = true;
                    for z in z.seen(line.z) {
                        steps_taken.take(1);
                        for y in y.seen(line.y) {
                            steps_taken.take(x.size);
                            let row = from.at(line.start(&op.src, z, y));
                            add::<P>(pooling, row, steps[0], columns, x.size, is_first);
                            is_first = false;
                        }
                    }
                    let counted = match is_first {
                        true => 0,
                        false => x.size,
                    };
                    join::<P>(pooling, columns, counted, &x, sums);
                    let outer = z.counted(line.z, padding) * y.counted(line.y, padding);
                    let to = to.at(line.start(&op.dst, line.z, line.y));
                    finish::<P>(
                        pooling,
                        sums,
                        &x,
                        [outer, usize::from(padding)],
                        to,
                        steps[1],
                    );
                }
            }
        });
    });
}

vectorised! {
    /// Joins a row of elements to the columns.
    ///
    /// # Safety
    /// The row can be read, the columns be written and, save for the first row, read.
    unsafe fn add[P: Pooling](
        pooling: &P,
        row: *const P::Element,
        step: isize,
        columns: *mut P::Sum,
        count: usize,
        is_first: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match (is_first, step) {
                (true, 1) => {
                    for index in 0..count {
                        *columns.add(index) = pooling.one(*row.add(index));
                    }
                }
                (false, 1) => {
                    for index in 0..count {
                        let one = pooling.one(*row.add(index));
                        *columns.add(index) = pooling.join(*columns.add(index), one);
                    }
                }
                (true, step) => {
                    for index in 0..count {
                        *columns.add(index) = pooling.one(*row.offset(index as isize * step));
                    }
                }
                (false, step) => {
                    for index in 0..count {
                        let one = pooling.one(*row.offset(index as isize * step));
                        *columns.add(index) = pooling.join(*columns.add(index), one);
                    }
                }
            }
        }
    }
}

vectorised! {
    /// Joins the columns of each window.
    ///
    /// # Safety
    /// So many columns can be read, all that there are or none, and the sums written.
    unsafe fn join[P: Pooling](
        pooling: &P,
        columns: *const P::Sum,
        count: usize,
        along: &Along,
        sums: *mut P::Sum,
    ) {
        // SAFETY: the caller's promise; windows see columns that there are.
        unsafe {
            for index in 0..along.outputs {
                *sums.add(index) = pooling.nothing();
            }
            if count == 0 {
                return;
            }
            let mut steps = Steps::default();
            for tap in along.taps() {
                let (outputs, first) = along.seeing(tap);
                steps.take(1 + outputs.len());
                let (to, from) = (sums.add(outputs.start), columns.add(first));
                // With a known distance, a loop becomes vectors.
                match along.stride() {
                    1 => {
                        for index in 0..outputs.len() {
                            *to.add(index) = pooling.join(*to.add(index), *from.add(index));
                        }
                    }
                    2 => {
                        for index in 0..outputs.len() {
                            *to.add(index) = pooling.join(*to.add(index), *from.add(2 * index));
                        }
                    }
                    stride => {
                        for index in 0..outputs.len() {
                            *to.add(index) = pooling.join(*to.add(index), *from.add(stride * index));
                        }
                    }
                }
            }
        }
    }
}

vectorised! {
    /// Stores the results of a line, whose windows count `outer` elements along the other dimensions, and along
    /// this one padding or not.
    ///
    /// # Safety
    /// The sums can be read and the line be written.
    unsafe fn finish[P: Pooling](
        pooling: &P,
        sums: *const P::Sum,
        along: &Along,
        counted: [usize; 2],
        to: *mut P::Element,
        step: isize,
    ) {
        let [outer, padding] = counted;
        // SAFETY: the caller's promise.
        unsafe {
            for index in 0..along.outputs {
                let count = outer * along.counted(index, padding != 0);
                *to.offset(index as isize * step) = pooling.finish(*sums.add(index), count);
            }
        }
    }
}
