//! Ensembles of decision trees: several rows go down one tree at a time, or one row down several, so that a processor waits
//! for several records at once, and a tree stays in the cache for as many rows as there are in a block.

use std::hint::select_unpredictable;
use std::ops::Range;

use streampool_device::{DType, TreeCombine, TreeTest, Trees};

use super::split::{Shared, split};
use super::strided::address;
use crate::team::Team;

/// So many ways down are gone at once.
const LANES: usize = 16;

/// Rows for which a tree stays in the cache.
const BLOCK: usize = 8 * LANES;

/// Steps that are worth a part of the work.
const GRAIN: usize = 1 << 14;

/// Four words, as [`Trees`] has them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    word: u32,
    next: u32,
    low: u32,
    high: u32,
}

/// `dst[row, target] =` the weights of the leaves that the row reaches, combined.
///
/// # Safety
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn execute(op: &Trees, team: &dyn Team) {
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match op.src.dtype() {
            DType::F64 => tested::<f64>(op, team),
            _ => tested::<f32>(op, team),
        }
    }
}

/// # Safety
/// As for [`execute`], of elements of type `T`.
unsafe fn tested<T: Real>(op: &Trees, team: &dyn Team) {
    // SAFETY: passed on.
    unsafe {
        match op.test {
            TreeTest::AtMost => walked::<T, 0>(op, team),
            TreeTest::Below => walked::<T, 1>(op, team),
            TreeTest::Bits => walked::<T, 2>(op, team),
        }
    }
}

/// # Safety
/// As for [`tested`].
unsafe fn walked<T: Real, const TEST: u8>(op: &Trees, team: &dyn Team) {
    let [rows, features] = [op.src.shape()[0], op.src.shape()[1]];
    let (from, to) = (op.src.layout().strides(), op.dst.layout().strides());
    let count = op.records.shape()[0];
    // SAFETY: the operand is row-major, of four words a record, and only read.
    let records =
        unsafe { std::slice::from_raw_parts(address::<i32>(&op.records).cast::<Record>(), count) };
    let forest = Forest::<T> {
        records,
        src: Shared(address::<T>(&op.src)),
        dst: Shared(address::<T>(&op.dst)),
        from: [from[0], from[1]],
        to: [to[0], to[1]],
        last_feature: features as u32 - 1,
        last_target: op.dst.shape()[1] as u32 - 1,
        last_record: count as u32 - 1,
        trees: op.trees as u32,
        depth: op.depth,
        combine: op.combine,
    };
    let each = op.trees.saturating_mul(op.depth + 1).max(1);
    split(rows, (GRAIN / each).max(1), team, &|rows| {
        // SAFETY: parts have rows of their own.
        unsafe { forest.rows::<TEST>(rows) };
    });
}

/// The type of features, and of weights.
trait Real: Copy + PartialOrd + Default + std::ops::AddAssign + Send + Sync {
    const NAN: Self;

    fn of(low: u32, high: u32) -> Self;

    fn is_nan(self) -> bool;
}

impl Real for f32 {
    const NAN: f32 = f32::NAN;

    #[inline(always)]
    fn of(low: u32, _high: u32) -> f32 {
        f32::from_bits(low)
    }

    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl Real for f64 {
    const NAN: f64 = f64::NAN;

    #[inline(always)]
    fn of(low: u32, high: u32) -> f64 {
        f64::from_bits(u64::from(low) | u64::from(high) << 32)
    }

    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

struct Forest<'a, T> {
    records: &'a [Record],
    src: Shared<T>,
    dst: Shared<T>,
    from: [isize; 2],
    to: [isize; 2],
    last_feature: u32,
    last_target: u32,
    last_record: u32,
    trees: u32,
    depth: usize,
    combine: TreeCombine,
}

impl<T: Real> Forest<'_, T> {
    /// # Safety
    /// The rows are there, and nobody else writes theirs.
    unsafe fn rows<const TEST: u8>(&self, rows: Range<usize>) {
        for first in rows.clone().step_by(BLOCK) {
            let end = rows.end.min(first + BLOCK);
            // SAFETY: passed on.
            unsafe {
                self.begin(first..end);
                let whole = first + (end - first) / LANES * LANES;
                for tree in 0..self.trees {
                    for first in (first..whole).step_by(LANES) {
                        let rows = std::array::from_fn(|lane| first + lane);
                        self.add(rows, self.reached::<TEST>(rows, [tree; LANES]));
                    }
                }
                for row in whole..end {
                    self.row::<TEST>(row);
                }
                self.end(first..end);
            }
        }
    }

    /// One row, down all trees.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    unsafe fn row<const TEST: u8>(&self, row: usize) {
        for first in (0..self.trees).step_by(LANES) {
            let last = self.trees - 1;
            let trees = std::array::from_fn(|lane| last.min(first + lane as u32));
            // SAFETY: passed on.
            let reached = unsafe { self.reached::<TEST>([row; LANES], trees) };
            let count = LANES.min((self.trees - first) as usize);
            for &at in &reached[..count] {
                // SAFETY: passed on.
                unsafe { self.add_one(row, at) };
            }
        }
    }

    /// The records that these rows reach in these trees.
    ///
    /// # Safety
    /// The rows and the trees are there.
    #[inline(always)]
    unsafe fn reached<const TEST: u8>(
        &self,
        rows: [usize; LANES],
        trees: [u32; LANES],
    ) -> [u32; LANES] {
        let [row_step, column_step] = self.from;
        let from = rows.map(|row| self.src.at(row as isize * row_step));
        let mut places = trees;
        for _ in 0..self.depth {
            let mut moved = 0;
            for (at, from) in places.iter_mut().zip(&from) {
                // SAFETY: no number is above that of the last record.
                let record = unsafe { self.records.get_unchecked(*at as usize) };
                let feature = (record.word >> Trees::SHIFT).min(self.last_feature);
                // SAFETY: the row has this feature.
                let x = unsafe { *from.wrapping_offset(feature as isize * column_step) };
                let value = T::of(record.low, record.high);
                let passed = match TEST {
                    0 => x <= value,
                    1 => x < value,
                    _ => {
                        let missing = x.is_nan() || value.is_nan();
                        let outcome = (u32::from(x < value) * Trees::LESS)
                            | (u32::from(x == value) * Trees::EQUAL)
                            | (u32::from(x > value) * Trees::GREATER)
                            | (u32::from(missing) * Trees::NAN);
                        record.word & outcome != 0
                    }
                };
                // Nobody can foretell it.
                let behind = select_unpredictable(passed, 0, record.word & Trees::TEST);
                let next = record.next.wrapping_add(behind).min(self.last_record);
                moved |= next ^ *at;
                *at = next;
            }
            if moved == 0 {
                break;
            }
        }
        places
    }

    /// Adds what the records say to the results of these rows.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    #[inline(always)]
    unsafe fn add(&self, rows: [usize; LANES], reached: [u32; LANES]) {
        for (row, at) in rows.into_iter().zip(reached) {
            // SAFETY: passed on.
            unsafe { self.add_one(row, at) };
        }
    }

    /// # Safety
    /// As for [`rows`](Self::rows); the record is there.
    #[inline(always)]
    unsafe fn add_one(&self, row: usize, at: u32) {
        let leaf = &self.records[at as usize];
        if leaf.word & (Trees::TEST | Trees::LIST) == 0 {
            // SAFETY: passed on.
            return unsafe { self.weigh(row, leaf) };
        }
        if leaf.word & Trees::TEST == 0 {
            let first = (leaf.low as usize).min(self.records.len());
            let most = self.last_target as usize + 1;
            let listed = &self.records[first..];
            for weight in listed.iter().take(most.min(leaf.high as usize)) {
                // SAFETY: passed on.
                unsafe { self.weigh(row, weight) };
            }
        }
    }

    /// # Safety
    /// As for [`rows`](Self::rows).
    #[inline(always)]
    unsafe fn weigh(&self, row: usize, weight: &Record) {
        let target = (weight.word >> Trees::SHIFT).min(self.last_target) as usize;
        let value = T::of(weight.low, weight.high);
        // SAFETY: passed on; the row has this target.
        let total = unsafe { &mut *self.result(row, target) };
        match self.combine {
            TreeCombine::Sum => *total += value,
            TreeCombine::Min if total.is_nan() || value < *total => *total = value,
            TreeCombine::Max if total.is_nan() || value > *total => *total = value,
            TreeCombine::Min | TreeCombine::Max => {}
        }
    }

    fn result(&self, row: usize, target: usize) -> *mut T {
        let [row_step, column_step] = self.to;
        self.dst
            .at(row as isize * row_step + target as isize * column_step)
    }

    /// Nothing for all targets of these rows: NaN where the best is looked for.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    unsafe fn begin(&self, rows: Range<usize>) {
        let nothing = match self.combine {
            TreeCombine::Sum => T::default(),
            TreeCombine::Min | TreeCombine::Max => T::NAN,
        };
        for row in rows {
            for target in 0..=self.last_target as usize {
                // SAFETY: passed on.
                unsafe { self.result(row, target).write(nothing) };
            }
        }
    }

    /// Zero where there is still nothing.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    unsafe fn end(&self, rows: Range<usize>) {
        if self.combine == TreeCombine::Sum {
            return;
        }
        for row in rows {
            for target in 0..=self.last_target as usize {
                // SAFETY: passed on.
                let total = unsafe { &mut *self.result(row, target) };
                if total.is_nan() {
                    *total = T::default();
                }
            }
        }
    }
}
