//! Reductions, and where the largest and the smallest are.
//!
//! What is reduced to one element is combined in an order that its layout alone decides: in lanes, the
//! lanes in a tree, by chunks of a fixed length. However the work is divided, the result has the same bits.

use std::ops::Range;

use streampool_device::{Axes, MAX_RANK, ReduceKind, View};

use super::combine::{All, Any, Combine, Max, Min, Prod, Reducible, Sum};
use super::convert::{Native, Truth, with_native};
use super::real::is_nan;
use super::scratch::{Count, filled};
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::given_up;
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 14;
/// Elements that are combined before they are merged with others.
const CHUNK: usize = 1 << 14;
/// Columns that are reduced side by side.
const COLUMNS: usize = 64;
/// Columns whose sums stay in registers.
const VECTOR: usize = 16;
/// Rows that are combined before they are merged with others.
const ROWS: usize = 256;
/// Sums that run side by side along a row.
const LANES: usize = 32;

/// `dst = kind(src)` over `axes`.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(
    kind: ReduceKind,
    src: &View,
    dst: &View,
    axes: Axes,
    team: &dyn Team,
) {
    let plan = Plan::new(src, dst, axes);
    with_native!(src.dtype(), T => {
        // SAFETY: the elements are of type `T`, or, as sums go, as good as of `T::Bits`; for `Any` and `All` truth values; the rest is passed on.
        unsafe {
            match kind {
                ReduceKind::Sum => reduce::<<T as Native>::Bits, Sum>(&plan, false, team),
                ReduceKind::Mean => reduce::<<T as Native>::Bits, Sum>(&plan, true, team),
                ReduceKind::Prod => reduce::<<T as Native>::Bits, Prod>(&plan, false, team),
                ReduceKind::Max => reduce::<T, Max>(&plan, false, team),
                ReduceKind::Min => reduce::<T, Min>(&plan, false, team),
                ReduceKind::Any => reduce::<Truth, Any>(&plan, false, team),
                ReduceKind::All => reduce::<Truth, All>(&plan, false, team),
                ReduceKind::ArgMax => arg::<T, Max>(&plan, team),
                ReduceKind::ArgMin => arg::<T, Min>(&plan, team),
            }
        }
    })
}

/// The dimensions that stay and those that are reduced.
struct Plan<'a> {
    src: &'a View,
    dst: &'a View,
    /// Offsets into source and result.
    kept: Walk<2>,
    /// Offsets into the source.
    reduced: Walk<1>,
    /// How often each of those counts: along a broadcast axis all are one element.
    repeats: usize,
}

impl<'a> Plan<'a> {
    fn new(src: &'a View, dst: &'a View, axes: Axes) -> Self {
        let (mut kept, mut reduced) = ([1; MAX_RANK], [1; MAX_RANK]);
        let (mut from, mut to) = ([0; MAX_RANK], [0; MAX_RANK]);
        let mut repeats = 1;
        for (axis, &size) in src.shape().iter().enumerate() {
            from[axis] = src.layout().strides()[axis];
            to[axis] = dst.layout().strides()[axis];
            if axes.contains(axis) {
                match (size, from[axis]) {
                    (2.., 0) => repeats *= size,
                    _ => reduced[axis] = size,
                }
            } else {
                kept[axis] = size;
            }
        }
        Plan {
            src,
            dst,
            kept: Walk::in_memory_order(&kept, [&from, &to], 0),
            reduced: Walk::in_memory_order(&reduced, [&from], 0),
            repeats,
        }
    }

    /// Whether neighbours in memory go to different results, and there are enough of them to fill vectors.
    fn by_columns(&self) -> bool {
        self.kept.run_strides()[0] == 1
            && self.kept.run_length() >= 8
            && (self.reduced.run_strides()[0] != 1 || self.reduced.run_length() == 1)
    }
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn reduce<T: Reducible, K: Combine<T::Wide>>(plan: &Plan, mean: bool, team: &dyn Team) {
    let (from, to) = (
        Shared(address::<T>(plan.src)),
        Shared(address::<T>(plan.dst)),
    );
    let (kept, depth) = (&plan.kept, plan.reduced.elements());
    let steps = kept.run_strides();
    // The mean of what repeats is that of what is repeated.
    let finish = |sum| match (mean, plan.repeats) {
        (true, _) => T::finish(sum, Some(depth)),
        (false, 1) => T::finish(sum, None),
        (false, repeats) => T::finish(K::repeat(sum, repeats), None),
    };
    let grain = GRAIN.div_ceil(depth.max(1));
    if plan.by_columns() {
        // Each part has whole vectors.
        let vectors = kept.elements().div_ceil(VECTOR);
        split(vectors, grain.div_ceil(VECTOR), team, &|range| {
            let range = range.start * VECTOR..kept.elements().min(range.end * VECTOR);
            kept.for_each_run(range, &mut |offsets, length| {
                for start in (0..length).step_by(COLUMNS) {
                    let count = COLUMNS.min(length - start) as isize;
                    let start = start as isize;
                    // SAFETY: the plan's offsets lie in the views; ranges are disjoint.
                    unsafe {
                        let sums = columns::<T, K>(
                            from.at(offsets[0] + start),
                            count as usize,
                            &plan.reduced,
                        );
                        for (column, &sum) in (0..count).zip(&sums) {
                            to.at(offsets[1] + (start + column) * steps[1])
                                .write(finish(sum));
                        }
                    }
                }
            });
        });
        return;
    }
    let each = |range: Range<usize>, f: &mut dyn FnMut(isize, isize)| {
        kept.for_each_run(range, &mut |offsets, length| {
            for index in 0..length as isize {
                f(offsets[0] + index * steps[0], offsets[1] + index * steps[1]);
            }
        });
    };
    let chunks = depth.div_ceil(CHUNK);
    if kept.elements() < 4 * team.width() && chunks > 1 && team.width() > 1 {
        each(0..kept.elements(), &mut |source, target| {
            let mut partial = filled(K::IDENTITY, Count::of(chunks));
            let sums = Shared(partial.as_mut_ptr());
            split(chunks, GRAIN / CHUNK, team, &|range| {
                for chunk in range {
                    // SAFETY: there is a place for each chunk, which one task writes; the source is readable.
                    unsafe {
                        sums.at(chunk as isize).write(one_chunk::<T, K>(
                            from.at(source),
                            plan,
                            chunk,
                        ))
                    };
                }
            });
            let sum = partial.into_iter().fold(K::IDENTITY, K::combine);
            // SAFETY: the plan's offsets lie in the views.
            unsafe { to.at(target).write(finish(sum)) };
        });
        return;
    }
    split(kept.elements(), grain, team, &|range| {
        each(range, &mut |source, target| {
            // SAFETY: the plan's offsets lie in the views; ranges are disjoint.
            unsafe {
                let sum = (0..chunks)
                    .map(|chunk| one_chunk::<T, K>(from.at(source), plan, chunk))
                    .fold(K::IDENTITY, K::combine);
                to.at(target).write(finish(sum));
            }
        });
    });
}

/// # Safety
/// The source can be read from `from` on as the plan says.
unsafe fn one_chunk<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    plan: &Plan,
    chunk: usize,
) -> T::Wide {
    // Most rows are one chunk, and short.
    if chunk > 0 {
        given_up::check();
    }
    let mut sum = K::IDENTITY;
    let [step] = plan.reduced.run_strides();
    plan.reduced.for_each_run(
        chunk * CHUNK..(chunk + 1) * CHUNK,
        &mut |[offset], length| {
            // SAFETY: the walk stays inside the source.
            sum = K::combine(sum, unsafe {
                row::<T, K>(from.offset(offset), step, length)
            });
        },
    );
    sum
}

vectorised! {
    /// The combination of one run.
    ///
    /// # Safety
    /// The run can be read.
    unsafe fn row[T: Reducible, K: Combine<T::Wide>](
        from: *const T,
        step: isize,
        length: usize,
    ) -> T::Wide {
        let mut lanes = [K::IDENTITY; LANES];
        // SAFETY: the caller's promise.
        unsafe {
            let mut start = 0;
            while start + LANES <= length {
                if step == 1 {
                    for (lane, sum) in lanes.iter_mut().enumerate() {
                        *sum = K::combine(*sum, (*from.add(start + lane)).widen());
                    }
                } else {
                    for (lane, sum) in lanes.iter_mut().enumerate() {
                        *sum = K::combine(*sum, (*from.offset((start + lane) as isize * step)).widen());
                    }
                }
                start += LANES;
            }
            for (lane, index) in (start..length).enumerate() {
                lanes[lane] = K::combine(lanes[lane], (*from.offset(index as isize * step)).widen());
            }
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] = K::combine(lanes[lane], lanes[lane + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// The combinations of `count` columns that are neighbours.
///
/// # Safety
/// The source can be read from `from` on as the walk says, `count` elements each time.
unsafe fn columns<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    count: usize,
    reduced: &Walk<1>,
) -> [T::Wide; COLUMNS] {
    let [step] = reduced.run_strides();
    let mut sums = [K::IDENTITY; COLUMNS];
    for start in (0..reduced.elements()).step_by(ROWS) {
        if start > 0 {
            given_up::check();
        }
        let mut part = [K::IDENTITY; COLUMNS];
        reduced.for_each_run(start..start + ROWS, &mut |[offset], length| {
            // SAFETY: the walk stays inside the source.
            unsafe { rows::<T, K>(from.offset(offset), count, step, length, &mut part) };
        });
        for (sum, &part) in sums.iter_mut().zip(&part) {
            *sum = K::combine(*sum, part);
        }
    }
    sums
}

vectorised! {
    /// Combines `length` rows of `count` neighbours into `sums`.
    ///
    /// # Safety
    /// The rows can be read.
    unsafe fn rows[T: Reducible, K: Combine<T::Wide>](
        from: *const T,
        count: usize,
        step: isize,
        length: usize,
        sums: &mut [T::Wide; COLUMNS],
    ) {
        let mut column = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while column + VECTOR <= count {
                let at = sums.as_mut_ptr().add(column).cast::<[T::Wide; VECTOR]>();
                let mut some = at.read();
                for row in 0..length as isize {
                    let from = from.offset(row * step).add(column);
                    let elements = from.cast::<[T; VECTOR]>().read_unaligned();
                    for (sum, element) in some.iter_mut().zip(elements) {
                        *sum = K::combine(*sum, element.widen());
                    }
                }
                at.write(some);
                column += VECTOR;
            }
            for row in 0..length as isize {
                let from = from.offset(row * step);
                for (column, sum) in sums.iter_mut().enumerate().take(count).skip(column) {
                    *sum = K::combine(*sum, (*from.add(column)).widen());
                }
            }
        }
    }
}

/// Writes, for each kept element, the index of the first that `K` chooses.
///
/// # Safety
/// As for [`execute`](super::execute); the elements are of type `T`, the results `i64`.
unsafe fn arg<T: Reducible, K: Combine<T::Wide>>(plan: &Plan, team: &dyn Team) {
    let (from, to) = (
        Shared(address::<T>(plan.src)),
        Shared(address::<i64>(plan.dst)),
    );
    let steps = plan.kept.run_strides();
    // One axis is reduced, so it is one run.
    let ([step], length) = (plan.reduced.run_strides(), plan.reduced.elements());
    split(
        plan.kept.elements(),
        GRAIN.div_ceil(length.max(1)),
        team,
        &|range| {
            plan.kept.for_each_run(range, &mut |offsets, count| {
                for index in 0..count as isize {
                    // SAFETY: the plan's offsets lie in the views; ranges are disjoint.
                    unsafe {
                        let from = from.at(offsets[0] + index * steps[0]);
                        let found = first::<T, K>(from, step, length);
                        to.at(offsets[1] + index * steps[1]).write(found as i64);
                    }
                }
            });
        },
    );
}

/// Where the first of the largest or smallest is.
///
/// # Safety
/// So many elements can be read.
unsafe fn first<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    step: isize,
    length: usize,
) -> usize {
    let chunks = || {
        (0..length).step_by(CHUNK).map(|start| {
            if start > 0 {
                given_up::check();
            }
            let from = from.wrapping_offset(start as isize * step);
            (start, from, CHUNK.min(length - start))
        })
    };
    let wanted = chunks().fold(K::IDENTITY, |wanted, (_, from, count)| {
        // SAFETY: the caller's promise.
        K::combine(wanted, unsafe { row::<T, K>(from, step, count) })
    });
    let found = chunks().find_map(|(start, from, count)| {
        // SAFETY: as above.
        let place = unsafe { position::<T>(from, step, count, wanted) };
        (place < count).then_some(start + place)
    });
    found.unwrap_or(length)
}

vectorised! {
    /// Where the first element equal to `wanted` is, or the first NaN if that is wanted.
    ///
    /// # Safety
    /// The run can be read.
    unsafe fn position[T: Reducible](from: *const T, step: isize, length: usize, wanted: T::Wide) -> usize {
        let mut index = 0;
        let nan = is_nan(wanted);
        while index < length {
            // SAFETY: the caller's promise.
            let value = unsafe { (*from.offset(index as isize * step)).widen() };
            if value == wanted || nan && is_nan(value) {
                break;
            }
            index += 1;
        }
        index
    }
}
