//! Products of `i8` by instructions that multiply four neighbours with four and add all to a sum.
//!
//! They take the numbers of one side without sign: those of the left operand are packed as 128 more than they are, and what that is too
//! much, 128 times the sum of each column, is counted beside the sums and taken from them.

use super::factor::Factor;
use super::multiply::{AHEAD, Earlier, Packed, Sums, Unit};
use crate::kernels::rows;
use crate::kernels::simd::{Level, Machine, level};
use streampool_device::Activation;

/// An `i8`, multiplied so.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Dotted(i8);

/// Four neighbours, and a sum of products of such.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Quad(i32);

/// 128 more than each of four `i8`, without sign, for each.
const MORE: i32 = 0x8080_8080_u32 as i32;

impl Factor for Dotted {
    type Unit = Quad;
    type Out = i32;
    const PER_UNIT: usize = 4;
    const IN_PLACE: bool = false;
    const SUMS_ARE_OUT: bool = true;
    const PLANES: usize = 0;

    #[inline(always)]
    fn unit(first: Self, rest: [Option<Self>; 3]) -> Quad {
        let [second, third, fourth] = rest.map(|value| value.map_or(0, |value| value.0 as u8));
        Quad(i32::from_le_bytes([first.0 as u8, second, third, fourth]))
    }

    #[inline(always)]
    fn left_unit(unit: Quad) -> Quad {
        Quad(unit.0 ^ MORE)
    }

    #[inline(always)]
    fn scale(sum: Quad, _: f64) -> Quad {
        sum
    }

    #[inline(always)]
    fn add(sum: Quad, bias: i32) -> Quad {
        Quad(sum.0.wrapping_add(bias))
    }

    #[inline(always)]
    unsafe fn activate<M: Machine>(_: Activation, _: *mut Quad, _: (usize, usize), _: usize) {}

    #[inline(always)]
    fn narrow(sum: Quad) -> i32 {
        sum.0
    }
}

impl Unit for Quad {
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

macro_rules! compiled {
    (
        $module:ident, $features:literal, [$($rows:literal)*], $width:literal, $zero:ident, $load:ident, $store:ident,
        $splat:ident, $add:ident, $less:ident, $dots:ident
    ) => {
        mod $module {
            use std::arch::x86_64::*;

            use super::*;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn multiply(operands: &Packed<Quad>, sums: Sums<Quad>, earlier: Earlier) {
                // SAFETY: passed on from the caller.
                unsafe {
                    match (operands.rows, operands.half) {
                        $(
                            ($rows, false) => block::<$rows, 2>(operands, sums, earlier),
                            ($rows, true) => block::<$rows, 1>(operands, sums, earlier),
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
            unsafe fn block<const R: usize, const V: usize>(
                operands: &Packed<Quad>,
                sums: Sums<Quad>,
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
                            more[at] = $dots(more[at], $splat(MORE), columns[at]);
                        }
                        for row in 0..R {
                            let x = $splat(*a.add(row * Quad::PANEL_STRIDE));
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

compiled!(
    avx512,
    "avx512f,avx512bw,avx512vl,avx512vnni",
    [1 2 3 4 5 6 7 8 9 10 11 12],
    16, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32, _mm512_add_epi32, _mm512_sub_epi32,
    _mm512_dpbusd_epi32
);
compiled!(
    avx2,
    "avx2,avxvnni",
    [1 2 3 4],
    8, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32, _mm256_add_epi32, _mm256_sub_epi32,
    _mm256_dpbusd_avx_epi32
);
