//! Running totals.
//!
//! A line is combined by chunks of a fixed length: the total before a chunk is that of the chunks before it, each
//! combined by itself. However the work is divided, the result has the same bits.

use streampool_device::{MAX_RANK, Scalar, Scan, ScanKind, View};

use super::combine::{Combine, Max, Min, Prod, Reducible, Sum};
use super::convert::{Native, with_native};
use super::scratch::{Count, filled};
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 15;
/// Elements of a chunk.
const CHUNK: usize = 1 << 14;
/// Neighbouring lines that are gone along side by side.
const COLUMNS: usize = 64;

/// `dst[i] = kind(src[0], ..., src[i])` along an axis.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Scan, team: &dyn Team) -> Result<(), String> {
    with_native!(op.src.dtype(), T => {
        // SAFETY: elements are of type `T`, or, as sums go, as good as of `T::Bits`; the rest is passed on.
        unsafe {
            match op.kind {
                ScanKind::Sum => scan::<<T as Native>::Bits, Sum>(op, team),
                ScanKind::Prod => scan::<<T as Native>::Bits, Prod>(op, team),
                ScanKind::Max => scan::<T, Max>(op, team),
                ScanKind::Min => scan::<T, Min>(op, team),
            }
        }
    });
    Ok(())
}

/// How a line is gone along: from its first element to its last in the order of the scan.
#[derive(Clone, Copy)]
struct Path<W> {
    /// What comes before the first.
    identity: W,
    length: usize,
    /// Distances between neighbours in source and result.
    steps: [isize; 2],
    /// Where the first element lies.
    start: [isize; 2],
    exclusive: bool,
}

impl<W: Copy> Path<W> {
    fn new<T: Reducible<Wide = W>>(op: &Scan) -> Path<W> {
        let length = op.src.shape()[op.axis];
        let steps = [&op.src, &op.dst].map(|view: &View| view.layout().strides()[op.axis]);
        let last = length.saturating_sub(1) as isize;
        let (steps, start): ([isize; 2], [isize; 2]) = match op.reverse {
            true => (steps.map(|step| -step), steps.map(|step| step * last)),
            false => (steps, [0; 2]),
        };
        let identity = match op.kind {
            ScanKind::Sum => 0.0,
            ScanKind::Prod => 1.0,
            ScanKind::Max => f64::NEG_INFINITY,
            ScanKind::Min => f64::INFINITY,
        };
        Path {
            identity: T::from_scalar(Scalar::Float(identity)).widen(),
            length,
            steps,
            start,
            exclusive: op.exclusive,
        }
    }

    fn chunks(&self) -> usize {
        self.length.div_ceil(CHUNK)
    }

    /// The elements of a chunk: where its first lie, and how many there are.
    fn chunk(&self, chunk: usize) -> ([isize; 2], usize) {
        let first = chunk * CHUNK;
        let moved = [0, 1].map(|operand| self.steps[operand] * first as isize);
        (moved, CHUNK.min(self.length - first))
    }
}

/// # Safety
/// As for [`execute`]; elements are of type `T`.
unsafe fn scan<T: Reducible, K: Combine<T::Wide>>(op: &Scan, team: &dyn Team) {
    let path = Path::new::<T>(op);
    if path.length == 0 {
        return;
    }
    let mut shape = [1; MAX_RANK];
    shape[..op.src.shape().len()].copy_from_slice(op.src.shape());
    shape[op.axis] = 1;
    let rank = op.src.shape().len();
    let strides = [op.src.layout().strides(), op.dst.layout().strides()];
    let lines = Walk::in_memory_order(&shape[..rank], strides, 0);
    let from = Shared(address::<T>(&op.src).wrapping_offset(path.start[0]));
    let to = Shared(address::<T>(&op.dst).wrapping_offset(path.start[1]));
    let steps = lines.run_strides();
    let side_by_side = steps[0] == 1 && lines.run_length() >= 8 && path.steps[0].unsigned_abs() > 1;
    if !side_by_side && lines.elements() < 2 * team.width() && path.chunks() > 1 && team.width() > 1
    {
        lines.for_each_run(0..lines.elements(), &mut |offsets, count| {
            for line in 0..count as isize {
                // SAFETY: the walk stays inside the views.
                unsafe {
                    let from = from.at(offsets[0] + line * steps[0]);
                    let to = to.at(offsets[1] + line * steps[1]);
                    long_line::<T, K>(Shared(from), Shared(to), &path, team);
                }
            }
        });
        return;
    }
    let grain = GRAIN.div_ceil(path.length);
    split(lines.elements(), grain, team, &|range| {
        lines.for_each_run(range, &mut |offsets, count| {
            if side_by_side {
                for first in (0..count).step_by(COLUMNS) {
                    let columns = COLUMNS.min(count - first);
                    let first = first as isize;
                    // SAFETY: the walk stays inside the views; ranges are disjoint.
                    unsafe {
                        let from = from.at(offsets[0] + first);
                        let to = to.at(offsets[1] + first * steps[1]);
                        neighbours::<T, K>(from, to, steps[1], columns, &path);
                    }
                }
                return;
            }
            for line in 0..count as isize {
                // SAFETY: as above.
                unsafe {
                    let from = from.at(offsets[0] + line * steps[0]);
                    let to = to.at(offsets[1] + line * steps[1]);
                    one_line::<T, K>(from, to, &path);
                }
            }
        });
    });
}

/// # Safety
/// The line can be read and written.
unsafe fn one_line<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    to: *mut T,
    path: &Path<T::Wide>,
) {
    let mut before = path.identity;
    for chunk in 0..path.chunks() {
        let (moved, length) = path.chunk(chunk);
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (from.offset(moved[0]), to.offset(moved[1]));
            let total = one_chunk::<T, K>(from, to, path, length, before);
            before = K::combine(before, total);
        }
    }
}

/// A line whose chunks are divided over the team.
///
/// # Safety
/// The line can be read and written.
unsafe fn long_line<T: Reducible, K: Combine<T::Wide>>(
    from: Shared<T>,
    to: Shared<T>,
    path: &Path<T::Wide>,
    team: &dyn Team,
) {
    let chunks = path.chunks();
    let mut totals = filled(path.identity, Count::of(chunks));
    let places = Shared(totals.as_mut_ptr());
    team.run(chunks - 1, &|chunk| {
        let (moved, length) = path.chunk(chunk);
        // SAFETY: the caller's promise; there is a place for each chunk, which one task writes.
        unsafe {
            let total = chunk_total::<T, K>(from.at(moved[0]), path, length);
            places.at(chunk as isize).write(total);
        }
    });
    let mut before = path.identity;
    for total in &mut totals {
        let next = K::combine(before, *total);
        *total = std::mem::replace(&mut before, next);
    }
    let before = &totals;
    team.run(chunks, &|chunk| {
        let (moved, length) = path.chunk(chunk);
        // SAFETY: the caller's promise; chunks are disjoint.
        unsafe {
            let (from, to) = (from.at(moved[0]), to.at(moved[1]));
            one_chunk::<T, K>(from, to, path, length, before[chunk]);
        }
    });
}

/// # Safety
/// The chunk can be read.
unsafe fn chunk_total<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    path: &Path<T::Wide>,
    length: usize,
) -> T::Wide {
    (0..length as isize).fold(path.identity, |total, element| {
        // SAFETY: the caller's promise.
        K::combine(total, unsafe {
            (*from.offset(element * path.steps[0])).widen()
        })
    })
}

/// Writes the totals of a chunk, `before` included, and returns that of the chunk alone. The two sums run side
/// by side: neither waits for the other.
///
/// # Safety
/// The chunk can be read and written.
#[inline(always)]
unsafe fn one_chunk<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    to: *mut T,
    path: &Path<T::Wide>,
    length: usize,
    before: T::Wide,
) -> T::Wide {
    let (mut running, mut own) = (before, path.identity);
    for element in 0..length as isize {
        // SAFETY: the caller's promise.
        unsafe {
            let value = (*from.offset(element * path.steps[0])).widen();
            let next = K::combine(running, value);
            own = K::combine(own, value);
            let total = if path.exclusive { running } else { next };
            to.offset(element * path.steps[1])
                .write(T::finish(total, None));
            running = next;
        }
    }
    own
}

/// Lines whose elements are neighbours, `count` of them.
///
/// # Safety
/// The lines can be read and written.
unsafe fn neighbours<T: Reducible, K: Combine<T::Wide>>(
    from: *const T,
    to: *mut T,
    across: isize,
    count: usize,
    path: &Path<T::Wide>,
) {
    let mut running = [path.identity; COLUMNS];
    for element in 0..path.length as isize {
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (
                from.offset(element * path.steps[0]),
                to.offset(element * path.steps[1]),
            );
            for (column, running) in running[..count].iter_mut().enumerate() {
                let next = K::combine(*running, (*from.add(column)).widen());
                let total = if path.exclusive { *running } else { next };
                to.offset(column as isize * across)
                    .write(T::finish(total, None));
                *running = next;
            }
        }
    }
}
