//! Products of bytes by instructions that multiply four neighbours with four and add all to a sum.
//!
//! They take the numbers of the left operand without sign. If those have one, they are packed as 128 more than they are, and what that is
//! too much, 128 times the sum of each column, is counted beside the sums and taken from them.

use std::ops::Range;

use streampool_device::Activation;

use super::blocked::{PackRows, tile_of};
use super::factor::Factor;
use super::multiply::{AHEAD, Earlier, Packed, Sums, Unit};
use super::product::{Matrix, Product};
use crate::kernels::rows;
use crate::kernels::simd::{Level, Machine, level};

/// A byte, multiplied so: of the right operand with its sign, of the left operand if it is `SIGNED`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Dotted<const SIGNED: bool>(u8);

/// Four neighbours, and a sum of products of such.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Quad<const SIGNED: bool>(i32);

impl<const SIGNED: bool> Quad<SIGNED> {
    /// Four neighbours of the left operand as they lie in memory.
    #[inline(always)]
    pub(in crate::kernels) fn of_left(bytes: [u8; 4]) -> Self {
        Dotted::<SIGNED>::left_unit(Quad(i32::from_le_bytes(bytes)))
    }
}

/// 128 more than each of four `i8`, without sign, for each.
const MORE: i32 = 0x8080_8080_u32 as i32;

impl<const SIGNED: bool> Factor for Dotted<SIGNED> {
    type Unit = Quad<SIGNED>;
    type Out = i32;
    const PER_UNIT: usize = 4;
    const IN_PLACE: bool = false;
    const SUMS_ARE_OUT: bool = true;
    const PLANES: usize = 0;

    #[inline(always)]
    fn unit(first: Self, rest: [Option<Self>; 3]) -> Quad<SIGNED> {
        let [second, third, fourth] = rest.map(|value| value.map_or(0, |value| value.0));
        Quad(i32::from_le_bytes([first.0, second, third, fourth]))
    }

    #[inline(always)]
    fn left_unit(unit: Quad<SIGNED>) -> Quad<SIGNED> {
        Quad(if SIGNED { unit.0 ^ MORE } else { unit.0 })
    }

    #[inline(always)]
    fn scale(sum: Quad<SIGNED>, _: f64) -> Quad<SIGNED> {
        sum
    }

    #[inline(always)]
    fn add(sum: Quad<SIGNED>, bias: i32) -> Quad<SIGNED> {
        Quad(sum.0.wrapping_add(bias))
    }

    #[inline(always)]
    unsafe fn activate<M: Machine>(
        _: Activation,
        _: *mut Quad<SIGNED>,
        _: (usize, usize),
        _: usize,
    ) {
    }

    #[inline(always)]
    fn narrow(sum: Quad<SIGNED>) -> i32 {
        sum.0
    }
}

impl<const SIGNED: bool> Unit for Quad<SIGNED> {
    const NOTHING: Self = Quad(0);

    fn block() -> (usize, usize) {
        match level() {
            Level::Avx512 => (12, 32),
            _ => (4, 16),
        }
    }

    #[inline]
    unsafe fn multiply(operands: &Packed<Self>, sums: Sums<Self>, earlier: Earlier) {
        // SAFETY: this type is only multiplied where the level has the instructions; the rest the caller promises.
        unsafe {
            match level() {
                Level::Avx512 => avx512::multiply(operands, sums, earlier),
                _ => avx2::multiply(operands, sums, earlier),
            }
        }
    }
}

macro_rules! of_level {
    (
        $module:ident, $features:literal, [$($rows:literal)*], $width:literal, $zero:ident, $load:ident, $store:ident,
        $splat:ident, $add:ident, $less:ident, $dots:ident
    ) => {
        mod $module {
            use std::arch::x86_64::*;

            use super::*;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn multiply<const SIGNED: bool>(
                operands: &Packed<Quad<SIGNED>>,
                sums: Sums<Quad<SIGNED>>,
                earlier: Earlier,
            ) {
                // SAFETY: passed on from the caller.
                unsafe {
                    match (operands.rows, operands.half) {
                        $(
                            ($rows, false) => block::<SIGNED, $rows, 2>(operands, sums, earlier),
                            ($rows, true) => block::<SIGNED, $rows, 1>(operands, sums, earlier),
                        )*
                        _ => {}
                    }
                }
            }

            /// # Safety
            /// As for [`Unit::multiply`], of so many rows and vectors of columns.
            #[inline]
            #[allow(clippy::needless_range_loop, reason = "a zip is called, not inlined, in builds of many units")]
            #[target_feature(enable = $features)]
            unsafe fn block<const SIGNED: bool, const R: usize, const V: usize>(
                operands: &Packed<Quad<SIGNED>>,
                sums: Sums<Quad<SIGNED>>,
                earlier: Earlier,
            ) {
                let mut block = [[$zero(); V]; R];
                let mut more = [$zero(); V];
                let (mut a, mut b) = (operands.a.cast::<i32>(), operands.b.cast::<i32>());
                // SAFETY: the caller promises that so many steps can be read of both operands, and sums be read and written.
                unsafe {
                    for _ in 0..operands.steps {
                        let mut columns = [$zero(); V];
                        for at in 0..V {
                            columns[at] = $load(b.add(at * $width).cast());
                            rows::fetch(b.wrapping_add(at * $width + AHEAD).cast());
                            if SIGNED {
                                more[at] = $dots(more[at], $splat(MORE), columns[at]);
                            }
                        }
                        for row in 0..R {
                            let x = $splat(*a.add(row * Quad::<SIGNED>::PANEL_STRIDE));
                            for at in 0..V {
                                block[row][at] = $dots(block[row][at], x, columns[at]);
                            }
                        }
                        a = a.wrapping_add(1);
                        b = b.wrapping_add(2 * $width);
                    }
                    for row in 0..R {
                        for at in 0..V {
                            let to: *mut i32 = sums.at.add(row * sums.row + at * $width).cast();
                            let mut total = $less(block[row][at], more[at]);
                            if earlier != Earlier::Lost {
                                total = $add(total, $load(to.cast_const().cast()));
                            }
                            $store(to.cast(), total);
                        }
                    }
                }
            }
        }
    };
}

of_level!(
    avx512,
    "avx512f,avx512bw,avx512vl,avx512vnni",
    [1 2 3 4 5 6 7 8 9 10 11 12],
    16, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32, _mm512_add_epi32, _mm512_sub_epi32,
    _mm512_dpbusd_epi32
);
of_level!(
    avx2,
    "avx2,avxvnni",
    [1 2 3 4],
    8, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32, _mm256_add_epi32, _mm256_sub_epi32,
    _mm256_dpbusd_avx_epi32
);

/// A product of gathered bytes without sign with packed weights.
pub(in crate::kernels) struct Gathered {
    /// Rows, columns, and units of each.
    pub(in crate::kernels) sizes: [usize; 3],
    /// Blocks of [`columns_of_a_block`] columns, for each unit those of a block side by side.
    pub(in crate::kernels) weights: *const i32,
    pub(in crate::kernels) to: *mut i32,
    /// From row to row and from column to column of the result.
    pub(in crate::kernels) strides: [isize; 2],
    /// The bias of the first column, and from one to the next.
    pub(in crate::kernels) bias: Option<(*mut i32, isize)>,
}

/// Columns of a block on this machine.
pub(in crate::kernels) fn columns_of_a_block() -> usize {
    Quad::<false>::block().1
}

impl Gathered {
    /// Computes the tile with these rows and columns, which begin at whole blocks. `gather` writes units of rows, by the numbers of their
    /// bytes.
    ///
    /// # Safety
    /// The weights and the bias can be read, and the tile be written. What `gather` reads is there, and the machine has the instructions.
    pub(in crate::kernels) unsafe fn tile(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        gather: &PackRows<'_, Quad<false>>,
    ) {
        let [m, n, units] = self.sizes;
        let [row, column] = self.strides;
        let at = self.to;
        let out = Matrix { at, row, column };
        let sizes = [m, n, units * Dotted::<false>::PER_UNIT];
        let product =
            Product::<Dotted<false>>::of_gathered(sizes, self.weights.cast(), out, self.bias);
        // SAFETY: passed on from the caller; the tile lies in the result.
        unsafe { tile_of(&product, rows, columns, gather) }
    }
}
