//! How long many calls took, and what that says of the slowest.

use std::time::{Duration, Instant};

use serde::Serialize;

/// A percentile stands for something where so many calls took longer than it.
const BEYOND: f64 = 2.0;

/// The times of calls, the shortest first.
pub struct Latencies(Vec<Duration>);

/// What they come to, in seconds; what too few calls stand behind is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Percentiles {
    /// Half took no longer.
    pub p50: Option<f64>,
    /// Nine in ten.
    pub p90: Option<f64>,
    /// 99 in 100.
    pub p99: Option<f64>,
    /// 999 in 1,000.
    pub p99_9: Option<f64>,
    /// None took longer.
    pub max: Option<f64>,
}

/// How long each of as many calls as fill `time` took: one at least.
pub fn again_and_again<E>(
    time: Duration,
    mut call: impl FnMut() -> Result<(), E>,
) -> Result<Vec<Duration>, E> {
    let mut times = Vec::new();
    let begin = Instant::now();
    loop {
        let started = Instant::now();
        call()?;
        let ended = Instant::now();
        times.push(ended - started);
        if ended - begin >= time {
            return Ok(times);
        }
    }
}

impl Latencies {
    /// These, in any order.
    pub fn new(mut times: Vec<Duration>) -> Latencies {
        times.sort_unstable();
        Latencies(times)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// This part of them took no longer; nothing, where there are none.
    pub fn at(&self, part: f64) -> Duration {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        let place = rank.clamp(1, self.0.len().max(1)) - 1;
        self.0.get(place).copied().unwrap_or_default()
    }

    /// Those that there are enough calls for.
    pub fn percentiles(&self) -> Percentiles {
        let at = |part: f64, beyond: f64| {
            let beyond_it = self.0.len() as f64 * (1.0 - part);
            // What is a whole number may be a little less as the product of two others.
            let stands = !self.0.is_empty() && beyond_it + 1e-6 >= beyond;
            stands.then(|| self.at(part).as_secs_f64())
        };
        Percentiles {
            p50: at(0.5, BEYOND),
            p90: at(0.9, BEYOND),
            p99: at(0.99, BEYOND),
            p99_9: at(0.999, BEYOND),
            max: at(1.0, 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(most: u64) -> Latencies {
        Latencies::new((1..=most).rev().map(Duration::from_secs).collect())
    }

    #[test]
    fn a_part_took_no_longer() {
        let latencies = counting(1000);
        let at = |part| latencies.at(part).as_secs();
        assert_eq!(
            [at(0.5), at(0.99), at(0.999), at(1.0)],
            [500, 990, 999, 1000]
        );
        assert_eq!(counting(1).at(0.5).as_secs(), 1);
        assert_eq!(counting(0).at(0.99), Duration::ZERO);
    }

    #[test]
    fn what_few_calls_say_little_about_is_absent() {
        let known = |most| {
            let all = counting(most).percentiles();
            [all.p50, all.p90, all.p99, all.p99_9, all.max].map(|value| value.is_some())
        };
        assert_eq!(known(0), [false; 5]);
        assert_eq!(known(3), [false, false, false, false, true]);
        assert_eq!(known(100), [true, true, false, false, true]);
        assert_eq!(known(200), [true, true, true, false, true]);
        assert_eq!(known(1999), [true, true, true, false, true]);
        assert_eq!(known(2000), [true; 5]);
        assert_eq!(counting(200).percentiles().p99, Some(198.0));
    }
}
