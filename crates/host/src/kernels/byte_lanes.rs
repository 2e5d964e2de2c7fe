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

    /// Sums of nothing.
    unsafe fn nothing() -> Self::Whole;
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

    unsafe fn no_floats() -> Self::Floats;
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

/// Instructions of AVX-512 with VNNI.
pub(super) struct Wide;

impl ByteLanes for Wide {
    type Whole = __m512i;
    type Floats = __m512;
    const WIDTH: usize = 16;

    #[inline(always)]
    unsafe fn nothing() -> __m512i {
        // SAFETY: the machine has the instructions, as the caller promises; so for all below.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn all(number: i32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_set1_epi32(number) }
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> __m512i {
        // SAFETY: as above, and the numbers can be read.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(sums: __m512i, to: *mut i32, count: usize) {
        // SAFETY: as above, and as many numbers as the mask names can be written.
        unsafe { _mm512_mask_storeu_epi32(to, first(count), sums) }
    }

    #[inline(always)]
    unsafe fn dots(sums: __m512i, left: __m512i, right: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_dpbusd_epi32(sums, left, right) }
    }

    #[inline(always)]
    unsafe fn add(left: __m512i, right: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(left, right) }
    }

    #[inline(always)]
    unsafe fn less(left: __m512i, right: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_sub_epi32(left, right) }
    }

    #[inline(always)]
    unsafe fn no_floats() -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn all_floats(number: f32) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_set1_ps(number) }
    }

    #[inline(always)]
    unsafe fn floats(numbers: __m512i) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi32_ps(numbers) }
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> __m512 {
        // SAFETY: as above, and the floats can be read.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> __m512 {
        // SAFETY: as above, and the bytes can be read.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn meet(x: __m512, y: __m512, sum: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(x, y, sum) }
    }

    #[inline(always)]
    unsafe fn whole(floats: __m512) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_cvtps_epi32(floats) }
    }

    #[inline(always)]
    unsafe fn scaled(
        floats: __m512,
        scale: __m512,
        more: __m512,
        [least, most]: [__m512; 2],
    ) -> __m512 {
        // SAFETY: as above.
        unsafe {
            let scaled = _mm512_add_ps(_mm512_mul_ps(floats, scale), more);
            // Of no number these instructions give the second operand.
            _mm512_min_ps(_mm512_max_ps(scaled, least), most)
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(bytes: __m512i, to: *mut u8, count: usize) {
        // SAFETY: as above, and as many bytes as the mask names can be written.
        unsafe { _mm_mask_storeu_epi8(to.cast(), first(count), _mm512_cvtepi32_epi8(bytes)) }
    }
}

/// A mask of the first so many of sixteen.
#[inline(always)]
fn first(count: usize) -> u16 {
    ((1u32 << count.min(16)) - 1) as u16
}

/// Instructions of AVX2 with AVX-VNNI.
pub(super) struct Narrow;

impl ByteLanes for Narrow {
    type Whole = __m256i;
    type Floats = __m256;
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn nothing() -> __m256i {
        // SAFETY: the machine has the instructions, as the caller promises; so for all below.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn all(number: i32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_set1_epi32(number) }
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> __m256i {
        // SAFETY: as above, and the numbers can be read.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(sums: __m256i, to: *mut i32, count: usize) {
        // SAFETY: as above, and as many numbers as are stored can be written.
        unsafe {
            if count >= 8 {
                return _mm256_storeu_si256(to.cast(), sums);
            }
            let mut all = [0i32; 8];
            _mm256_storeu_si256(all.as_mut_ptr().cast(), sums);
            std::ptr::copy_nonoverlapping(all.as_ptr(), to, count);
        }
    }

    #[inline(always)]
    unsafe fn dots(sums: __m256i, left: __m256i, right: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_dpbusd_avx_epi32(sums, left, right) }
    }

    #[inline(always)]
    unsafe fn add(left: __m256i, right: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(left, right) }
    }

    #[inline(always)]
    unsafe fn less(left: __m256i, right: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sub_epi32(left, right) }
    }

    #[inline(always)]
    unsafe fn no_floats() -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn all_floats(number: f32) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_set1_ps(number) }
    }

    #[inline(always)]
    unsafe fn floats(numbers: __m256i) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_cvtepi32_ps(numbers) }
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> __m256 {
        // SAFETY: as above, and the floats can be read.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> __m256 {
        // SAFETY: as above, and the bytes can be read.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn meet(x: __m256, y: __m256, sum: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_fmadd_ps(x, y, sum) }
    }

    #[inline(always)]
    unsafe fn whole(floats: __m256) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_cvtps_epi32(floats) }
    }

    #[inline(always)]
    unsafe fn scaled(
        floats: __m256,
        scale: __m256,
        more: __m256,
        [least, most]: [__m256; 2],
    ) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let scaled = _mm256_add_ps(_mm256_mul_ps(floats, scale), more);
            // Of no number these instructions give the second operand.
            _mm256_min_ps(_mm256_max_ps(scaled, least), most)
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(bytes: __m256i, to: *mut u8, count: usize) {
        // SAFETY: as above, and as many bytes as are stored can be written.
        unsafe {
            let pairs = _mm_packus_epi32(
                _mm256_castsi256_si128(bytes),
                _mm256_extracti128_si256::<1>(bytes),
            );
            let all = _mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)).to_le_bytes();
            std::ptr::copy_nonoverlapping(all.as_ptr(), to, count.min(8));
        }
    }
}
