//! Stands for the matrix unit where there is none that is known.

use std::ops::Range;

use super::factor::{Factor, Lines};
use super::product::{Product, Side};
use crate::kernels::simd;

pub(in crate::kernels) const BLOCK: usize = 1;
pub(super) const MOST_ROWS: usize = 1;
pub(super) const MOST_COLUMNS: usize = 1;

/// No product suits a unit that is not there.
pub(super) fn suits<T: Factor>(_: &Product<T>) -> bool {
    T::PLANES > 0 && simd::has_matrix_unit()
}

pub(super) fn packed_bytes<T: Factor>(_: &Product<T>, _: usize) -> usize {
    unreachable!("no product suits the matrix unit")
}

/// # Safety
/// It is never called.
pub(super) unsafe fn pack<T: Factor>(_: Lines<T>, _: Side, _: *mut u8) {
    unreachable!("no product suits the matrix unit")
}

/// # Safety
/// It is never called.
pub(super) unsafe fn tile<T: Factor>(_: &Product<T>, _: Range<usize>, _: Range<usize>) {
    unreachable!("no product suits the matrix unit")
}

/// The product with gathered columns.
pub(in crate::kernels) mod gathered {
    pub(in crate::kernels) use crate::kernels::matmul::image::{Gathered, Results};

    /// No convolution suits it.
    pub(in crate::kernels) fn suits(_: usize, _: usize, _: usize) -> bool {
        false
    }

    pub(in crate::kernels) fn packed_bytes(_: usize, _: usize) -> usize {
        unreachable!("no convolution suits the matrix unit")
    }

    /// # Safety
    /// It is never called.
    pub(in crate::kernels) unsafe fn pack(_: *const f32, _: usize, _: usize, _: usize, _: *mut u8) {
        unreachable!("no convolution suits the matrix unit")
    }

    impl Gathered<'_> {
        pub(in crate::kernels) fn scratch_bytes(_: usize, _: usize) -> usize {
            unreachable!("no convolution suits the matrix unit")
        }

        /// # Safety
        /// It is never called.
        pub(in crate::kernels) unsafe fn multiply(self, _: *mut u8, _: impl FnMut(Results)) {
            unreachable!("no convolution suits the matrix unit")
        }
    }
}
