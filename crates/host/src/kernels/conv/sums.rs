//! The inner loop: sums over all taps of all channels, a block of them in registers.

use crate::kernels::convert::Native;
use crate::kernels::matmul::lanes::{Lanes, PlainF32, PlainF64};
use crate::kernels::real::Real;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::Level;
use crate::kernels::simd::level;

/// What one block is summed from.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a, U> {
    /// The first weight of the first row.
    pub(super) weights: *const U,
    /// From one row of weights to the next.
    pub(super) row: usize,
    pub(super) rows: usize,
    /// The copy of the image, from the block's first column on.
    pub(super) image: *const U,
    /// Where each tap's elements begin in it.
    pub(super) offsets: &'a [usize],
    /// Vectors of columns: one of the form's.
    pub(super) vectors: usize,
}

/// The most sums of a block.
pub(super) const MOST_SUMS: usize = 24 * 16;

/// Up to so many rows of sums, by vectors of columns: the widest, and narrower ones for what is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) rows: usize,
    pub(super) vectors: &'static [usize],
}

/// A type that is summed in.
pub(super) trait Summed: Real + Native {
    /// The forms of blocks on this machine, those of fewer rows first.
    fn forms() -> &'static [Form];

    /// Columns of a vector on this machine.
    fn width() -> usize;

    /// Writes the sums of a block row by row, without gaps.
    ///
    /// # Safety
    /// `terms` are of one of the forms; the weights of all rows and the columns of all taps can be read, and
    /// the sums written.
    unsafe fn sums(terms: &Terms<'_, Self>, to: *mut Self);
}

/// A block of `R` rows and `V` vectors of columns.
#[allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]
#[inline(always)]
unsafe fn block<L: Lanes<Sum = <L as Lanes>::Unit>, const R: usize, const V: usize>(
    terms: &Terms<'_, L::Unit>,
    to: *mut L::Unit,
) {
    let mut sums = [[L::zero(); V]; R];
    // SAFETY: the caller promises what is read and written, and that the machine has the instructions of `L`.
    unsafe {
        for (step, &offset) in terms.offsets.iter().enumerate() {
            let image = terms.image.add(offset);
            let mut columns = [L::zero(); V];
            for (at, vector) in columns.iter_mut().enumerate() {
                *vector = L::units(image.add(at * L::WIDTH));
            }
            for (row, vectors) in sums.iter_mut().enumerate() {
                let weight = L::splat(terms.weights.add(row * terms.row + step));
                for at in 0..V {
                    vectors[at] = vectors[at].plus_product(weight, columns[at]);
                }
            }
        }
        for (row, vectors) in sums.iter().enumerate() {
            for (at, vector) in vectors.iter().enumerate() {
                vector.store(to.add((row * V + at) * L::WIDTH));
            }
        }
    }
}

/// Compiles the blocks of some forms for one kind of lanes, under one set of features.
macro_rules! compiled {
    ($module:ident, $lanes:ty, $unit:ty, [$({$([$rows:literal $vectors:tt])*})*] $(, $feature:literal)?) => {
        mod $module {
            use super::*;

            /// The forms are in groups by their most rows, the last of each group.
            pub(super) const FORMS: &[Form] = &[$({
                let forms: &[Form] = &[$(Form { rows: $rows, vectors: &$vectors }),*];
                forms[forms.len() - 1]
            }),*];

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn sums(terms: &Terms<'_, $unit>, to: *mut $unit) {
                // SAFETY: the caller's promise; the function is only called where the features are.
                unsafe {
                    $($(compiled!(@each terms, to, $lanes, $rows, $vectors);)*)*
                }
                unreachable!("a block of {} rows and {} vectors", terms.rows, terms.vectors);
            }
        }
    };
    (@each $terms:ident, $to:ident, $lanes:ty, $rows:literal, [$($vectors:literal),*]) => {
        $(if ($terms.rows, $terms.vectors) == ($rows, $vectors) {
            return block::<$lanes, $rows, $vectors>($terms, $to);
        })*
    };
}

macro_rules! summed {
    ($($unit:ty, $plain:ident: $plain_lanes:ident, $avx2:ident: $avx2_lanes:ident, $avx512:ident: $avx512_lanes:ident;)*) => {$(
        #[cfg(not(target_arch = "aarch64"))]
        compiled!($plain, $plain_lanes, $unit, [
            {[1 [4, 1]]}
            {[2 [4, 1]]}
            {[1 [2, 1]] [2 [2, 1]] [3 [2, 1]] [4 [2, 1]]}
        ]);
        #[cfg(target_arch = "aarch64")]
        compiled!($plain, $plain_lanes, $unit, [
            {[1 [8, 2, 1]] [2 [8, 2, 1]]}
            {[1 [6, 1]] [2 [6, 1]] [3 [6, 1]] [4 [6, 1]]}
            {[4 [3, 1]] [5 [3, 1]] [6 [3, 1]] [7 [3, 1]] [8 [3, 1]]}
        ]);
        #[cfg(target_arch = "x86_64")]
        compiled!($avx2, crate::kernels::matmul::lanes::$avx2_lanes, $unit, [
            {[1 [8, 2, 1]]}
            {[1 [5]] [2 [5, 2, 1]]}
            {[1 [3, 1]] [2 [3, 1]] [3 [3, 1]]}
            {[1 [2, 1]] [2 [2, 1]] [3 [2, 1]] [4 [2, 1]] [5 [2, 1]] [6 [2, 1]]}
        ], "avx2,fma,f16c");
        #[cfg(target_arch = "x86_64")]
        compiled!($avx512, crate::kernels::matmul::lanes::$avx512_lanes, $unit, [
            {[1 [8, 4, 2, 1]] [2 [8, 4, 2, 1]]}
            {[1 [6, 3, 1]] [2 [6, 3, 1]] [3 [6, 3, 1]] [4 [6, 3, 1]]}
            {[3 [3, 1]] [4 [3, 1]] [5 [3, 1]] [6 [3, 1]] [7 [3, 1]] [8 [3, 1]]}
            {[5 [2, 1]] [6 [2, 1]] [7 [2, 1]] [8 [2, 1]] [9 [2, 1]] [10 [2, 1]] [11 [2, 1]] [12 [2, 1]]}
        ], "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

        impl Summed for $unit {
            fn forms() -> &'static [Form] {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => $avx512::FORMS,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => $avx2::FORMS,
                    _ => $plain::FORMS,
                }
            }

            fn width() -> usize {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => crate::kernels::matmul::lanes::$avx512_lanes::WIDTH,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => crate::kernels::matmul::lanes::$avx2_lanes::WIDTH,
                    _ => $plain_lanes::WIDTH,
                }
            }

            #[inline]
            unsafe fn sums(terms: &Terms<'_, $unit>, to: *mut $unit) {
                // SAFETY: the level says that the features are there; the rest the caller promises.
                unsafe {
                    match level() {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => $avx512::sums(terms, to),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => $avx2::sums(terms, to),
                        _ => $plain::sums(terms, to),
                    }
                }
            }
        }
    )*};
}

summed! {
    f32, plain_f32: PlainF32, avx2_f32: Avx2F32, avx512_f32: Avx512F32;
    f64, plain_f64: PlainF64, avx2_f64: Avx2F64, avx512_f64: Avx512F64;
}

/// The form, and the rows of its blocks, with which `rows` rows keep most registers busy.
pub(super) fn best_form<U: Summed>(rows: usize) -> Form {
    let busy = |form: &Form| {
        let parts = rows.div_ceil(form.rows).max(1);
        // In sixteenths of a row, so that forms compare as they are.
        rows * 16 / parts * form.vectors[0]
    };
    let forms = U::forms().iter();
    forms.copied().max_by_key(busy).unwrap_or(U::forms()[0])
}
