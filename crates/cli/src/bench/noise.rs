//! Values that look random and are the same in every run.

/// A source of such values.
pub struct Noise(u64);

impl Noise {
    /// The source that belongs to `seed`.
    pub fn new(seed: u64) -> Noise {
        Noise(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// So many values from −1 up to 1, each a multiple of 1/128: every float type holds them exactly.
    pub fn values(&mut self, count: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            let bytes = self.next().to_le_bytes();
            let left = count - values.len();
            values.extend(
                bytes
                    .iter()
                    .take(left)
                    .map(|&byte| f32::from(byte as i8) / 128.0),
            );
        }
        values
    }

    /// So many whole numbers from −4 to 4: sums of their products are exact in any order.
    pub fn integers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() % 9) as f32 - 4.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_and_values_spread() {
        assert_ne!(Noise::new(1).values(64), Noise::new(2).values(64));
        let values = Noise::new(3).values(10_001);
        assert_eq!(values.len(), 10_001);
        assert!(values.iter().all(|x| (-1.0..1.0).contains(x)));
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.03, "{mean}");
        let integers = Noise::new(4).integers(1000);
        assert!(integers.iter().all(|x| x.abs() <= 4.0 && x.fract() == 0.0));
    }
}
