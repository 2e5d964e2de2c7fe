//! Values that look random and are the same in every run.

/// A source of such values.
pub struct Noise(fastrand::Rng);

impl Noise {
    /// The source that belongs to `seed`.
    pub fn new(seed: u64) -> Noise {
        Noise(fastrand::Rng::with_seed(seed))
    }

    fn many<T>(&mut self, count: usize, mut one: impl FnMut(&mut fastrand::Rng) -> T) -> Vec<T> {
        (0..count).map(|_| one(&mut self.0)).collect()
    }

    /// So many values from −1 up to 1, each a multiple of 1/128: every float type holds them exactly.
    pub fn values(&mut self, count: usize) -> Vec<f32> {
        self.many(count, |rng| f32::from(rng.i8(..)) / 128.0)
    }

    /// So many values of a normal distribution around 0, of deviation 1.
    pub fn normal(&mut self, count: usize) -> Vec<f32> {
        // By Box and Muller: an angle, and a length that is never that of 0.
        self.many(count, |rng| {
            let length = (-2.0 * (1.0 - rng.f32()).ln()).sqrt();
            length * (std::f32::consts::TAU * rng.f32()).cos()
        })
    }

    /// So many whole numbers from 1 up to `most`.
    pub fn counting(&mut self, count: usize, most: u64) -> Vec<f32> {
        self.many(count, |rng| rng.u64(1..=most) as f32)
    }

    /// So many whole numbers from −4 to 4: sums of their products are exact in any order.
    pub fn integers(&mut self, count: usize) -> Vec<f32> {
        self.many(count, |rng| f32::from(rng.i8(-4..=4)))
    }

    /// The same things in another order.
    pub fn shuffled<T>(&mut self, mut things: Vec<T>) -> Vec<T> {
        self.0.shuffle(&mut things);
        things
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
