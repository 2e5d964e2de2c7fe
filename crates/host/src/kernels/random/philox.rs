//! Philox 4x32-10, many blocks at a time.

/// Places that are drawn at a time.
pub(super) const PLACES: usize = 64;
/// Blocks that are computed side by side.
const LANES: usize = 16;

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// The key, and what follows from it: that of each round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key([[u32; 2]; 10]);

impl Key {
    pub(super) fn of(seed: u64) -> Key {
        let first = [seed as u32, (seed >> 32) as u32];
        let part = |round: usize, part: usize| {
            first[part].wrapping_add(WEYL[part].wrapping_mul(round as u32))
        };
        Key(std::array::from_fn(|round| {
            [part(round, 0), part(round, 1)]
        }))
    }
}

/// The four words of each of `N` counters, given as their four words.
#[inline(always)]
pub(super) fn blocks<const N: usize>(key: &Key, counters: [[u32; N]; 4]) -> [[u32; N]; 4] {
    let [mut a, mut b, mut c, mut d] = counters;
    for [left_key, right_key] in key.0 {
        for lane in 0..N {
            let left = u64::from(a[lane]) * u64::from(MULTIPLIERS[0]);
            let right = u64::from(c[lane]) * u64::from(MULTIPLIERS[1]);
            a[lane] = (right >> 32) as u32 ^ b[lane] ^ left_key;
            c[lane] = (left >> 32) as u32 ^ d[lane] ^ right_key;
            b[lane] = right as u32;
            d[lane] = left as u32;
        }
    }
    [a, b, c, d]
}

/// What an element is made of: a word of 32 or of 64 bits.
pub(super) trait Word: Copy + Send + Sync + Default + 'static {
    /// The words of the places from `first` on, a multiple of [`PLACES`].
    fn words(key: &Key, first: u64) -> [Self; PLACES];
    /// The upper 32 bits.
    fn head(self) -> u32;
    /// The upper bits of the product with `range`: as evenly spread over it as words are.
    fn share(self, range: u64) -> u64;
}

/// The blocks from the one of this number on.
#[inline(always)]
fn run_of_blocks(key: &Key, first: u64, third: u32) -> [[u32; LANES]; 4] {
    // A run begins at a multiple of its length: the upper half is the same for all of it.
    let low: [u32; LANES] = std::array::from_fn(|lane| (first as u32).wrapping_add(lane as u32));
    let counters = [
        low,
        [(first >> 32) as u32; LANES],
        [third; LANES],
        [0; LANES],
    ];
    blocks(key, counters)
}

impl Word for u32 {
    #[inline(always)]
    fn words(key: &Key, first: u64) -> [u32; PLACES] {
        let [a, b, c, d] = run_of_blocks(key, first / 4, 0);
        let mut words = [0; PLACES];
        for lane in 0..LANES {
            words[4 * lane] = a[lane];
            words[4 * lane + 1] = b[lane];
            words[4 * lane + 2] = c[lane];
            words[4 * lane + 3] = d[lane];
        }
        words
    }

    #[inline(always)]
    fn head(self) -> u32 {
        self
    }

    #[inline(always)]
    fn share(self, range: u64) -> u64 {
        let word = u64::from(self);
        word * (range >> 32) + ((word * (range & 0xffff_ffff)) >> 32)
    }
}

impl Word for u64 {
    #[inline(always)]
    fn words(key: &Key, first: u64) -> [u64; PLACES] {
        let mut words = [0; PLACES];
        let (runs, _) = words.as_chunks_mut::<{ 2 * LANES }>();
        for (number, run) in runs.iter_mut().enumerate() {
            let [a, b, c, d] = run_of_blocks(key, first / 2 + (number * LANES) as u64, 1);
            for lane in 0..LANES {
                run[2 * lane] = u64::from(a[lane]) | u64::from(b[lane]) << 32;
                run[2 * lane + 1] = u64::from(c[lane]) | u64::from(d[lane]) << 32;
            }
        }
        words
    }

    #[inline(always)]
    fn head(self) -> u32 {
        (self >> 32) as u32
    }

    #[inline(always)]
    fn share(self, range: u64) -> u64 {
        ((u128::from(self) * u128::from(range)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
        let key = Key::of(u64::from(key[0]) | u64::from(key[1]) << 32);
        blocks(&key, counter.map(|word| [word])).map(|[word]| word)
    }

    /// The vectors that the authors publish.
    #[test]
    fn known_answers() {
        assert_eq!(
            block([0; 2], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            block([u32::MAX; 2], [u32::MAX; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            block(
                [0xa409_3822, 0x299f_31d0],
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn words_are_those_of_the_counters() {
        let seed = 0x0123_4567_89ab_cdef;
        let key = [0x89ab_cdef, 0x0123_4567];
        for first in [0, 64, 1 << 34, u64::MAX - 63] {
            let short = u32::words(&Key::of(seed), first);
            let long = u64::words(&Key::of(seed), first);
            for place in 0..PLACES {
                let q = first + place as u64;
                let counter = |number: u64, third| [number as u32, (number >> 32) as u32, third, 0];
                let words = block(key, counter(q / 4, 0));
                assert_eq!(short[place], words[(q % 4) as usize], "{q}");
                let words = block(key, counter(q / 2, 1));
                let at = 2 * (q % 2) as usize;
                assert_eq!(
                    long[place],
                    u64::from(words[at]) | u64::from(words[at + 1]) << 32,
                    "{q}"
                );
            }
        }
    }

    #[test]
    fn shares_are_the_upper_bits_of_products() {
        for word in [0, 1, 0x8000_0000, 0xffff_ffffu32] {
            for range in [1, 2, 0xffff_ffff, 1 << 32, u64::MAX] {
                let exact = (u128::from(word) * u128::from(range)) >> 32;
                assert_eq!(u128::from(word.share(range)), exact);
            }
        }
    }
}
