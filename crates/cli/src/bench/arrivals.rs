//! When requests arrive that nobody holds back: a Poisson process, the same in every run.

use std::time::Duration;

use crate::noise::Noise;

const SEED: u64 = 22;

/// Arrivals at a rate, for some time: how long after the begin each is.
pub struct Arrivals {
    noise: Noise,
    /// Seconds between two, on average.
    mean: f64,
    next: f64,
    end: f64,
}

impl Arrivals {
    /// So many each second on average, for this long.
    pub fn new(per_second: f64, time: Duration) -> Arrivals {
        let mut arrivals = Arrivals {
            noise: Noise::new(SEED),
            mean: 1.0 / per_second,
            next: 0.0,
            end: time.as_secs_f64(),
        };
        arrivals.step();
        arrivals
    }

    fn step(&mut self) {
        self.next += self.noise.exponential() * self.mean;
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let next = (self.next < self.end).then(|| Duration::from_secs_f64(self.next));
        if next.is_some() {
            self.step();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds between arrivals.
    fn gaps(rate: f64, seconds: u64) -> Vec<f64> {
        let arrivals: Vec<Duration> = Arrivals::new(rate, Duration::from_secs(seconds)).collect();
        let pairs = arrivals.windows(2);
        pairs
            .map(|pair| (pair[1] - pair[0]).as_secs_f64())
            .collect()
    }

    #[test]
    fn they_come_at_the_rate_and_end_in_time() {
        let count = Arrivals::new(250.0, Duration::from_secs(400)).count() as f64;
        // The deviation of a count is its root.
        assert!((count - 1e5).abs() < 3.0 * 1e5_f64.sqrt(), "{count}");
        let last = Arrivals::new(250.0, Duration::from_secs(4)).last();
        assert!(last < Some(Duration::from_secs(4)), "{last:?}");
    }

    #[test]
    fn what_lies_between_is_exponential() {
        let mut gaps = gaps(1000.0, 100);
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        assert!((mean * 1000.0 - 1.0).abs() < 0.01, "{mean}");
        // By Kolmogorov and Smirnov: how far the part that is shorter is from what it should be.
        gaps.sort_by(f64::total_cmp);
        let apart = gaps.iter().enumerate().map(|(rank, gap)| {
            let expected = 1.0 - (-gap * 1000.0).exp();
            ((rank as f64 + 0.5) / count - expected).abs()
        });
        let farthest = apart.fold(0.0, f64::max);
        assert!(farthest < 1.63 / count.sqrt(), "{farthest} of {count}");
    }

    #[test]
    fn a_gap_says_nothing_of_the_next() {
        let gaps = gaps(1000.0, 100);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let products = gaps
            .windows(2)
            .map(|pair| (pair[0] - mean) * (pair[1] - mean));
        let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let correlation = products.sum::<f64>() / squares;
        assert!(correlation.abs() < 0.01, "{correlation}");
    }

    #[test]
    fn they_are_the_same_in_every_run() {
        let few = || Arrivals::new(10.0, Duration::from_secs(5)).collect::<Vec<_>>();
        assert_eq!(few(), few());
    }
}
