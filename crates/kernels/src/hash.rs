//! A quick hash for keys made of many small fields.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Hashes each word with one multiplication: several times faster than the standard hasher on keys such as
/// expressions, which feed it dozens of small integers. It begins from a random seed, but does not resist
/// somebody who can measure it; a cache survives colliding keys, only slower.
#[derive(Debug, Clone)]
pub struct KeyHasher(u64);

/// Makes hashers that begin from one seed.
#[derive(Debug, Clone)]
pub(crate) struct Seed(u64);

impl Seed {
    pub fn random() -> Seed {
        Seed(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for Seed {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher::with_seed(self.0)
    }
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl KeyHasher {
    /// A hasher that begins from `seed`.
    pub fn with_seed(seed: u64) -> Self {
        KeyHasher(seed)
    }

    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for KeyHasher {
    #[inline]
    fn finish(&self) -> u64 {
        let product = u128::from(self.0) * u128::from(FACTOR);
        product as u64 ^ (product >> 64) as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            // The length keeps trailing zeros apart from padding.
            self.mix(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }
}

/// FNV-1a over 128 bits: names files. Two keys with one name only cost each other their place on disk.
pub(crate) fn fnv128(parts: &[&[u8]]) -> u128 {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in parts.iter().copied().flatten() {
        hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_keys_get_distant_hashes() {
        let hash = |value: u64| {
            let mut hasher = KeyHasher::with_seed(7);
            hasher.write_u64(value);
            hasher.finish()
        };
        let mut low = std::collections::HashSet::new();
        let mut high = std::collections::HashSet::new();
        for value in 0..4096 {
            low.insert(hash(value) & 0xffff);
            high.insert(hash(value) >> 48);
        }
        // 4096 random draws from 65536 give about 3970 different values.
        assert!(
            low.len() > 3500 && high.len() > 3500,
            "{} {}",
            low.len(),
            high.len()
        );
    }

    #[test]
    fn length_and_order_count() {
        let hash = |bytes: &[u8]| {
            let mut hasher = KeyHasher::with_seed(1);
            hasher.write(bytes);
            hasher.finish()
        };
        assert_ne!(hash(b"ab"), hash(b"ba"));
        assert_ne!(hash(b"a"), hash(b"a\0"));
        assert_ne!(hash(b"12345678"), hash(b"123456780"));
    }

    #[test]
    fn fnv_matches_its_published_vectors() {
        assert_eq!(fnv128(&[]), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(fnv128(&[b"a"]), 0xd228cb696f1a8caf78912b704e4a8964);
        assert_eq!(
            fnv128(&[b"foo", b"bar"]),
            0x343e1662793c64bf6f0d3597ba446f18
        );
    }
}
