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

    /// So many values of a normal distribution around 0, of deviation 1.
    pub fn normal(&mut self, count: usize) -> Vec<f32> {
        // By Box and Muller: an angle, and a length that is never that of 0.
        let mut uniform = || ((self.next() >> 40) as f32 + 0.5) / (1 << 24) as f32;
        let value = |_| {
            let length = (-2.0 * uniform().ln()).sqrt();
            length * (std::f32::consts::TAU * uniform()).cos()
        };
        (0..count).map(value).collect()
    }

    /// A time of an exponential distribution of mean 1: what lies between events that know nothing of each other.
    pub fn exponential(&mut self) -> f64 {
        let uniform = ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln()
    }

    /// So many whole numbers from 1 up to `most`.
    pub fn counting(&mut self, count: usize, most: u64) -> Vec<f32> {
        (0..count)
            .map(|_| (1 + self.next() % most) as f32)
            .collect()
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
        let normal = Noise::new(5).normal(10_000);
        let mean = normal.iter().sum::<f32>() / 1e4;
        let square = normal.iter().map(|x| x * x).sum::<f32>() / 1e4;
        assert!(
            mean.abs() < 0.03 && (square - 1.0).abs() < 0.05,
            "{mean}, {square}"
        );
        let counting = Noise::new(6).counting(1000, 7);
        assert!(counting.iter().all(|x| (1.0..=7.0).contains(x)));
        let integers = Noise::new(4).integers(1000);
        assert!(integers.iter().all(|x| x.abs() <= 4.0 && x.fract() == 0.0));
    }
}
