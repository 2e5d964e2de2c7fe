//! Attention of a few queries, as a decoder has it for each word: keys and values are read where they lie. To pack them takes longer
//! than to multiply them by so little.

use super::problem::Heads;
use crate::kernels::convert::Float;
use crate::kernels::real::Real;
use crate::kernels::rows::LANES;
use crate::kernels::simd::vectorised;

/// As many queries, counted over the heads that share keys, are few.
pub(super) const MOST_QUERIES: usize = 4;

/// Columns of values that are summed at a time.
const COLUMNS: usize = 64;

vectorised! {
    /// The scores of a query with as many keys, from the first of these rows on. What is in a row lies side by side.
    ///
    /// # Safety
    /// The rows can be read, as many elements of each as the query has, and the scores be written.
    pub(super) unsafe fn score[T: Float](
        query: &[T::Wide],
        keys: &Heads<T>,
        first: usize,
        count: usize,
        scores: *mut T::Wide,
    ) {
        let (lines, rest) = query.as_chunks::<LANES>();
        for index in 0..count {
            let key = keys.at(0, first + index, 0).cast_const();
            let mut sums = [T::Wide::ZERO; LANES];
            // SAFETY: the caller's promise.
            unsafe {
                for (place, line) in lines.iter().enumerate() {
                    let key = key.add(place * LANES);
                    for (lane, (sum, &query)) in sums.iter_mut().zip(line).enumerate() {
                        *sum = *sum + query * (*key.add(lane)).widen();
                    }
                }
                let key = key.add(lines.len() * LANES);
                for (lane, (sum, &query)) in sums.iter_mut().zip(rest).enumerate() {
                    *sum = *sum + query * (*key.add(lane)).widen();
                }
                let mut half = LANES / 2;
                while half > 0 {
                    let (low, high) = sums.split_at_mut(half);
                    for (low, &mut high) in low.iter_mut().zip(high) {
                        *low = *low + high;
                    }
                    half /= 2;
                }
                scores.add(index).write(sums[0]);
            }
        }
    }
}

vectorised! {
    /// Adds as many rows of values to the sums, from the first of these on, each times its weight. What is in a row lies side by side.
    ///
    /// # Safety
    /// The rows can be read, as many elements of each as there are sums.
    pub(super) unsafe fn add[T: Float](
        weights: &[T::Wide],
        values: &Heads<T>,
        first: usize,
        sums: &mut [T::Wide],
    ) {
        let (blocks, rest) = sums.as_chunks_mut::<COLUMNS>();
        let begin = blocks.len() * COLUMNS;
        for (place, block) in blocks.iter_mut().enumerate() {
            let mut own = *block;
            for (index, &weight) in weights.iter().enumerate() {
                let value = values.at(0, first + index, place * COLUMNS).cast_const();
                for (column, sum) in own.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *sum = *sum + weight * unsafe { *value.add(column) }.widen();
                }
            }
            *block = own;
        }
        for (index, &weight) in weights.iter().enumerate() {
            let value = values.at(0, first + index, begin).cast_const();
            for (column, sum) in rest.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *sum = *sum + weight * unsafe { *value.add(column) }.widen();
            }
        }
    }
}
