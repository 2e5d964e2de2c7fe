//! How operands are packed for the matrix unit: strip by strip, step by step, plane by plane, a tile each.
//!
//! A tile of `a` has a line in each row. One of `b` has two neighbours of the inner dimension of each line in each
//! row, which is the same with pairs of elements transposed.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::strips::{BLOCK, STEP, STRIP};
use crate::kernels::amx::ROW_BYTES;
use crate::kernels::amx::TILE_BYTES;
use crate::kernels::matmul::factor::convert;
use crate::kernels::matmul::factor::{Factor, Lines, MOST_PER_UNIT};
use crate::kernels::matmul::product::Side;

/// Elements in a vector of `f32`.
const WIDTH: usize = 16;

/// Packs lines in strips that begin so many bytes apart. There is an even number of them; missing lines, and what
/// the last step lacks, count as nothing.
///
/// # Safety
/// The lines can be read, the strips written, and the machine has a matrix unit.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) unsafe fn pack_strips<T: Factor>(
    lines: Lines<T>,
    side: Side,
    to: *mut u8,
    distance: usize,
) {
    let strips = lines.lines.next_multiple_of(2 * STRIP) / STRIP;
    let steps = lines.length.div_ceil(STEP);
    let each = |strip: usize, step: usize| {
        let to = to.wrapping_add(strip * distance + step * T::PLANES * TILE_BYTES);
        // SAFETY: the strip and the step exist; the rest the caller promises.
        unsafe { pack_step(&lines, side, strip * STRIP, step * STEP, to) };
    };
    // Memory is read along.
    if lines.line == 1 {
        (0..steps).for_each(|step| (0..strips).for_each(|strip| each(strip, step)));
    } else {
        (0..strips).for_each(|strip| (0..steps).for_each(|step| each(strip, step)));
    }
}

/// Packs the planes of one step of a strip.
///
/// # Safety
/// As for [`pack_strips`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn pack_step<T: Factor>(
    lines: &Lines<T>,
    side: Side,
    line: usize,
    from: usize,
    to: *mut u8,
) {
    let count = STRIP.min(lines.lines.saturating_sub(line));
    let length = STEP.min(lines.length - from);
    let at = lines
        .at
        .wrapping_offset(line as isize * lines.line + from as isize * lines.step);
    // SAFETY: the elements from there on exist, and the tiles can be written.
    unsafe {
        let whole = count == STRIP && length == STEP;
        if whole && lines.step == 1 {
            along(at, lines.line, side, to);
        } else if whole && lines.line == 1 {
            across(at, lines.step, side, to);
        } else {
            // Of any type, zero is no bits.
            let mut copy = MaybeUninit::<[T; STRIP * STEP]>::zeroed();
            let first: *mut T = copy.as_mut_ptr().cast();
            for line in 0..count {
                for step in 0..length {
                    let element = line as isize * lines.line + step as isize * lines.step;
                    *first.add(line * STEP + step) = *at.wrapping_offset(element);
                }
            }
            along(first, STEP as isize, side, to);
        }
    }
}

/// Packs a whole step of a whole strip whose lines have their elements next to each other.
///
/// # Safety
/// As for [`pack_strips`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn along<T: Factor>(at: *const T, line: isize, side: Side, to: *mut u8) {
    // SAFETY: there are so many lines and elements, and tiles for them.
    unsafe {
        for row in 0..STRIP {
            let at = at.wrapping_offset(row as isize * line);
            let (mut low, mut high) = (load(at), load(at.add(WIDTH)));
            for plane in 0..T::PLANES {
                let nearest = nearest(low, high);
                store(nearest, to, plane, row);
                low = _mm512_sub_ps(low, widen(_mm512_castsi512_si256(nearest)));
                high = _mm512_sub_ps(high, widen(_mm512_extracti64x4_epi64::<1>(nearest)));
            }
        }
        if side == Side::Right {
            transpose_planes::<T>(to);
        }
    }
}

/// Packs a whole step of a whole strip whose elements of the inner dimension lie `step` apart, those of
/// neighbouring lines next to each other.
///
/// # Safety
/// As for [`pack_strips`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn across<T: Factor>(at: *const T, step: isize, side: Side, to: *mut u8) {
    // SAFETY: there are so many lines and elements, and tiles for them.
    unsafe {
        for row in 0..STEP / 2 {
            let at = at.wrapping_offset(2 * row as isize * step);
            store_pairs::<T>(load(at), load(at.wrapping_offset(step)), to, row);
        }
        if side == Side::Left {
            transpose_planes::<T>(to);
        }
    }
}

/// Packs elements of neighbouring lines, those of two neighbours of the inner dimension, as a row of each plane.
///
/// # Safety
/// There is such a row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn store_pairs<T: Factor>(even: __m512, odd: __m512, to: *mut u8, row: usize) {
    /// Element by element from the lower half and the upper one.
    const INTERLEAVED: [u16; STEP] = {
        let mut order = [0; STEP];
        let mut element = 0;
        while element < WIDTH {
            order[2 * element] = element as u16;
            order[2 * element + 1] = (WIDTH + element) as u16;
            element += 1;
        }
        order
    };
    // SAFETY: the order is a vector; passed on otherwise.
    unsafe {
        let order = _mm512_loadu_si512(INTERLEAVED.as_ptr().cast());
        let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
        let (mut even, mut odd) = (even, odd);
        for plane in 0..T::PLANES {
            let pairs = _mm512_permutexvar_epi16(order, nearest(even, odd));
            store(pairs, to, plane, row);
            let lower = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs));
            even = _mm512_sub_ps(even, lower);
            odd = _mm512_sub_ps(odd, _mm512_castsi512_ps(_mm512_and_si512(pairs, upper)));
        }
    }
}

/// Packs a block of columns that begin so far from `at`, one offset for each element of the inner dimension, as
/// [`pack_strips`] does.
///
/// # Safety
/// So many elements can be read at each offset, and the strips be written; the machine has a matrix unit.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) unsafe fn pack_gathered(
    at: *const f32,
    offsets: &[usize],
    to: *mut u8,
    distance: usize,
) {
    let element = |number: usize, strip: usize| match offsets.get(number) {
        // SAFETY: the caller promises that there are so many elements.
        Some(&offset) => unsafe { load(at.add(offset + strip * STRIP)) },
        None => _mm512_setzero_ps(),
    };
    for step in 0..offsets.len().div_ceil(STEP) {
        for row in 0..STEP / 2 {
            let number = step * STEP + 2 * row;
            for strip in 0..BLOCK / STRIP {
                let to = to.wrapping_add(strip * distance + step * f32::PLANES * TILE_BYTES);
                // SAFETY: the caller promises that there are such strips.
                unsafe {
                    store_pairs::<f32>(element(number, strip), element(number + 1, strip), to, row);
                }
            }
        }
    }
}

/// Elements next to each other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn load<T: Factor>(at: *const T) -> __m512 {
    let mut wide = [0f32; WIDTH];
    // SAFETY: the caller promises that there are so many.
    unsafe {
        convert(at, wide.as_mut_ptr(), WIDTH, single);
        _mm512_loadu_ps(wide.as_ptr())
    }
}

/// An element of a type with planes.
#[inline(always)]
pub(super) fn single<T: Factor>(element: T) -> f32 {
    let unit = T::unit(element, [None; MOST_PER_UNIT - 1]);
    // SAFETY: the unit of every type with planes is an `f32`, and others are never asked for; nothing is smaller.
    unsafe { std::mem::transmute_copy(&unit) }
}

/// The nearest `bf16` of both, one after the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn nearest(low: __m512, high: __m512) -> __m512i {
    // SAFETY: both are 32 numbers of 16 bits.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
}

/// `bf16` as `f32`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn widen(short: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(short)))
}

/// Stores a row of a plane's tile.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn store(row_of_tile: __m512i, tiles: *mut u8, plane: usize, row: usize) {
    // SAFETY: the caller promises that there is such a row.
    unsafe {
        _mm512_storeu_si512(
            tiles.add(plane * TILE_BYTES + row * ROW_BYTES).cast(),
            row_of_tile,
        )
    };
}

/// Transposes pairs of elements in the tile of each plane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn transpose_planes<T: Factor>(tiles: *mut u8) {
    for plane in 0..T::PLANES {
        // SAFETY: the caller promises that there is a tile for each plane.
        unsafe { transpose(tiles.add(plane * TILE_BYTES).cast()) };
    }
}

/// Transposes a square of 16 vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn transpose(square: *mut __m512i) {
    // SAFETY: the caller promises that there are so many vectors.
    unsafe {
        let mut rows = [_mm512_setzero_si512(); WIDTH];
        for (row, vector) in rows.iter_mut().enumerate() {
            *vector = _mm512_loadu_si512(square.add(row));
        }
        // Within each fourth of a vector, first pairs of rows, then fours.
        let mut fours = rows;
        for four in (0..WIDTH).step_by(4) {
            let (a, b) = (rows[four], rows[four + 1]);
            let (c, d) = (rows[four + 2], rows[four + 3]);
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (high_ab, high_cd) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            fours[four] = _mm512_unpacklo_epi64(ab, cd);
            fours[four + 1] = _mm512_unpackhi_epi64(ab, cd);
            fours[four + 2] = _mm512_unpacklo_epi64(high_ab, high_cd);
            fours[four + 3] = _mm512_unpackhi_epi64(high_ab, high_cd);
        }
        // Then the fourths: those of four vectors are a square of four by four.
        for place in 0..4 {
            let (a, b) = (fours[place], fours[place + 4]);
            let (c, d) = (fours[place + 8], fours[place + 12]);
            let even_ab = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
            let odd_ab = _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
            let even_cd = _mm512_shuffle_i32x4::<0b10_00_10_00>(c, d);
            let odd_cd = _mm512_shuffle_i32x4::<0b11_01_11_01>(c, d);
            let columns = [
                _mm512_shuffle_i32x4::<0b10_00_10_00>(even_ab, even_cd),
                _mm512_shuffle_i32x4::<0b10_00_10_00>(odd_ab, odd_cd),
                _mm512_shuffle_i32x4::<0b11_01_11_01>(even_ab, even_cd),
                _mm512_shuffle_i32x4::<0b11_01_11_01>(odd_ab, odd_cd),
            ];
            for (fourth, &column) in columns.iter().enumerate() {
                _mm512_storeu_si512(square.add(4 * fourth + place), column);
            }
        }
    }
}
