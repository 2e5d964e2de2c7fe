//! How long a batch takes: learned from what `streampool bench model --json` measured, or from the times of single batches.

use serde::Deserialize;

use crate::random::Random;

/// How long batches take, by their rows. Between the sizes that are known it goes in a straight line, and beyond the last as from the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Rows, and how long batches of so many take. Rows rise.
    sizes: Vec<(f64, Times)>,
}

/// How long batches of one size take, in seconds.
#[derive(Debug, Clone, PartialEq)]
enum Times {
    /// Half take no longer than the median, and 99 in 100 no longer than the other; what takes longer does exponentially.
    Spread(f64, f64),
    /// As these did, which rise.
    Samples(Vec<f64>),
}

impl Times {
    /// What this part of batches takes no longer than.
    fn quantile(&self, part: f64) -> f64 {
        match self {
            Times::Spread(median, _) if part < 0.5 => *median,
            // Above the median, time goes on so that one in fifty of those is beyond `late`.
            Times::Spread(median, late) => {
                median + (late - median) * (2.0 * (1.0 - part)).ln() / (0.02f64).ln()
            }
            Times::Samples(rising) => {
                let place = (part * rising.len() as f64) as usize;
                rising.get(place).or(rising.last()).copied().unwrap_or(0.0)
            }
        }
    }

    /// Whether they can be drawn from. Samples are put in order.
    fn are_good(&mut self) -> bool {
        let is_time = |seconds: &f64| *seconds > 0.0 && seconds.is_finite();
        match self {
            Times::Spread(median, late) => {
                *late = late.max(*median);
                is_time(median) && is_time(late)
            }
            Times::Samples(times) => {
                times.sort_by(f64::total_cmp);
                !times.is_empty() && times.iter().all(is_time)
            }
        }
    }
}

/// What is read of the file.
#[derive(Deserialize)]
struct Measured {
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    via: String,
    threads: usize,
    rows: usize,
    #[serde(default)]
    latency_seconds: Latency,
    /// The seconds of single batches, where somebody has measured them.
    #[serde(default)]
    samples: Vec<f64>,
}

#[derive(Deserialize, Default)]
struct Latency {
    p50: Option<f64>,
    p99: Option<f64>,
}

impl Cost {
    /// So many seconds for a batch of any size.
    pub fn one(seconds: f64) -> Cost {
        let times = || Times::Spread(seconds.max(1e-9), seconds.max(1e-9));
        Cost {
            sizes: vec![(1.0, times()), (2.0, times())],
        }
    }

    /// These seconds for these rows, always the same.
    pub fn fixed(sizes: &[(usize, f64)]) -> Result<Cost, String> {
        Cost::of(
            sizes
                .iter()
                .map(|&(rows, seconds)| (rows as f64, Times::Spread(seconds, seconds))),
        )
    }

    /// What a report of `bench model --json` says of batches: of the points where as many threads as `lanes`, or else the fewest, run the
    /// model for themselves.
    pub fn from_bench(json: &str, lanes: usize) -> Result<Cost, String> {
        let measured: Measured = serde_json::from_str(json).map_err(|error| {
            format!("it is no report of `streampool bench model --json`: {error}")
        })?;
        let alone = || {
            measured
                .points
                .iter()
                .filter(|point| point.via == "threads")
        };
        let threads = alone().map(|point| point.threads);
        let exact = threads.clone().find(|&threads| threads == lanes);
        let threads = exact
            .or(threads.min())
            .ok_or("it has no points of threads")?;
        let points = measured.points.into_iter();
        let points = points.filter(|point| point.via == "threads" && point.threads == threads);
        Cost::of(points.filter_map(|point| {
            let times = match point.samples.is_empty() {
                false => Times::Samples(point.samples),
                true => {
                    let median = point.latency_seconds.p50?;
                    Times::Spread(median, point.latency_seconds.p99.unwrap_or(median))
                }
            };
            Some((point.rows as f64, times))
        }))
    }

    fn of(sizes: impl Iterator<Item = (f64, Times)>) -> Result<Cost, String> {
        let mut sizes: Vec<(f64, Times)> = sizes.collect();
        sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
        sizes.dedup_by(|one, other| one.0 == other.0);
        let mut all = sizes.iter_mut();
        match all.len() > 0 && all.all(|(rows, times)| *rows >= 1.0 && times.are_good()) {
            true => Ok(Cost { sizes }),
            false => Err(
                "it says of no size of batches how long they take, or a time that is not positive"
                    .to_owned(),
            ),
        }
    }

    /// What this part of batches of so many rows takes no longer than.
    fn quantile(&self, rows: usize, part: f64) -> f64 {
        let rows = rows as f64;
        let after = self.sizes.partition_point(|&(known, _)| known < rows);
        let last = self.sizes.len() - 1;
        let (one, two) = match after {
            0 => (&self.sizes[0], &self.sizes[0]),
            after if after > last => (&self.sizes[last.saturating_sub(1)], &self.sizes[last]),
            after => (&self.sizes[after - 1], &self.sizes[after]),
        };
        let (first, second) = (one.1.quantile(part), two.1.quantile(part));
        let seconds = match two.0 > one.0 {
            true => first + (second - first) * (rows - one.0) / (two.0 - one.0),
            // Of one size only it is known: so much for each row beyond it.
            false => first * (rows / one.0).max(1.0),
        };
        seconds.max(1e-9)
    }

    /// The median seconds of a batch of so many rows.
    pub fn seconds(&self, rows: usize) -> f64 {
        self.quantile(rows, 0.5)
    }

    /// The seconds of one batch, drawn.
    pub fn draw(&self, rows: usize, random: &mut Random) -> f64 {
        self.quantile(rows, random.part())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_known_sizes_it_goes_in_a_straight_line() {
        let cost = Cost::fixed(&[(1, 0.010), (4, 0.016), (16, 0.040)]).unwrap();
        for (rows, seconds) in [(1, 0.010), (2, 0.012), (4, 0.016), (10, 0.028), (32, 0.072)] {
            assert!((cost.seconds(rows) - seconds).abs() < 1e-9, "{rows}");
        }
        let one = Cost::fixed(&[(1, 0.010)]).unwrap();
        assert!((one.seconds(3) - 0.030).abs() < 1e-9);
        assert!(Cost::fixed(&[]).is_err());
    }

    #[test]
    fn a_report_of_the_bench_is_read() {
        let json = r#"{"model": "m", "points": [
            {"via": "threads", "threads": 1, "rows": 1, "latency_seconds": {"p50": 0.01, "p99": 0.02}},
            {"via": "threads", "threads": 2, "rows": 1, "latency_seconds": {"p50": 0.5, "p99": null}},
            {"via": "queue", "threads": 1, "rows": 1, "latency_seconds": {"p50": 0.7, "p99": 0.8}},
            {"via": "threads", "threads": 1, "rows": 8, "latency_seconds": {"p50": 0.03, "p99": 0.03}}]}"#;
        let cost = Cost::from_bench(json, 1).unwrap();
        assert_eq!((cost.seconds(1), cost.seconds(8)), (0.01, 0.03));
        assert_eq!(Cost::from_bench(json, 2).unwrap().seconds(1), 0.5);
        let mut random = Random::new(1);
        let mut drawn: Vec<f64> = (0..100_000).map(|_| cost.draw(1, &mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        assert!((drawn[50_000] - 0.01).abs() < 1e-4 && (drawn[99_000] - 0.02).abs() < 5e-4);
        assert!(
            Cost::from_bench("{}", 1)
                .unwrap_err()
                .contains("bench model")
        );
    }

    #[test]
    fn single_batches_are_drawn_as_they_were() {
        let json = r#"{"points": [{"via": "threads", "threads": 1, "rows": 2, "samples": [0.03, 0.01, 0.01, 0.01]},
            {"via": "threads", "threads": 1, "rows": 4, "samples": [0.02, 0.05]}]}"#;
        let cost = Cost::from_bench(json, 1).unwrap();
        let mut random = Random::new(1);
        let mut drawn: Vec<f64> = (0..10_000).map(|_| cost.draw(2, &mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        assert_eq!((drawn[0], drawn[7_000], drawn[9_999]), (0.01, 0.01, 0.03));
        assert!((drawn.iter().sum::<f64>() / 10_000.0 - 0.015).abs() < 5e-4);
        // Between two sizes, the quick of one with the quick of the other.
        let part: f64 = cost.quantile(3, 0.1);
        assert!((part - 0.015).abs() < 1e-9);
        let wrong = json.replace("0.05", "-1");
        assert!(Cost::from_bench(&wrong, 1).is_err());
    }
}
