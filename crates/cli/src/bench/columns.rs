//! Points as rows of a table.

use super::point::Point;
use crate::text::{compact, count, counted, figure};

/// The unit in which the latencies of a report are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Microseconds,
}

impl Unit {
    /// The one in which the shortest latency still has digits.
    pub fn of(points: &[Point]) -> Unit {
        let medians = points.iter().filter_map(|point| point.latency_seconds.p50);
        match medians.fold(f64::INFINITY, f64::min) < 1e-4 {
            true => Unit::Microseconds,
            false => Unit::Milliseconds,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "us",
        }
    }

    /// A time in it, as a number.
    pub fn of_seconds(self, seconds: f64) -> f64 {
        match self {
            Unit::Milliseconds => seconds * 1e3,
            Unit::Microseconds => seconds * 1e6,
        }
    }
}

type Cell = fn(&Point, Unit) -> String;

/// The names of the columns, and a row for each of `points`.
pub fn of(points: &[&Point], unit: Unit) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let any = |known: fn(&Point) -> bool| points.iter().any(|point| known(point));
    let columns: [(&str, Cell, bool); 10] = [
        ("threads", |point, _| count(point.threads as u64), true),
        ("rows", |point, _| count(point.rows as u64), true),
        (
            "offered",
            offered,
            any(|point| point.offered_per_second.is_some()),
        ),
        ("req/s", |point, _| compact(point.requests_per_second), true),
        ("rows/s", |point, _| compact(point.rows_per_second), true),
        (
            "p50",
            |point, unit| latency(point, point.latency_seconds.p50, unit),
            true,
        ),
        (
            "p90",
            |point, unit| latency(point, point.latency_seconds.p90, unit),
            true,
        ),
        (
            "p99",
            |point, unit| latency(point, point.latency_seconds.p99, unit),
            true,
        ),
        (
            "p99.9",
            |point, unit| latency(point, point.latency_seconds.p99_9, unit),
            true,
        ),
        ("batch", batch, any(|point| point.rows_per_batch.is_some())),
    ];
    let shown = || columns.iter().filter(|(_, _, shown)| *shown);
    let row = |point: &&Point| shown().map(|(_, cell, _)| cell(point, unit)).collect();
    let names = shown().map(|(name, _, _)| *name).collect();
    (names, points.iter().map(row).collect())
}

fn offered(point: &Point, _: Unit) -> String {
    point
        .offered_per_second
        .map_or("-".to_owned(), |rate| rate.to_string())
}

fn latency(point: &Point, seconds: Option<f64>, unit: Unit) -> String {
    let Some(seconds) = seconds else {
        return "-".to_owned();
    };
    let value = unit.of_seconds(seconds);
    let told = match value < 1.0 {
        true => format!("{value:.3}"),
        false => figure(value),
    };
    let more = if point.given_up > 0 { "+" } else { "" };
    format!("{told}{more}")
}

fn batch(point: &Point, _: Unit) -> String {
    point.rows_per_batch.map_or(String::new(), figure)
}

/// What else is to be known of the cells.
pub fn notes(points: &[Point]) -> Vec<String> {
    let mut notes = Vec::new();
    let known = |point: &Point| {
        let latency = point.latency_seconds;
        [latency.p50, latency.p90, latency.p99, latency.p99_9].map(|value| value.is_some())
    };
    if points.iter().any(|point| known(point).contains(&false)) {
        notes.push(
            "A percentile is left out where fewer than two requests took longer: give more --seconds."
                .to_owned(),
        );
    }
    if points
        .iter()
        .any(|point| point.offered_per_second.is_some())
    {
        notes.push(
            "Where no rate is offered, one thread alone asks again as soon as it has its answer."
                .to_owned(),
        );
    }
    if points.iter().any(|point| point.given_up > 0) {
        notes.push(
            "Where a latency has a +, more requests arrived than were answered, and those not begun after twice the time \
             were given up: they would have taken longer than they had waited by then."
                .to_owned(),
        );
    }
    notes.extend(points.iter().filter_map(failures));
    notes
}

fn failures(point: &Point) -> Option<String> {
    let why = point.failure.as_ref()?;
    let failed = counted(point.failed, "request");
    let who = point.setting();
    Some(format!(
        "With {who}, {failed} failed, the first with: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::point::Via;
    use crate::bench::point::tests::point;
    use crate::latencies::Percentiles;

    #[test]
    fn only_columns_that_say_something_are_there() {
        let closed = point(Via::Threads, 8, 32, None);
        let (names, rows) = of(&[&closed], Unit::Milliseconds);
        let expected = [
            "threads", "rows", "req/s", "rows/s", "p50", "p90", "p99", "p99.9",
        ];
        assert_eq!(names, expected);
        assert_eq!(rows, [["8", "32", "100", "3.20 k", "10.0", "-", "-", "-"]]);
        let queued = Point {
            rows_per_batch: Some(4.0),
            given_up: 3,
            ..point(Via::Queue, 8, 1, Some(50.0))
        };
        let (names, rows) = of(&[&closed, &queued], Unit::Microseconds);
        assert_eq!(names.len(), 10);
        assert_eq!(rows[0][2], "-");
        assert_eq!(
            [&rows[1][2], &rows[1][5], &rows[1][9]],
            ["50", "10000+", "4.00"]
        );
    }

    #[test]
    fn the_unit_leaves_digits() {
        let fast = |p50| {
            let mut point = point(Via::Threads, 1, 1, None);
            point.latency_seconds = Percentiles {
                p50,
                ..Percentiles::default()
            };
            point
        };
        assert_eq!(
            Unit::of(&[fast(Some(2e-5)), fast(Some(1.0))]),
            Unit::Microseconds
        );
        assert_eq!(
            Unit::of(&[fast(Some(2e-4)), fast(None)]),
            Unit::Milliseconds
        );
    }

    #[test]
    fn what_is_missing_is_explained() {
        let mut whole = point(Via::Threads, 1, 1, None);
        let all = Some(0.01);
        whole.latency_seconds = Percentiles {
            p50: all,
            p90: all,
            p99: all,
            p99_9: all,
            max: all,
        };
        assert_eq!(notes(&[whole.clone()]), Vec::<String>::new());
        let bad = Point {
            failed: 2,
            failure: Some("out of memory".to_owned()),
            given_up: 1,
            ..whole.clone()
        };
        let told = notes(&[bad, point(Via::Threads, 1, 1, None)]);
        assert_eq!(told.len(), 3);
        assert!(told[0].contains("--seconds") && told[1].contains("given up"));
        let open = notes(&[point(Via::Threads, 1, 1, Some(5.0))]);
        assert!(open[1].contains("no rate is offered"), "{open:?}");
        assert_eq!(
            told[2],
            "With 1 thread and 1 row a request, 2 requests failed, the first with: out of memory"
        );
    }
}
