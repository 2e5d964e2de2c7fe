//! Sums of a block: added to those of other steps, and computed once more where they are not finite.

use super::strips::BLOCK;
use crate::kernels::matmul::multiply::Sums;
use crate::kernels::simd::vectorised;

vectorised! {
    /// Adds sums to others, those of a whole block each.
    ///
    /// # Safety
    /// All can be read, and the others be written.
    pub(super) unsafe fn add[](sums: Sums<f32>, to: Sums<f32>) {
        for row in 0..BLOCK {
            // SAFETY: the caller promises that there are so many sums.
            unsafe {
                let from = sums.at.add(row * sums.row).cast::<[f32; BLOCK]>().read_unaligned();
                let to = to.at.add(row * to.row).cast::<[f32; BLOCK]>();
                let mut total = to.read_unaligned();
                for index in 0..BLOCK {
                    total[index] += from[index];
                }
                to.write_unaligned(total);
            }
        }
    }
}

vectorised! {
    /// Computes those sums of a block that are not finite again, by terms of their rows and columns, from none.
    ///
    /// # Safety
    /// The sums of a whole block can be read and so many be written; the terms are those of any of these.
    pub(super) unsafe fn mend[S: Terms](
        terms: S,
        rows: usize,
        columns: usize,
        sums: Sums<f32>,
    ) {
        // Nothing times what is not finite is NaN.
        let mut nothings = [0f32; BLOCK];
        for row in 0..rows {
            // SAFETY: the caller promises that there are so many sums.
            let row = unsafe { sums.at.add(row * sums.row).cast::<[f32; BLOCK]>().read_unaligned() };
            for index in 0..BLOCK {
                nothings[index] += row[index] * 0.0;
            }
        }
        let mut nothing = true;
        for &value in &nothings[..columns] {
            nothing &= value == 0.0;
        }
        if !nothing {
            // SAFETY: passed on from the caller.
            unsafe { sum_again(terms, rows, columns, sums) };
        }
    }
}

/// What the sums of a block are made of.
pub(super) trait Terms: Copy {
    /// How many terms each sum has.
    fn count(&self) -> usize;

    /// The factor that a term of all sums of a row has in common.
    ///
    /// # Safety
    /// There is such a row and such a term.
    unsafe fn left(&self, row: usize, term: usize) -> f32;

    /// The factor that a term of all sums of a column has in common.
    ///
    /// # Safety
    /// There is such a column and such a term.
    unsafe fn right(&self, term: usize, column: usize) -> f32;
}

/// # Safety
/// As for [`mend`].
#[inline(always)]
unsafe fn sum_again<S: Terms>(terms: S, rows: usize, columns: usize, sums: Sums<f32>) {
    for row in 0..rows {
        // SAFETY: the caller promises that there are so many sums.
        let found = unsafe { std::slice::from_raw_parts_mut(sums.at.add(row * sums.row), columns) };
        if found.iter().all(|sum| sum.is_finite()) {
            continue;
        }
        let mut again = [0f32; BLOCK];
        for term in 0..terms.count() {
            // SAFETY: the row and so many columns exist.
            unsafe {
                let left = terms.left(row, term);
                for (column, sum) in again[..columns].iter_mut().enumerate() {
                    *sum = left.mul_add(terms.right(term, column), *sum);
                }
            }
        }
        for (sum, again) in found.iter_mut().zip(again) {
            if !sum.is_finite() {
                *sum = again;
            }
        }
    }
}
