//! When requests come.

use crate::random::Random;

/// When requests come. Rates are of all together, a second; times are seconds.
#[derive(Debug, Clone)]
pub enum Arrivals {
    /// Independently of each other.
    Poisson {
        /// How many a second.
        rate: f64,
    },
    /// In bursts: `factor` times the mean rate for `burst` seconds at a time on average, and less in between, so that the mean is `rate`.
    Bursty {
        /// How many a second, on average.
        rate: f64,
        /// How many times as many come in a burst.
        factor: f64,
        /// How long a burst is.
        burst: f64,
        /// The part of the time that is bursts.
        part: f64,
    },
    /// As by day and night: from `1 - swing` times the mean to `1 + swing` times, once in `period`.
    Diurnal {
        /// How many a second, on average.
        rate: f64,
        /// How much it goes up and down, from 0 to 1.
        swing: f64,
        /// How long a day is.
        period: f64,
    },
    /// At these times, which rise.
    Trace(Vec<f64>),
}

/// When each of the arrivals comes, in seconds, one after the other. Only a trace ends.
pub struct ArrivalTimes {
    of: Arrivals,
    random: Random,
    now: f64,
    /// Whether a burst is on, and until when it is as it is.
    burst: (bool, f64),
    next: usize,
}

impl ArrivalTimes {
    /// Those of this kind.
    pub fn new(of: Arrivals, seed: u64) -> ArrivalTimes {
        ArrivalTimes {
            of,
            random: Random::new(seed),
            now: 0.0,
            burst: (false, 0.0),
            next: 0,
        }
    }
}

impl Iterator for ArrivalTimes {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        match &self.of {
            Arrivals::Poisson { rate } => self.now += self.random.exponential(1.0 / rate),
            Arrivals::Diurnal {
                rate,
                swing,
                period,
            } => {
                let most = rate * (1.0 + swing);
                // Of arrivals at the highest rate, so many are kept as the rate of the time of day is of that.
                loop {
                    self.now += self.random.exponential(1.0 / most);
                    let turn = std::f64::consts::TAU * self.now / period;
                    if self.random.part() * (1.0 + swing) < 1.0 - swing * turn.cos() {
                        break;
                    }
                }
            }
            Arrivals::Bursty {
                rate,
                factor,
                burst,
                part,
            } => loop {
                let rate = match self.burst.0 {
                    true => rate * factor,
                    false => rate * (1.0 - part * factor).max(0.0) / (1.0 - part),
                };
                let (now, until) = (self.now, self.burst.1);
                let next = now + self.random.exponential(1.0 / rate);
                if next < until {
                    self.now = next;
                    break;
                }
                // What comes after a change of the rate is drawn anew: it has no memory.
                self.now = until;
                let on = !self.burst.0;
                let mean = if on {
                    *burst
                } else {
                    burst * (1.0 - part) / part
                };
                self.burst = (on, until + self.random.exponential(mean));
            },
            Arrivals::Trace(times) => {
                self.now = *times.get(self.next)?;
                self.next += 1;
            }
        }
        Some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(of: Arrivals, seconds: f64) -> f64 {
        let mut times = ArrivalTimes::new(of, 1);
        let mut count = 0;
        while times.next().is_some_and(|at| at < seconds) {
            count += 1;
        }
        f64::from(count) / seconds
    }

    #[test]
    fn every_kind_has_its_mean_rate() {
        let rate_is = |of, wanted: f64| {
            let got = rate(of, 2000.0);
            assert!((got / wanted - 1.0).abs() < 0.03, "{got} for {wanted}");
        };
        rate_is(Arrivals::Poisson { rate: 50.0 }, 50.0);
        let (swing, period) = (0.8, 100.0);
        rate_is(
            Arrivals::Diurnal {
                rate: 50.0,
                swing,
                period,
            },
            50.0,
        );
        let (factor, burst, part) = (4.0, 0.5, 0.1);
        rate_is(
            Arrivals::Bursty {
                rate: 50.0,
                factor,
                burst,
                part,
            },
            50.0,
        );
        rate_is(Arrivals::Trace((0..1000).map(f64::from).collect()), 0.5);
    }

    /// Seconds between arrivals.
    fn gaps(rate: f64, count: usize) -> Vec<f64> {
        let times = ArrivalTimes::new(Arrivals::Poisson { rate }, 22).take(count + 1);
        let times: Vec<f64> = times.collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn what_lies_between_is_exponential() {
        let mut gaps = gaps(1000.0, 100_000);
        let count = gaps.len() as f64;
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
        let gaps = gaps(1000.0, 100_000);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let pairs = gaps.windows(2);
        let products = pairs.map(|pair| (pair[0] - mean) * (pair[1] - mean));
        let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let correlation = products.sum::<f64>() / squares;
        assert!(correlation.abs() < 0.01, "{correlation}");
    }
}
