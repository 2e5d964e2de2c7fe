//! What a sweep came to: as a page with tables and plots, and as JSON.

use std::path::PathBuf;

use serde::Serialize;

use super::point::{Point, Via};
use super::verdict;
use crate::machine::Machine;
use crate::page::{Cell, Page, Part, Section, Table};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::text::{self, counted, figure};

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The file of the model.
    #[serde(serialize_with = "crate::output::path")]
    pub model: PathBuf,
    /// The name of the device.
    pub device: String,
    /// The machine.
    pub machine: Machine,
    /// How long each point was measured.
    pub seconds: f64,
    /// The points, in the order in which they were measured.
    pub points: Vec<Point>,
    /// What they say.
    pub verdict: Vec<String>,
}

impl Report {
    /// Whether no request failed.
    pub fn is_whole(&self) -> bool {
        self.points.iter().all(|point| point.failed == 0)
    }

    /// It for people.
    pub fn page(&self) -> Page {
        let (model, device, seconds) = (text::file_name(&self.model), &self.device, self.seconds);
        let machine = self.machine.line();
        let unit = Unit::of(&self.points);
        let said = notes(&self.points).into_iter().chain(self.verdict.clone());
        Page {
            title: format!("{model} on {device}: {machine}; {seconds} s for each point"),
            about: Vec::new(),
            sum: said.map(Part::Text).collect(),
            sections: sets(&self.points).map(|set| section(set, unit)).collect(),
        }
    }
}

/// What `points` say, for each set of shapes.
pub fn verdicts(points: &[Point]) -> Vec<String> {
    let several = sets(points).count() > 1;
    let of_set = |set: &[Point]| {
        let said = verdict::of(&set.iter().collect::<Vec<_>>()).join(" ");
        match several {
            true => format!("With {}: {said}", shapes(set)),
            false => said,
        }
    };
    sets(points).map(of_set).collect()
}

/// Points of the same inputs, rows aside.
fn sets(points: &[Point]) -> impl Iterator<Item = &[Point]> {
    points.chunk_by(|one, next| one.set == next.set)
}

/// The shapes of the requests of a set.
fn shapes(set: &[Point]) -> String {
    let shape = |point: Option<&Point>| point.map_or("", |point| &point.shape).to_owned();
    let (first, last) = (shape(set.first()), shape(set.last()));
    match first == last {
        true => first,
        false => format!("{first} to {last}"),
    }
}

/// The points by how requests got to the model, with plots.
fn section(set: &[Point], unit: Unit) -> Section {
    let mut parts = Vec::new();
    for (via, how) in [
        (Via::Threads, "each thread runs the model"),
        (Via::Queue, "through the queue"),
    ] {
        let points = set.iter().filter(|point| point.via == via);
        let points: Vec<&Point> = points.collect();
        if !points.is_empty() {
            let unit_name = unit.name();
            parts.push(Part::Text(format!("{how}; latency in {unit_name}")));
            parts.push(Part::Table(table(&points, unit)));
        }
    }
    match set.iter().any(|point| point.offered_per_second.is_some()) {
        true => parts.push(late(set, unit)),
        false => parts.extend([throughput(set), latency(set, unit)]),
    }
    Section {
        title: shapes(set),
        parts,
    }
}

/// The unit in which the latencies of a report are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Milliseconds,
    Microseconds,
}

impl Unit {
    /// The one in which the shortest latency still has digits.
    fn of(points: &[Point]) -> Unit {
        let medians = points.iter().filter_map(|point| point.latency_seconds.p50);
        match medians.fold(f64::INFINITY, f64::min) < 1e-4 {
            true => Unit::Microseconds,
            false => Unit::Milliseconds,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "us",
        }
    }

    /// A time in it, as a number.
    fn of_seconds(self, seconds: f64) -> f64 {
        match self {
            Unit::Milliseconds => seconds * 1e3,
            Unit::Microseconds => seconds * 1e6,
        }
    }
}

/// A row for each of `points`; columns that say nothing are left out.
fn table(points: &[&Point], unit: Unit) -> Table {
    let any = |known: fn(&Point) -> bool| points.iter().any(|point| known(point));
    let offered = any(|point| point.offered_per_second.is_some());
    let batch = any(|point| point.rows_per_batch.is_some());
    let rest = ["req/s", "rows/s", "p50", "p90", "p99", "p99.9"];
    let mut head = vec!["threads", "rows"];
    head.extend(offered.then_some("offered"));
    head.extend(rest);
    head.extend(batch.then_some("batch"));
    let row = |point: &&Point| {
        let mut row = vec![Cell::count(point.threads), Cell::count(point.rows)];
        if offered {
            let rate = point.offered_per_second.map(|rate| rate.to_string().into());
            row.push(rate.unwrap_or_else(Cell::none));
        }
        row.push(Cell::rate(point.requests_per_second));
        row.push(Cell::rate(point.rows_per_second));
        let known = point.latency_seconds;
        let known = [known.p50, known.p90, known.p99, known.p99_9];
        row.extend(known.map(|seconds| told(point, seconds, unit)));
        if batch {
            row.push(point.rows_per_batch.map_or_else(|| "".into(), Cell::figure));
        }
        row
    };
    Table {
        head,
        rows: points.iter().map(row).collect(),
    }
}

/// A latency of a point.
fn told(point: &Point, seconds: Option<f64>, unit: Unit) -> Cell {
    let Some(seconds) = seconds else {
        return Cell::none();
    };
    let value = unit.of_seconds(seconds);
    let told = match value < 1.0 {
        true => format!("{value:.3}"),
        false => figure(value),
    };
    let more = if point.given_up > 0 { "+" } else { "" };
    format!("{told}{more}").into()
}

/// What else is to be known of the cells.
fn notes(points: &[Point]) -> Vec<String> {
    let mut notes = Vec::new();
    let known = |point: &Point| {
        let latency = point.latency_seconds;
        [latency.p50, latency.p90, latency.p99, latency.p99_9].map(|value| value.is_some())
    };
    if points.iter().any(|point| known(point).contains(&false)) {
        notes.push(
            "A percentile needs at least two slower requests. Increase --seconds to see those that are missing."
                .to_owned(),
        );
    }
    if points
        .iter()
        .any(|point| point.offered_per_second.is_some())
    {
        notes.push(
            "In rows without an offered rate, one thread sends its next request as soon as it has an answer."
                .to_owned(),
        );
    }
    if points.iter().any(|point| point.given_up > 0) {
        notes.push(
            "A + after a latency means that more requests arrived than were answered. Requests that had not started after twice \
             the time were given up; they count with the time that they had waited, so true latencies are higher."
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

/// How much more threads get through.
fn throughput(points: &[Point]) -> Part {
    Part::Plot(Plot {
        title: "Throughput by threads".to_owned(),
        x: Axis::new("threads", Scale::Log2),
        y: Axis::new("rows/s", Scale::Linear),
        series: series(points, with_rows, |point| {
            Some((point.threads as f64, point.rows_per_second))
        }),
    })
}

/// What that costs each request.
fn latency(points: &[Point], unit: Unit) -> Part {
    Part::Plot(Plot {
        title: "Latency by throughput, from fewer threads to more".to_owned(),
        x: Axis::new("rows/s", Scale::Linear),
        y: Axis::new(format!("99th percentile, {}", unit.name()), Scale::Log10),
        series: series(points, with_rows, |point| {
            let late = point.latency_seconds.p99?;
            Some((point.rows_per_second, unit.of_seconds(late)))
        }),
    })
}

/// How long requests take as more arrive.
fn late(points: &[Point], unit: Unit) -> Part {
    let name = |point: &Point| {
        let threads = counted(point.threads as u64, "thread");
        format!("{threads}, {}", with_rows(point))
    };
    Part::Plot(Plot {
        title: "Latency by arrival rate".to_owned(),
        x: Axis::new("requests per second", Scale::Linear),
        y: Axis::new(format!("99th percentile, {}", unit.name()), Scale::Log10),
        series: series(points, name, |point| {
            let late = point.latency_seconds.p99?;
            Some((point.offered_per_second?, unit.of_seconds(late)))
        }),
    })
}

fn with_rows(point: &Point) -> String {
    let rows = counted(point.rows as u64, "row");
    match point.via {
        Via::Threads => rows,
        Via::Queue => format!("{rows}, queue"),
    }
}

/// A line for each name, in the order of their first points, through the points that have a place.
fn series(
    points: &[Point],
    name: impl Fn(&Point) -> String,
    place: impl Fn(&Point) -> Option<(f64, f64)>,
) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for point in points {
        let (Some(place), name) = (place(point), name(point)) else {
            continue;
        };
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(place),
            None => all.push(Series::new(name, [place])),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::point::tests::point;
    use crate::latencies::Percentiles;

    #[test]
    fn only_columns_that_say_something_are_there() {
        let closed = point(Via::Threads, 8, 32, None);
        let rows = |points: &[&Point], unit| {
            let table = table(points, unit).json("");
            (
                table["head"].as_array().map_or(0, Vec::len),
                table["rows"].clone(),
            )
        };
        let (columns, table) = rows(&[&closed], Unit::Milliseconds);
        assert_eq!(columns, 8);
        let first = serde_json::json!([8, 32, 100.0, 3200.0, "10.0", null, null, null]);
        assert_eq!(table[0], first);
        let queued = Point {
            rows_per_batch: Some(4.0),
            given_up: 3,
            ..point(Via::Queue, 8, 1, Some(50.0))
        };
        let (columns, table) = rows(&[&closed, &queued], Unit::Microseconds);
        assert_eq!(columns, 10);
        assert!(table[0][2].is_null());
        assert_eq!([&table[1][2], &table[1][5]], ["50", "10000+"]);
        assert_eq!(table[1][9], 4.0);
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
        assert!(open[1].contains("without an offered rate"), "{open:?}");
        assert_eq!(
            told[2],
            "With 1 thread and 1 row per request, 2 requests failed, the first with: out of memory"
        );
    }

    fn lines(part: Part) -> Vec<Series> {
        let Part::Plot(plot) = part else {
            unreachable!("it is a plot")
        };
        plot.series
    }

    #[test]
    fn each_way_and_number_of_rows_is_a_line() {
        let points = [
            point(Via::Threads, 1, 1, None),
            point(Via::Threads, 8, 1, None),
            point(Via::Threads, 1, 32, None),
            point(Via::Queue, 8, 1, None),
        ];
        let named = |series: Series| (series.name, series.points.len());
        let names: Vec<_> = lines(throughput(&points)).into_iter().map(named).collect();
        let expected = [("1 row", 2), ("32 rows", 1), ("1 row, queue", 1)];
        assert_eq!(
            names,
            expected.map(|(name, points)| (name.to_owned(), points))
        );
    }

    #[test]
    fn what_is_not_known_has_no_place() {
        let mut known = point(Via::Threads, 8, 1, Some(50.0));
        known.latency_seconds.p99 = Some(0.2);
        let unknown = point(Via::Threads, 8, 1, Some(100.0));
        let points = [point(Via::Threads, 1, 1, None), known, unknown];
        assert_eq!(lines(latency(&points, Unit::Milliseconds)).len(), 1);
        let lines = lines(late(&points, Unit::Milliseconds));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].name, "8 threads, 1 row");
        assert_eq!(lines[0].points, [(50.0, 200.0)]);
    }
}
