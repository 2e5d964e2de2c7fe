//! Vectors for bytes: sums of products of four neighbours, and floats that become bytes.

use std::arch::x86_64::*;

/// Vectors of one set of instructions. All methods need a machine that has them.
pub(super) trait ByteLanes {
    /// Sums.
    type Whole: Copy;
    /// As many floats.
    type Floats: Copy;
    /// How many there are.
    const WIDTH: usize;

    /// One number for all.
    unsafe fn all(number: i32) -> Self::Whole;
    /// # Safety
    /// `WIDTH` numbers can be read there, of any alignment.
    unsafe fn load(from: *const i32) -> Self::Whole;
    /// Writes the first `count`, or all.
    ///
    /// # Safety
    /// So many numbers can be written there.
    unsafe fn store(sums: Self::Whole, to: *mut i32, count: usize);
    /// The sums and, of four bytes without sign and four with one in each lane, the products.
    unsafe fn dots(sums: Self::Whole, left: Self::Whole, right: Self::Whole) -> Self::Whole;
    unsafe fn add(left: Self::Whole, right: Self::Whole) -> Self::Whole;
    unsafe fn less(left: Self::Whole, right: Self::Whole) -> Self::Whole;

    /// One number for all.
    unsafe fn all_floats(number: f32) -> Self::Floats;
    unsafe fn floats(numbers: Self::Whole) -> Self::Floats;
    /// # Safety
    /// `WIDTH` floats can be read there.
    unsafe fn load_floats(from: *const f32) -> Self::Floats;
    /// # Safety
    /// `WIDTH` bytes can be read there.
    unsafe fn load_bytes(from: *const u8) -> Self::Floats;
    /// `x * y + sum`, where that is exact.
    unsafe fn meet(x: Self::Floats, y: Self::Floats, sum: Self::Floats) -> Self::Floats;
    /// The nearest whole numbers.
    unsafe fn whole(floats: Self::Floats) -> Self::Whole;
    /// `floats * scale + more`, each rounded, and between bounds: the lower one, if it is no number.
    unsafe fn scaled(
        floats: Self::Floats,
        scale: Self::Floats,
        more: Self::Floats,
        bounds: [Self::Floats; 2],
    ) -> Self::Floats;
    /// Writes the first `count`, or all, which are bytes.
    ///
    /// # Safety
    /// So many bytes can be written there.
    unsafe fn store_bytes(bytes: Self::Whole, to: *mut u8, count: usize);
}

/// What makes bytes of sums.
#[derive(Clone, Copy)]
pub(super) struct Rounding<L: ByteLanes> {
    /// The bytes but for the zero point.
    bounds: [L::Floats; 2],
    zero: L::Whole,
}

impl<L: ByteLanes> Rounding<L> {
    /// # Safety
    /// The machine has the instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn of(zero: u8) -> Self {
        let zero = i32::from(zero);
        // SAFETY: passed on from the caller.
        unsafe {
            Rounding {
                // Written out: what is called with a closure may be compiled without the instructions.
                bounds: [L::floats(L::all(-zero)), L::floats(L::all(255 - zero))],
                zero: L::all(zero),
            }
        }
    }

    /// # Safety
    /// As for [`of`](Self::of).
    #[inline(always)]
    pub(super) unsafe fn bytes(
        &self,
        sums: L::Floats,
        scale: L::Floats,
        more: L::Floats,
    ) -> L::Whole {
        // SAFETY: passed on from the caller.
        unsafe {
            L::add(
                L::whole(L::scaled(sums, scale, more, self.bounds)),
                self.zero,
            )
        }
    }
}

/// The lanes of one set of instructions, and how they are stored.
macro_rules! lanes {
    (
        $(#[$doc:meta])* $name:ident, $whole:ty, $floats:ty, $width:literal,
        $all:ident, $load:ident, $dots:ident, $add:ident, $less:ident, $all_floats:ident, $to_floats:ident, $load_floats:ident,
        |$from:ident| $bytes:expr, $widened:ident, $meet:ident, $to_whole:ident, $product:ident, $sum:ident, $most:ident, $least:ident,
        |$sums:ident, $to:ident, $count:ident| $store:expr, |$stored:ident, $place:ident, $some:ident| $store_bytes:expr
    ) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl ByteLanes for $name {
            type Whole = $whole;
            type Floats = $floats;
            const WIDTH: usize = $width;

            #[inline(always)]
            unsafe fn all(number: i32) -> $whole {
                // SAFETY: the machine has the instructions, as the caller promises; so for all below.
                unsafe { $all(number) }
            }

            #[inline(always)]
            unsafe fn load(from: *const i32) -> $whole {
                // SAFETY: as above, and the numbers can be read.
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn store($sums: $whole, $to: *mut i32, $count: usize) {
                // SAFETY: as above, and no more numbers are written than can be.
                unsafe { $store }
            }

            #[inline(always)]
            unsafe fn dots(sums: $whole, left: $whole, right: $whole) -> $whole {
                // SAFETY: as above.
                unsafe { $dots(sums, left, right) }
            }

            #[inline(always)]
            unsafe fn add(left: $whole, right: $whole) -> $whole {
                // SAFETY: as above.
                unsafe { $add(left, right) }
            }

            #[inline(always)]
            unsafe fn less(left: $whole, right: $whole) -> $whole {
                // SAFETY: as above.
                unsafe { $less(left, right) }
            }

            #[inline(always)]
            unsafe fn all_floats(number: f32) -> $floats {
                // SAFETY: as above.
                unsafe { $all_floats(number) }
            }

            #[inline(always)]
            unsafe fn floats(numbers: $whole) -> $floats {
                // SAFETY: as above.
                unsafe { $to_floats(numbers) }
            }

            #[inline(always)]
            unsafe fn load_floats(from: *const f32) -> $floats {
                // SAFETY: as above, and the floats can be read.
                unsafe { $load_floats(from) }
            }

            #[inline(always)]
            unsafe fn load_bytes($from: *const u8) -> $floats {
                // SAFETY: as above, and the bytes can be read.
                unsafe { $to_floats($widened($bytes)) }
            }

            #[inline(always)]
            unsafe fn meet(x: $floats, y: $floats, sum: $floats) -> $floats {
                // SAFETY: as above.
                unsafe { $meet(x, y, sum) }
            }

            #[inline(always)]
            unsafe fn whole(floats: $floats) -> $whole {
                // SAFETY: as above.
                unsafe { $to_whole(floats) }
            }

            #[inline(always)]
            unsafe fn scaled(
                floats: $floats,
                scale: $floats,
                more: $floats,
                [least, most]: [$floats; 2],
            ) -> $floats {
                // SAFETY: as above.
                unsafe {
                    let scaled = $sum($product(floats, scale), more);
                    // Of no number these instructions give the second operand.
                    $least($most(scaled, least), most)
                }
            }

            #[inline(always)]
            unsafe fn store_bytes($stored: $whole, $place: *mut u8, $some: usize) {
                // SAFETY: as above, and no more bytes are written than can be.
                unsafe { $store_bytes }
            }
        }
    };
}

lanes!(
    /// Instructions of AVX-512 with VNNI.
    Wide, __m512i, __m512, 16,
    _mm512_set1_epi32, _mm512_loadu_si512, _mm512_dpbusd_epi32, _mm512_add_epi32, _mm512_sub_epi32, _mm512_set1_ps,
    _mm512_cvtepi32_ps, _mm512_loadu_ps,
    |from| _mm_loadu_si128(from.cast()), _mm512_cvtepu8_epi32, _mm512_fmadd_ps, _mm512_cvtps_epi32, _mm512_mul_ps, _mm512_add_ps,
    _mm512_max_ps, _mm512_min_ps,
    |sums, to, count| _mm512_mask_storeu_epi32(to, first(count), sums),
    |bytes, to, count| _mm_mask_storeu_epi8(to.cast(), first(count), _mm512_cvtepi32_epi8(bytes))
);

/// A mask of the first so many of sixteen.
#[inline(always)]
fn first(count: usize) -> u16 {
    ((1u32 << count.min(16)) - 1) as u16
}

lanes!(
    /// Instructions of AVX2 with AVX-VNNI.
    Narrow, __m256i, __m256, 8,
    _mm256_set1_epi32, _mm256_loadu_si256, _mm256_dpbusd_avx_epi32, _mm256_add_epi32, _mm256_sub_epi32, _mm256_set1_ps,
    _mm256_cvtepi32_ps, _mm256_loadu_ps,
    |from| _mm_loadl_epi64(from.cast()), _mm256_cvtepu8_epi32, _mm256_fmadd_ps, _mm256_cvtps_epi32, _mm256_mul_ps, _mm256_add_ps,
    _mm256_max_ps, _mm256_min_ps,
    |sums, to, count| {
        if count >= 8 {
            return _mm256_storeu_si256(to.cast(), sums);
        }
        let mut all = [0i32; 8];
        _mm256_storeu_si256(all.as_mut_ptr().cast(), sums);
        std::ptr::copy_nonoverlapping(all.as_ptr(), to, count);
    },
    |bytes, to, count| {
        let pairs = _mm_packus_epi32(
            _mm256_castsi256_si128(bytes),
            _mm256_extracti128_si256::<1>(bytes),
        );
        let all = _mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)).to_le_bytes();
        std::ptr::copy_nonoverlapping(all.as_ptr(), to, count.min(8));
    }
);
