//! Functions of one byte: tables of all values.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use streampool_device::DType;

#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::{Level, level};

/// The values of a byte.
pub(super) const VALUES: usize = 256;

/// What is made of each.
#[derive(Debug, Clone)]
pub(super) enum Table {
    Bytes(Box<[u8; VALUES]>),
    Floats(Box<[f32; VALUES]>),
}

/// Roughly how long one element takes, in picoseconds.
pub(super) const COST: usize = 500;

/// Whether functions of these types that take so long, in so many instructions, are faster as tables. Truth values are never but two.
pub(super) fn gain(input: DType, output: DType, cost: usize, instructions: usize) -> bool {
    let is_byte = |dtype| matches!(dtype, DType::I8 | DType::U8);
    let is_slow = match output {
        DType::F32 => cost > 2 * COST,
        _ => is_byte(output) && instructions > 1,
    };
    is_byte(input) && is_slow
}

impl Table {
    /// One of elements of this type, by their bits.
    pub(super) fn of(bits: &[u64; VALUES], output: DType) -> Table {
        match output {
            DType::F32 => Table::Floats(Box::new(bits.map(|bits| f32::from_bits(bits as u32)))),
            _ => Table::Bytes(Box::new(bits.map(|bits| bits as u8))),
        }
    }

    /// Writes what is made of so many bytes.
    ///
    /// # Safety
    /// They can be read, and as many elements be written; neither overlaps the other, unless it is the same.
    pub(super) unsafe fn look_up(&self, from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: passed on from the caller.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Table::Bytes(table)
                    if level() == Level::Avx512 && is_x86_feature_detected!("avx512vbmi") =>
                {
                    permuted(table, from, to, count);
                }
                Table::Bytes(table) => one_by_one(table, from, to, count),
                Table::Floats(table) => one_by_one(table, from, to.cast(), count),
            }
        }
    }
}

/// # Safety
/// As for [`Table::look_up`].
unsafe fn one_by_one<T: Copy>(table: &[T; VALUES], from: *const u8, to: *mut T, count: usize) {
    for index in 0..count {
        // SAFETY: passed on from the caller.
        unsafe { *to.add(index) = table[usize::from(*from.add(index))] };
    }
}

/// As [`Table::look_up`], 64 at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn permuted(table: &[u8; VALUES], from: *const u8, to: *mut u8, count: usize) {
    const AT_ONCE: usize = 64;
    // SAFETY: the table is four vectors long; of the last bytes, the mask names those that are there.
    unsafe {
        let [first, second, third, fourth] = [
            _mm512_loadu_epi8(table.as_ptr().cast()),
            _mm512_loadu_epi8(table.as_ptr().add(AT_ONCE).cast()),
            _mm512_loadu_epi8(table.as_ptr().add(2 * AT_ONCE).cast()),
            _mm512_loadu_epi8(table.as_ptr().add(3 * AT_ONCE).cast()),
        ];
        for index in (0..count).step_by(AT_ONCE) {
            let mask = u64::MAX >> AT_ONCE.saturating_sub(count - index);
            let bytes = _mm512_maskz_loadu_epi8(mask, from.add(index).cast());
            let low = _mm512_permutex2var_epi8(first, bytes, second);
            let high = _mm512_permutex2var_epi8(third, bytes, fourth);
            let results = _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high);
            _mm512_mask_storeu_epi8(to.add(index).cast(), mask, results);
        }
    }
}
