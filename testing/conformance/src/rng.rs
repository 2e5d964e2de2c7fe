//! Seeded random numbers: the same on every machine, so that a failure can be repeated.

/// SplitMix64.
pub struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let count = high.abs_diff(low).wrapping_add(1);
        match count {
            0 => self.bits() as i64,
            count => low.wrapping_add((self.bits() % count) as i64),
        }
    }

    /// A number in `low..high`.
    pub fn real(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.bits() >> 11) as f64 / (1u64 << 53) as f64;
        low + unit * (high - low)
    }

    /// Whether it happens, once in so many times.
    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_and_seeds_repeat() {
        let (mut one, mut two) = (Rng::new(7), Rng::new(7));
        for _ in 0..1000 {
            let n = one.between(-3, 5);
            assert!((-3..=5).contains(&n));
            assert_eq!(n, two.between(-3, 5));
            let x = one.real(-1.0, 2.0);
            assert!((-1.0..2.0).contains(&x));
            assert_eq!(x, two.real(-1.0, 2.0));
        }
        assert_ne!(Rng::new(1).bits(), Rng::new(2).bits());
    }
}
