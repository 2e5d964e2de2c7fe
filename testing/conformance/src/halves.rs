//! The nearest half of an `f64`, ties to even.
//!
//! `half::f16::from_f64` looks at the upper 32 bits of its argument only, and so takes what lies just beyond a tie
//! for the tie.

use half::{bf16, f16};

/// The nearest `f16`.
pub fn nearest_f16(value: f64) -> f16 {
    f16::from_f32_const(cut_to_odd(value))
}

/// The nearest `bf16`.
pub fn nearest_bf16(value: f64) -> bf16 {
    bf16::from_f32_const(cut_to_odd(value))
}

/// `value` cut to the length of an `f32`, the last bit set where that lost anything: it lies on the same side of
/// every tie between two halves.
fn cut_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if !near.is_finite() || f64::from(near) == value {
        return near;
    }
    let too_far = u32::from(f64::from(near).abs() > value.abs());
    f32::from_bits((near.to_bits() - too_far) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_just_beyond_a_tie_is_no_tie() {
        for bits in 0..0x7BFF_u16 {
            let (low, high) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let tie = (low.to_f64() + high.to_f64()) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            for (value, wanted) in [(tie.next_down(), low), (tie, even), (tie.next_up(), high)] {
                assert_eq!(nearest_f16(value), wanted, "{value}");
                assert_eq!(nearest_f16(-value), -wanted, "-{value}");
            }
        }
        for bits in 0..0x7F7F_u16 {
            let (low, high) = (bf16::from_bits(bits), bf16::from_bits(bits + 1));
            let tie = (low.to_f64() + high.to_f64()) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            for (value, wanted) in [(tie.next_down(), low), (tie, even), (tie.next_up(), high)] {
                assert_eq!(nearest_bf16(value), wanted, "{value}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert!(nearest_f16(f64::NAN).is_nan());
        assert_eq!(nearest_f16(65519.999), f16::MAX);
        assert_eq!(nearest_f16(65520.0), f16::INFINITY);
        assert_eq!(nearest_f16(1e300), f16::INFINITY);
        assert_eq!(nearest_f16(1e-300).to_bits(), 0);
        assert_eq!(nearest_bf16(f64::NEG_INFINITY), bf16::NEG_INFINITY);
        assert_eq!(nearest_bf16(f64::from(f32::MAX)), bf16::INFINITY);
    }
}
