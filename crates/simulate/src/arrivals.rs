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

/// Arrivals, one after the other.
pub struct Stream {
    of: Arrivals,
    random: Random,
    now: f64,
    /// Whether a burst is on, and until when it is as it is.
    burst: (bool, f64),
    next: usize,
}

impl Stream {
    /// Those of this kind.
    pub fn new(of: Arrivals, seed: u64) -> Stream {
        Stream {
            of,
            random: Random::new(seed),
            now: 0.0,
            burst: (false, 0.0),
            next: 0,
        }
    }
}

/// When each comes. Only a trace ends.
impl Iterator for Stream {
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
        let mut stream = Stream::new(of, 1);
        let mut count = 0;
        while stream.next().is_some_and(|at| at < seconds) {
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
}
