//! The inner loop on the matrix unit.

use std::arch::asm;

use super::strips::{STRIP, Strips};
use super::sums;
use crate::kernels::amx::ROW_BYTES;
use crate::kernels::amx::{TILE_BYTES, Tiles};
use crate::kernels::matmul::factor::Factor;
use crate::kernels::matmul::multiply::Sums;

/// Two strips of rows times two strips of columns. Its sums are four tiles, as many as are needed to hide how long
/// one takes.
pub(super) struct Block {
    pub(super) a: Strips,
    pub(super) b: Strips,
    pub(super) steps: usize,
    pub(super) sums: Sums<f32>,
    /// What will soon be read, [`AHEAD`] bytes for each plane and step, wherever it is.
    pub(super) next: *const u8,
}

/// Bytes that are fetched into the second-level cache meanwhile, for each plane and step: what four blocks fetch is two
/// strips.
pub(super) const AHEAD: usize = TILE_BYTES / 2;

/// Loads a plane of both strips of `a`.
macro_rules! left {
    ($plane:literal) => {
        concat!(
            "tileloadd tmm4, [{a} + {line} + 1024*",
            $plane,
            "]\n",
            "tileloadd tmm5, [{lower_a} + {line} + 1024*",
            $plane,
            "]"
        )
    };
}

/// Loads a plane of both strips of `b`.
macro_rules! right {
    ($plane:literal) => {
        concat!(
            "tileloadd tmm6, [{b} + {line} + 1024*",
            $plane,
            "]\n",
            "tileloadd tmm7, [{right_b} + {line} + 1024*",
            $plane,
            "]"
        )
    };
}

/// Adds the products of the planes that are loaded.
macro_rules! products {
    () => {
        "tdpbf16ps tmm0, tmm4, tmm6
         tdpbf16ps tmm1, tmm4, tmm7
         tdpbf16ps tmm2, tmm5, tmm6
         tdpbf16ps tmm3, tmm5, tmm7"
    };
}

/// Fetches some bytes of what is next.
macro_rules! fetch {
    ($fourth:literal) => {
        concat!(
            "prefetcht1 [{next} + 256*",
            $fourth,
            "]\n",
            "prefetcht1 [{next} + 256*",
            $fourth,
            "+ 64]\n",
            "prefetcht1 [{next} + 256*",
            $fourth,
            "+ 128]\n",
            "prefetcht1 [{next} + 256*",
            $fourth,
            "+ 192]"
        )
    };
}

impl Block {
    /// Multiplies the block, and adds what it comes to to these sums, if its own are others.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply), of both sums.
    #[inline(always)]
    pub(super) unsafe fn multiply_into<T: Factor>(&self, tiles: &Tiles, sums: Sums<f32>) {
        // SAFETY: passed on from the caller.
        unsafe {
            self.multiply::<T>(tiles);
            if self.sums.at != sums.at {
                sums::add(self.sums, sums);
            }
        }
    }

    /// Multiplies the block.
    ///
    /// # Safety
    /// There are so many steps of the planes of `T` in all strips, at least one, and sums of two strips of rows and of
    /// columns.
    #[inline(always)]
    unsafe fn multiply<T: Factor>(&self, _: &Tiles) {
        debug_assert!(self.steps > 0);
        /// The whole loop, each of whose steps is `$step`: nothing but this block knows of tiles.
        macro_rules! run {
            ($($step:expr),*) => {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "2:",
                    $($step,)*
                    "add {a}, {step}",
                    "add {lower_a}, {step}",
                    "add {b}, {step}",
                    "add {right_b}, {step}",
                    "add {next}, {ahead}",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{sums} + {row}], tmm0",
                    "tilestored [{sums} + {row} + 64], tmm1",
                    "tilestored [{lower_sums} + {row}], tmm2",
                    "tilestored [{lower_sums} + {row} + 64], tmm3",
                    a = inout(reg) self.a.at => _,
                    lower_a = inout(reg) self.a.from(STRIP).at => _,
                    b = inout(reg) self.b.at => _,
                    right_b = inout(reg) self.b.from(STRIP).at => _,
                    step = const T::PLANES * TILE_BYTES,
                    line = in(reg) ROW_BYTES,
                    next = inout(reg) self.next => _,
                    ahead = const T::PLANES * AHEAD,
                    steps = inout(reg) self.steps => _,
                    sums = in(reg) self.sums.at,
                    lower_sums = in(reg) self.sums.at.wrapping_add(STRIP * self.sums.row),
                    row = in(reg) self.sums.row * size_of::<f32>(),
                    out("tmm0") _,
                    out("tmm1") _,
                    out("tmm2") _,
                    out("tmm3") _,
                    out("tmm4") _,
                    out("tmm5") _,
                    out("tmm6") _,
                    out("tmm7") _,
                    options(nostack),
                )
            };
        }
        // Small products first, and each time one of the operands is there from the last.
        // SAFETY: the caller promises that the strips can be read and the sums written; tiles are configured as
        // long as they are borrowed, and the compiler uses none.
        unsafe {
            match T::PLANES {
                1 => run!(left!(0), right!(0), fetch!(0), products!(), fetch!(1)),
                2 => run!(
                    left!(1),
                    right!(0),
                    products!(),
                    fetch!(0),
                    right!(1),
                    products!(),
                    fetch!(1),
                    left!(0),
                    products!(),
                    fetch!(2),
                    right!(0),
                    products!(),
                    fetch!(3)
                ),
                _ => run!(
                    left!(2),
                    right!(0),
                    products!(),
                    fetch!(0),
                    left!(1),
                    products!(),
                    fetch!(1),
                    right!(1),
                    products!(),
                    fetch!(2),
                    left!(0),
                    products!(),
                    fetch!(3),
                    right!(0),
                    products!(),
                    fetch!(4),
                    right!(2),
                    products!(),
                    fetch!(5)
                ),
            }
        }
    }
}
