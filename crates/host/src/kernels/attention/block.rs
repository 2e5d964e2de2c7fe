//! One block of queries, and all keys that they attend to.

use std::ops::Range;

use super::few;
use super::problem::{Mask, Problem};
use super::score::{self, Rows, State};
use crate::given_up;
use crate::kernels::convert::Float;
use crate::kernels::matmul::blocked::even_parts;
use crate::kernels::matmul::factor::{Factor, Lines, pack_interleaved, pack_lines};
use crate::kernels::matmul::multiply::{Earlier, MAX_ROWS, Packed, Sums, Unit};
use crate::kernels::real::Real;
use crate::kernels::rows::{self, LANES};
use crate::kernels::scratch::{Count, with_scratch};

/// How working memory is divided, in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Queries of a block.
    rows: usize,
    /// Keys at a time.
    keys: usize,
    /// Columns that are multiplied at a time.
    columns: usize,
    /// The width of values, rounded up to them.
    padded: usize,
    query: usize,
    key: usize,
    value: usize,
    scores: usize,
    sums: usize,
}

impl Sizes {
    pub(super) fn new<T>(problem: &Problem<T>, rows: usize) -> Sizes
    where
        T: Float,
        T::Wide: Unit,
    {
        let (_, columns) = <T::Wide as Unit>::block();
        let stride = <T::Wide as Unit>::PANEL_STRIDE;
        let line = 64 / size_of::<T::Wide>();
        let keys = problem.keys.min(<T::Wide as Unit>::PANEL).max(1);
        let padded = problem.value_width.next_multiple_of(columns);
        let aligned = |count: usize| count.next_multiple_of(line);
        Sizes {
            rows,
            keys,
            columns,
            padded,
            query: aligned(panels::<T::Wide>(problem.width).len() * rows * stride),
            key: aligned(keys.next_multiple_of(columns) * problem.width),
            value: aligned(keys * padded),
            scores: aligned(MAX_ROWS * stride),
            sums: aligned(rows * padded),
        }
    }

    /// Calls `f` with memory for a block.
    pub(super) fn with_memory<W, R>(&self, f: impl FnOnce(*mut W) -> R) -> R {
        let states = Count::of(self.rows) * 2;
        let numbers = states + self.query + self.key + self.value + self.scores + self.sums;
        with_scratch(numbers, f)
    }
}

/// The parts of a width that are multiplied at a time; one, of nothing, without any.
fn panels<U: Unit>(width: usize) -> impl ExactSizeIterator<Item = Range<usize>> + Clone {
    (0..width.max(1))
        .step_by(U::PANEL)
        .map(move |start| start..(start + U::PANEL).min(width))
}

/// A block of queries under way.
pub(super) struct Block<'a, T: Float> {
    problem: &'a Problem<T>,
    sizes: &'a Sizes,
    /// Its queries.
    range: Range<usize>,
    /// Scaled queries, panel by panel.
    query: *mut T::Wide,
    /// Keys, side by side.
    key: *mut T::Wide,
    /// Columns of values, side by side.
    value: *mut T::Wide,
    /// Scores of a few queries.
    scores: *mut T::Wide,
    /// Sums of values.
    sums: *mut T::Wide,
    states: *mut State<T::Wide>,
}

impl<'a, T> Block<'a, T>
where
    T: Float + Factor<Unit = <T as Float>::Wide, Out = T>,
    T::Wide: Unit,
{
    const STRIDE: usize = <T::Wide as Unit>::PANEL_STRIDE;

    /// The block of these rows of `problem`, which is one head's, at most as many as `sizes` says.
    pub(super) fn new(
        problem: &'a Problem<T>,
        sizes: &'a Sizes,
        memory: *mut T::Wide,
        range: Range<usize>,
    ) -> Self {
        let query = memory;
        let key = query.wrapping_add(sizes.query);
        let value = key.wrapping_add(sizes.key);
        let scores = value.wrapping_add(sizes.value);
        let sums = scores.wrapping_add(sizes.scores);
        Block {
            problem,
            sizes,
            range,
            query,
            key,
            value,
            scores,
            sums,
            states: sums.wrapping_add(sizes.sums).cast(),
        }
    }

    /// Computes and stores its part of the result.
    ///
    /// # Safety
    /// The problem's views are as promised to `execute`, nobody else writes these rows of the result, and the
    /// memory is that of [`Sizes::with_memory`].
    pub(super) unsafe fn compute(&self) {
        let (problem, sizes) = (self.problem, self.sizes);
        // SAFETY: rows, keys and columns lie within the views, and the memory has room for them all.
        unsafe {
            self.pack_queries();
            for row in 0..self.range.len() {
                self.states.add(row).write(State::NEW);
                for column in 0..sizes.padded {
                    self.sums.add(row * sizes.padded + column).write(Real::ZERO);
                }
            }
            let seen = self.range.clone().map(|row| problem.visible(row)).max();
            for start in (0..seen.unwrap_or(0)).step_by(sizes.keys) {
                given_up::check();
                let end = (start + sizes.keys).min(problem.keys);
                if !self.is_direct() {
                    self.pack_keys(start..end);
                    self.pack_values(start..end);
                }
                let (most, _) = <T::Wide as Unit>::block();
                for rows in even_parts(self.range.len(), most) {
                    given_up::check();
                    self.attend(rows, start..end);
                }
            }
            self.store();
        }
    }

    /// Whether keys and values are read where they lie.
    fn is_direct(&self) -> bool {
        let (problem, few) = (self.problem, self.range.len() <= few::MOST_QUERIES);
        let is_short = panels::<T::Wide>(problem.width).len() == 1;
        few && is_short && problem.key.column() == 1 && problem.value.column() == 1
    }

    /// # Safety
    /// As for [`compute`](Self::compute). So for all below.
    unsafe fn pack_queries(&self) {
        let (problem, rows) = (self.problem, self.range.len());
        for (index, panel) in panels::<T::Wide>(problem.width).enumerate() {
            given_up::check();
            let to = self.query.wrapping_add(index * rows * Self::STRIDE);
            problem.for_each_head(self.range.clone(), |row, count| {
                let (head, query) = problem.place(row);
                let lines = Lines {
                    at: problem.query.at(head, query, panel.start).cast_const(),
                    lines: count,
                    length: panel.len(),
                    line: problem.query.row(),
                    step: problem.query.column(),
                };
                // SAFETY: the caller's promise.
                unsafe {
                    let to = to.add((row - self.range.start) * Self::STRIDE);
                    pack_lines::<T>(lines, to, Self::STRIDE);
                }
            });
            let factor = Real::from_f64(problem.scale);
            // SAFETY: they were packed just now.
            unsafe { score::scale(to, rows, panel.len(), Self::STRIDE, factor) };
        }
    }

    unsafe fn pack_keys(&self, keys: Range<usize>) {
        let (problem, columns) = (self.problem, self.sizes.columns);
        for first in keys.clone().step_by(columns) {
            for panel in panels::<T::Wide>(problem.width) {
                given_up::check();
                let lines = Lines {
                    at: problem.key.at(0, first, panel.start).cast_const(),
                    lines: columns.min(keys.end - first),
                    length: panel.len(),
                    line: problem.key.row(),
                    step: problem.key.column(),
                };
                // SAFETY: the caller's promise.
                unsafe {
                    let to = self.key_panel(first - keys.start, panel.start);
                    pack_interleaved::<T>(lines, to, columns);
                }
            }
        }
    }

    /// The packed keys from `key` on, their elements from `from` on.
    fn key_panel(&self, key: usize, from: usize) -> *mut T::Wide {
        self.key
            .wrapping_add(key * self.problem.width + from * self.sizes.columns)
    }

    unsafe fn pack_values(&self, keys: Range<usize>) {
        let (problem, columns) = (self.problem, self.sizes.columns);
        for first in (0..problem.value_width).step_by(columns) {
            given_up::check();
            let lines = Lines {
                at: problem.value.at(0, keys.start, first).cast_const(),
                lines: columns.min(problem.value_width - first),
                length: keys.len(),
                line: problem.value.column(),
                step: problem.value.row(),
            };
            // SAFETY: the caller's promise.
            unsafe {
                let to = self.value.add(first * keys.len());
                pack_interleaved::<T>(lines, to, columns);
            }
        }
    }

    /// Adds what a few rows attend to among the packed keys.
    unsafe fn attend(&self, rows: Range<usize>, keys: Range<usize>) {
        let (problem, sizes) = (self.problem, self.sizes);
        let visible = |row: usize| {
            let end = problem.visible(self.range.start + row).min(keys.end);
            end.saturating_sub(keys.start)
        };
        let Some(seen) = rows.clone().map(visible).max().filter(|&seen| seen > 0) else {
            return;
        };
        if self.is_direct() {
            // SAFETY: the caller's promise.
            return unsafe { self.attend_directly(rows, visible, seen, keys.start) };
        }
        // SAFETY: the caller's promise; scores have room for whole vectors of keys.
        unsafe {
            for first in (0..seen).step_by(sizes.columns) {
                for (index, panel) in panels::<T::Wide>(problem.width).enumerate() {
                    let row = index * self.range.len() + rows.start;
                    let operands = Packed {
                        a: self.query.add(row * Self::STRIDE).cast_const(),
                        b: self.key_panel(first, panel.start).cast_const(),
                        steps: panel.len(),
                        rows: rows.len(),
                        half: false,
                    };
                    let sums = Sums {
                        at: self.scores.add(first),
                        row: Self::STRIDE,
                    };
                    let earlier = match index {
                        0 => Earlier::Lost,
                        _ => Earlier::Added,
                    };
                    T::Wide::multiply(&operands, sums, earlier);
                }
            }
            self.weigh(rows.clone(), visible, seen, keys.start);
            for first in (0..sizes.padded).step_by(sizes.columns) {
                let operands = Packed {
                    a: self.scores.cast_const(),
                    b: self.value.add(first * keys.len()).cast_const(),
                    steps: seen,
                    rows: rows.len(),
                    half: false,
                };
                let sums = Sums {
                    at: self.sums.add(rows.start * sizes.padded + first),
                    row: sizes.padded,
                };
                T::Wide::multiply(&operands, sums, Earlier::Added);
            }
        }
    }

    /// The same with keys and values where they lie, the first `seen` of them from `first` on.
    unsafe fn attend_directly(
        &self,
        rows: Range<usize>,
        visible: impl Fn(usize) -> usize,
        seen: usize,
        first: usize,
    ) {
        let (problem, padded) = (self.problem, self.sizes.padded);
        let scores = |index: usize| self.scores.wrapping_add(index * Self::STRIDE);
        // SAFETY: the caller's promise; queries are packed, scores have room for whole vectors of keys, and sums are this block's.
        unsafe {
            for (index, row) in rows.clone().enumerate() {
                let query = self.query.add(row * Self::STRIDE);
                let query = std::slice::from_raw_parts(query, problem.width);
                few::score::<T>(query, &problem.key, first, seen, scores(index));
            }
            self.weigh(rows.clone(), visible, seen, first);
            for (index, row) in rows.enumerate() {
                let weights = std::slice::from_raw_parts(scores(index), seen);
                let sums = self.sums.add(row * padded);
                let sums = std::slice::from_raw_parts_mut(sums, problem.value_width);
                few::add::<T>(weights, &problem.value, first, sums);
            }
        }
    }

    /// Makes weights of the scores of a few rows: of the first `visible` keys of each, with nothing for the rest of
    /// the `seen` ones. The keys begin at `first`.
    unsafe fn weigh(
        &self,
        rows: Range<usize>,
        visible: impl Fn(usize) -> usize,
        seen: usize,
        first: usize,
    ) {
        let problem = self.problem;
        let mut counts = [0; MAX_ROWS];
        for ((index, row), count) in rows.clone().enumerate().zip(&mut counts) {
            let (head, query) = problem.place(self.range.start + row);
            let visible = visible(row);
            *count = visible.next_multiple_of(LANES);
            // SAFETY: a row has room for whole vectors; the mask has these keys.
            unsafe {
                let scores = self.scores.add(index * Self::STRIDE);
                let some = std::slice::from_raw_parts_mut(scores, visible);
                if problem.softcap != 0.0 {
                    score::cap(some, Real::from_f64(problem.softcap));
                }
                match &problem.mask {
                    Mask::None => {}
                    Mask::Keep(mask) => {
                        score::keep(some, mask.at(head, query, first), mask.column());
                    }
                    Mask::Add(mask) => {
                        score::add::<T>(some, mask.at(head, query, first), mask.column());
                    }
                }
                (visible..*count).for_each(|key| scores.add(key).write(Real::NEG_INFINITY));
                (*count..seen).for_each(|key| scores.add(key).write(Real::ZERO));
            }
        }
        let under_way = Rows {
            scores: self.scores,
            stride: Self::STRIDE,
            states: self.states.wrapping_add(rows.start),
            values: self.sums.wrapping_add(rows.start * self.sizes.padded),
            width: self.sizes.padded,
        };
        // SAFETY: there are scores, a state and sums for each row, and they are this block's alone.
        unsafe { score::advance(under_way, &counts[..rows.len()]) };
    }

    unsafe fn store(&self) {
        let (problem, padded) = (self.problem, self.sizes.padded);
        for row in 0..self.range.len() {
            let (head, query) = problem.place(self.range.start + row);
            // SAFETY: the caller's promise.
            unsafe {
                let sums = self.sums.add(row * padded);
                let sums = std::slice::from_raw_parts_mut(sums, problem.value_width);
                let state = *self.states.add(row);
                if state.sum != Real::ZERO {
                    score::finish(state, sums);
                } else {
                    // As of any softmax of minus infinity alone.
                    let some = problem.attends(self.range.start + row);
                    sums.fill(Real::from_f64(if some { f64::NAN } else { 0.0 }));
                }
                let to = problem.out.at(head, query, 0);
                rows::write::<T>(sums, to, problem.out.column());
            }
        }
    }
}
