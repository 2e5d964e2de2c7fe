//! From a row of scores to what is multiplied with the values.

use crate::kernels::convert::Float;
use crate::kernels::real::Real;
use crate::kernels::rows::{LANES, tree};
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

vectorised! {
    /// Replaces scores by their exponentials relative to the largest yet, and moves the row's sums of values on
    /// to be relative to it.
    ///
    /// # Safety
    /// None is needed: it is declared so as the other compiled loops are.
    pub(super) unsafe fn advance<M>[R: Smooth](
        scores: &mut [[R; LANES]],
        state: &mut State<R>,
        values: &mut [R],
    ) {
        let mut tops = [R::NEG_INFINITY; LANES];
        for chunk in &*scores {
            for (top, &score) in tops.iter_mut().zip(chunk) {
                // NaN is passed over here: its exponential brings it into the sum.
                *top = if score > *top { score } else { *top };
            }
        }
        let top = tree(tops, |x, y| if y > x { y } else { x });
        let top = if top > state.top { top } else { state.top };
        // Relative to nothing where there is no score yet.
        let base = if top == R::NEG_INFINITY { R::ZERO } else { top };
        let mut sums = [R::ZERO; LANES];
        for chunk in scores {
            for (sum, score) in sums.iter_mut().zip(chunk) {
                *score = (*score - base).exp_below_zero::<M>();
                *sum = *sum + *score;
            }
        }
        let shrink = (state.top - base).exp_below_zero::<M>();
        *state = State { top, sum: state.sum * shrink + tree(sums, |x, y| x + y) };
        if shrink != R::ONE {
            values.iter_mut().for_each(|value| *value = *value * shrink);
        }
    }
}

vectorised! {
    /// Divides the sums of values by the sum of the row's exponentials; without any, nothing is left of them.
    ///
    /// # Safety
    /// None is needed: it is declared so as the other compiled loops are.
    pub(super) unsafe fn finish[R: Smooth](state: State<R>, values: &mut [R]) {
        if state.sum == R::ZERO {
            values.fill(R::ZERO);
        } else {
            let factor = R::ONE / state.sum;
            values.iter_mut().for_each(|value| *value = *value * factor);
        }
    }
}
