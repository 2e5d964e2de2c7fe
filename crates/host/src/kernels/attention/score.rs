//! From a row of scores to what is multiplied with the values.

use crate::kernels::convert::Float;
use crate::kernels::matmul::multiply::MAX_ROWS;
use crate::kernels::real::Real;
use crate::kernels::rows::{largest, sum_of};
use crate::kernels::simd::vectorised;
use crate::kernels::smooth::Smooth;

/// What the softmax of a row has come to: the largest score, and the sum of the exponentials relative to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct State<R> {
    pub(super) top: R,
    pub(super) sum: R,
}

impl<R: Real> State<R> {
    pub(super) const NEW: Self = State {
        top: R::NEG_INFINITY,
        sum: R::ZERO,
    };
}

vectorised! {
    /// Multiplies rows, `stride` apart, with a factor.
    ///
    /// # Safety
    /// As many rows of this length can be read and written.
    pub(super) unsafe fn scale[R: Smooth](at: *mut R, rows: usize, length: usize, stride: usize, factor: R) {
        for row in 0..rows {
            // SAFETY: the caller's promise.
            let row = unsafe { std::slice::from_raw_parts_mut(at.add(row * stride), length) };
            row.iter_mut().for_each(|value| *value = *value * factor);
        }
    }
}

vectorised! {
    /// Bounds scores by `cap * tanh(x / cap)`.
    ///
    /// # Safety
    /// None is needed: it is declared so as the other compiled loops are.
    pub(super) unsafe fn cap<M>[R: Smooth](scores: &mut [R], cap: R) {
        let inverse = R::ONE / cap;
        scores.iter_mut().for_each(|x| *x = cap * (*x * inverse).fast_tanh::<M>());
    }
}

vectorised! {
    /// Adds numbers `step` apart to scores.
    ///
    /// # Safety
    /// There are as many numbers as scores.
    pub(super) unsafe fn add[T: Float](scores: &mut [T::Wide], from: *const T, step: isize) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for (index, score) in scores.iter_mut().enumerate() {
                    *score = *score + (*from.add(index)).widen();
                }
            } else {
                for (index, score) in scores.iter_mut().enumerate() {
                    *score = *score + (*from.offset(index as isize * step)).widen();
                }
            }
        }
    }
}

vectorised! {
    /// Keeps the scores where the truth values, `step` apart, are true.
    ///
    /// # Safety
    /// There are as many truth values as scores.
    pub(super) unsafe fn keep[R: Smooth](scores: &mut [R], from: *const u8, step: isize) {
        // SAFETY: the caller's promise.
        unsafe {
            if step == 1 {
                for (index, score) in scores.iter_mut().enumerate() {
                    *score = if *from.add(index) != 0 { *score } else { R::NEG_INFINITY };
                }
            } else {
                for (index, score) in scores.iter_mut().enumerate() {
                    let kept = *from.offset(index as isize * step) != 0;
                    *score = if kept { *score } else { R::NEG_INFINITY };
                }
            }
        }
    }
}

/// Rows under way: scores, what their softmax has come to, and sums of values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<R> {
    pub(super) scores: *mut R,
    /// From the scores of one row to those of the next.
    pub(super) stride: usize,
    pub(super) states: *mut State<R>,
    pub(super) values: *mut R,
    /// The values of a row.
    pub(super) width: usize,
}

vectorised! {
    /// Replaces the scores of rows, so many in each, by their exponentials relative to the largest yet, and moves
    /// the rows' sums of values on to be relative to it.
    ///
    /// # Safety
    /// There are as many rows, and nobody else is at them.
    pub(super) unsafe fn advance<M>[R: Smooth](rows: Rows<R>, counts: &[usize]) {
        let scores = |row: usize, count: usize| {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(rows.scores.add(row * rows.stride), count) }
        };
        // Pass by pass, so that the last steps of a row, each of which waits for the one before, overlap the next one's.
        let mut tops = [R::ZERO; MAX_ROWS];
        for ((row, &count), top) in counts.iter().enumerate().zip(&mut tops) {
            // NaN is passed over here: its exponential brings it into the sum.
            *top = largest(scores(row, count));
        }
        for ((row, &count), &top) in counts.iter().enumerate().zip(&tops) {
            // SAFETY: the caller's promise.
            let (state, values) = unsafe {
                (
                    &mut *rows.states.add(row),
                    std::slice::from_raw_parts_mut(rows.values.add(row * rows.width), rows.width),
                )
            };
            let top = if top > state.top { top } else { state.top };
            // Relative to nothing where there is no score yet.
            let base = if top == R::NEG_INFINITY { R::ZERO } else { top };
            let sum = sum_of(scores(row, count), |score| {
                *score = (*score - base).exp_below_zero::<M>();
                *score
            });
            let shrink = (state.top - base).exp_below_zero::<M>();
            *state = State { top, sum: state.sum * shrink + sum };
            if shrink != R::ONE {
                values.iter_mut().for_each(|value| *value = *value * shrink);
            }
        }
    }
}

vectorised! {
    /// Divides the sums of values by the sum of the row's exponentials.
    ///
    /// # Safety
    /// None is needed: it is declared so as the other compiled loops are.
    pub(super) unsafe fn finish[R: Smooth](state: State<R>, values: &mut [R]) {
        let factor = R::ONE / state.sum;
        values.iter_mut().for_each(|value| *value = *value * factor);
    }
}
