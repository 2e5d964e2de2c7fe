//! How long a batch takes: learned from what `streampool bench model --json` measured.

use serde::Deserialize;

use crate::random::Random;

/// How long batches take, by their rows. Between the sizes that are known it goes in a straight line, and beyond the last as from the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Rows, median seconds, and how much longer than that one in a hundred takes. Rows rise.
    sizes: Vec<(f64, f64, f64)>,
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
    latency_seconds: Latency,
}

#[derive(Deserialize)]
struct Latency {
    p50: Option<f64>,
    p99: Option<f64>,
}

impl Cost {
    /// So many seconds for a batch of any size.
    pub fn one(seconds: f64) -> Cost {
        let seconds = seconds.max(1e-9);
        Cost {
            sizes: vec![(1.0, seconds, seconds), (2.0, seconds, seconds)],
        }
    }

    /// These seconds for these rows, always the same.
    pub fn fixed(sizes: &[(usize, f64)]) -> Result<Cost, String> {
        Cost::of(
            sizes
                .iter()
                .map(|&(rows, seconds)| (rows as f64, seconds, seconds)),
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
        let points = alone().filter(|point| point.threads == threads);
        Cost::of(points.filter_map(|point| {
            let median = point.latency_seconds.p50?;
            Some((
                point.rows as f64,
                median,
                point.latency_seconds.p99.unwrap_or(median),
            ))
        }))
    }

    fn of(sizes: impl Iterator<Item = (f64, f64, f64)>) -> Result<Cost, String> {
        let mut sizes: Vec<(f64, f64, f64)> = sizes.collect();
        sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
        sizes.dedup_by(|one, other| one.0 == other.0);
        let good = |&(rows, median, late): &(f64, f64, f64)| {
            rows >= 1.0 && median > 0.0 && late.is_finite()
        };
        match !sizes.is_empty() && sizes.iter().all(good) {
            true => Ok(Cost { sizes }),
            false => Err("it says of no size of batches how long they take".to_owned()),
        }
    }

    /// The median, and one in a hundred.
    fn spread(&self, rows: usize) -> (f64, f64) {
        let rows = rows as f64;
        let after = self.sizes.partition_point(|&(known, ..)| known < rows);
        let last = self.sizes.len() - 1;
        let (one, two) = match after {
            0 => (self.sizes[0], self.sizes[0]),
            after if after > last => (self.sizes[last.saturating_sub(1)], self.sizes[last]),
            after => (self.sizes[after - 1], self.sizes[after]),
        };
        let between = |one_y: f64, two_y: f64| match two.0 > one.0 {
            true => one_y + (two_y - one_y) * (rows - one.0) / (two.0 - one.0),
            // Of one size only it is known: so much for each row beyond it.
            false => one_y * (rows / one.0).max(1.0),
        };
        let median = between(one.1, two.1).max(1e-9);
        (median, between(one.2, two.2).max(median))
    }

    /// The median seconds of a batch of so many rows.
    pub fn seconds(&self, rows: usize) -> f64 {
        self.spread(rows).0
    }

    /// The seconds of one batch, drawn: half take no longer than the median, and 99 in 100 no longer than was measured; what takes longer does
    /// exponentially.
    pub fn draw(&self, rows: usize, random: &mut Random) -> f64 {
        let (median, late) = self.spread(rows);
        // Above the median, time goes on so that one in fifty of those is beyond `late`.
        let part = random.part();
        match part < 0.5 {
            true => median,
            false => median + (late - median) * (2.0 * (1.0 - part)).ln() / (0.02f64).ln(),
        }
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
}
