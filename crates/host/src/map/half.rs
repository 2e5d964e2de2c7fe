//! Halves to `f32` and back as straight-line integer code, which compilers vectorise; the same bits that
//! conversion instructions give.

/// A stored half as `f32`, exactly.
#[inline(always)]
pub(super) fn load_f16(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff);
    let normal = (magnitude << 13).wrapping_add(0x3800_0000);
    let subnormal = (magnitude as i32 as f32 * 2f32.powi(-24)).to_bits();
    let quiet = if magnitude > 0x7c00 { 0x40_0000 } else { 0 };
    let special = magnitude << 13 | 0x7f80_0000 | quiet;
    let bits = if magnitude < 0x400 { subnormal } else { normal };
    let bits = if magnitude >= 0x7c00 { special } else { bits };
    f32::from_bits(bits | u32::from(half & 0x8000) << 16)
}

/// The nearest half, ties to even.
#[inline(always)]
pub(super) fn store_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let rounded = magnitude.wrapping_add(0xfff + (magnitude >> 13 & 1));
    let normal = rounded.wrapping_sub(0x3800_0000) >> 13;
    // One half's last place is the smallest half, so this addition rounds to it.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
    let half = if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let half = if rounded >= 0x4780_0000 { 0x7c00 } else { half };
    let half = if magnitude > 0x7f80_0000 { nan } else { half };
    (half | bits >> 16 & 0x8000) as u16
}

/// A stored brain float as `f32`, exactly.
#[inline(always)]
pub(super) fn load_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// The nearest brain float, ties to even.
#[inline(always)]
pub(super) fn store_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let nan = bits | 0x40_0000;
    ((if value.is_nan() { nan } else { rounded }) >> 16) as u16
}

/// `f64` to `f32`, rounded to odd: what is inexact gets a last bit of one. Rounding the result again, to a
/// type with at least two bits less, gives what rounding at once would have given.
#[inline(always)]
pub(super) fn narrow_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    let truncated = if back.abs() > value.abs() {
        bits.wrapping_sub(1)
    } else {
        bits
    };
    let exact = back == value || value.is_nan();
    f32::from_bits(if exact { bits } else { truncated | 1 })
}

/// `i64` to `f64`, rounded to odd.
#[inline(always)]
pub(super) fn widen_odd(value: i64) -> f64 {
    let sticky = if value & 0x7ff != 0 { 0x800 } else { 0 };
    let short = (value & !0x7ff | sticky) as f64;
    if value.unsigned_abs() < 1 << 53 {
        value as f64
    } else {
        short
    }
}

/// `u64` to `f64`, rounded to odd.
#[inline(always)]
pub(super) fn widen_odd_unsigned(value: u64) -> f64 {
    let sticky = if value & 0x7ff != 0 { 0x800 } else { 0 };
    let short = (value & !0x7ff | sticky) as f64;
    if value < 1 << 53 { value as f64 } else { short }
}

#[cfg(test)]
mod tests {
    use super::super::lane::Half;
    use super::*;

    fn round(half: Half, value: f32) -> f32 {
        match half {
            Half::F16 => load_f16(store_f16(value)),
            Half::BF16 => load_bf16(store_bf16(value)),
        }
    }

    fn same(ours: f32, theirs: f32) -> bool {
        ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan()
    }

    #[test]
    fn every_half_loads_and_comes_back() {
        for bits in 0..=u16::MAX {
            assert!(
                same(load_f16(bits), half::f16::from_bits(bits).to_f32()),
                "{bits:x}"
            );
            assert!(
                same(load_bf16(bits), half::bf16::from_bits(bits).to_f32()),
                "{bits:x}"
            );
            if !load_f16(bits).is_nan() {
                assert_eq!(store_f16(load_f16(bits)), bits);
            }
            if !load_bf16(bits).is_nan() {
                assert_eq!(store_bf16(load_bf16(bits)), bits);
            }
        }
    }

    #[test]
    fn storing_rounds_to_nearest_even() {
        let near = |bits: u32| [bits.wrapping_sub(1), bits, bits.wrapping_add(1)];
        // Around every point half way between two halves, of either kind.
        for step in 0..=u32::MAX >> 12 {
            for bits in near(step << 12) {
                let value = f32::from_bits(bits);
                if value.is_nan() {
                    assert!(
                        load_f16(store_f16(value)).is_nan()
                            && load_bf16(store_bf16(value)).is_nan()
                    );
                    continue;
                }
                assert_eq!(
                    store_f16(value),
                    half::f16::from_f32(value).to_bits(),
                    "{bits:x}"
                );
                assert_eq!(
                    store_bf16(value),
                    half::bf16::from_f32(value).to_bits(),
                    "{bits:x}"
                );
            }
        }
    }

    #[test]
    fn rounding_twice_through_odd_is_rounding_once() {
        // Just above a tie of f16: a first rounding to nearest would lose the difference.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(round(Half::F16, above as f32), 1.0);
        assert_eq!(round(Half::F16, narrow_odd(above)), 1.0 + 2f32.powi(-10));
        assert_eq!(
            round(
                Half::BF16,
                narrow_odd(-1.0 - 2f64.powi(-8) - 2f64.powi(-50))
            ),
            -1.0 - 2f32.powi(-7)
        );
        assert_eq!(round(Half::F16, narrow_odd(1e300)), f32::INFINITY);
        assert_eq!(
            round(Half::F16, narrow_odd(-1e-300)).to_bits(),
            (-0.0f32).to_bits()
        );
        assert!(narrow_odd(f64::NAN).is_nan());
        let tie = (1i64 << 62) + (1 << 54);
        assert_eq!(round(Half::BF16, narrow_odd(widen_odd(tie))), 2f32.powi(62));
        assert_eq!(
            round(Half::BF16, narrow_odd(widen_odd(tie + 1))),
            2f32.powi(62) + 2f32.powi(55)
        );
        assert_eq!(widen_odd(i64::MIN), i64::MIN as f64);
        assert_eq!(widen_odd(-5), -5.0);
    }
}
