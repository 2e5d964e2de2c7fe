//! Elements as keys: unsigned numbers in the wanted order.

use half::{bf16, f16};

use crate::kernels::convert::{Native, Truth};

/// An element that can be ordered.
pub(super) trait Key: Native {
    /// How many bytes its keys have.
    const BYTES: usize = size_of::<Self>();
    /// The key. NaN comes behind everything, and zero is zero whatever its sign.
    fn rising(self) -> u64;

    /// The key in a rising or falling order.
    #[inline(always)]
    fn key(self, descending: bool) -> u64 {
        let key = self.rising();
        if descending {
            key ^ (u64::MAX >> (64 - 8 * Self::BYTES))
        } else {
            key
        }
    }
}

/// A key and, for what is equal in it, a place.
pub(super) trait Ranked: Copy + Ord + Send + Sync {
    /// Comes behind everything.
    const LAST: Self;
    /// A key and its place, both of which fit.
    fn new(key: u64, place: usize) -> Self;
    /// The place.
    fn place(&self) -> usize;
    /// A byte of the key, from its lowest on.
    fn byte(self, number: usize) -> u8;
}

macro_rules! ranked {
    ($($type:ty, $shift:literal;)*) => {$(
        impl Ranked for $type {
            const LAST: Self = <$type>::MAX;

            #[inline(always)]
            fn new(key: u64, place: usize) -> Self {
                <$type>::from(key) << $shift | place as $type
            }

            #[inline(always)]
            fn place(&self) -> usize {
                (*self & ((1 << $shift) - 1)) as usize
            }

            #[inline(always)]
            fn byte(self, number: usize) -> u8 {
                (self >> ($shift + 8 * number)) as u8
            }
        }
    )*};
}

ranked! {
    u64, 32;
    u128, 64;
}

macro_rules! integers {
    ($($type:ty as $bits:ty;)*) => {$(
        impl Key for $type {
            #[inline(always)]
            fn rising(self) -> u64 {
                // Signed numbers begin in the middle.
                u64::from((self as $bits) ^ (<$type>::MIN as $bits))
            }
        }
    )*};
}

integers! {
    i8 as u8;
    u8 as u8;
    i16 as u16;
    u16 as u16;
    i32 as u32;
    u32 as u32;
    i64 as u64;
    u64 as u64;
}

impl Key for Truth {
    #[inline(always)]
    fn rising(self) -> u64 {
        u64::from(self.get())
    }
}

macro_rules! floats {
    ($($type:ty as $bits:ty, $infinity:expr;)*) => {$(
        impl Key for $type {
            #[inline(always)]
            fn rising(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                let magnitude = bits & !SIGN;
                let key = if magnitude > $infinity {
                    <$bits>::MAX
                } else if bits == magnitude || magnitude == 0 {
                    magnitude | SIGN
                } else {
                    !bits
                };
                u64::from(key)
            }
        }
    )*};
}

floats! {
    f32 as u32, f32::INFINITY.to_bits();
    f64 as u64, f64::INFINITY.to_bits();
    f16 as u16, f16::INFINITY.to_bits();
    bf16 as u16, bf16::INFINITY.to_bits();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_rise_with_the_values() {
        let rising = [
            f32::NEG_INFINITY,
            -2.0,
            -f32::MIN_POSITIVE,
            0.0,
            1e-40,
            1.0,
            f32::INFINITY,
            f32::NAN,
        ];
        for pair in rising.windows(2) {
            assert!(pair[0].rising() < pair[1].rising(), "{pair:?}");
            assert!(pair[0].key(true) > pair[1].key(true), "{pair:?}");
        }
        assert_eq!((-0.0f64).rising(), 0.0f64.rising());
        assert_eq!((-f32::NAN).rising(), f32::NAN.rising());
        assert!(i8::MIN.rising() < (-1i8).rising() && (-1i8).rising() < 0i8.rising());
        assert!(0u64.rising() < u64::MAX.rising());
        assert_eq!(Truth(7).rising(), Truth(1).rising());
        assert_eq!(u8::MAX.key(true), 0);
    }

    #[test]
    fn equal_keys_are_ranked_by_their_places() {
        let ranked = <u128 as Ranked>::new(u64::MAX, 5);
        assert!(ranked > <u128 as Ranked>::new(u64::MAX, 4));
        assert_eq!((ranked.place(), ranked.byte(7)), (5, 255));
        assert_eq!(<u64 as Ranked>::new(0x1234_5678, 9).byte(1), 0x56);
    }
}
