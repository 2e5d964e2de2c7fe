//! What a sweep came to, as an HTML page with plots.

use super::columns::{self, Unit};
use super::point::{Point, Via};
use super::report::{Report, Set};
use crate::html::{Page, Part, Section, Table};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::text::counted;

/// The page.
pub fn page(report: &Report) -> Page {
    let unit = report.unit();
    let said = report.verdict.iter().cloned().map(Part::Text);
    let notes = columns::notes(&report.points).into_iter().map(Part::Text);
    let sets = report.sets();
    Page {
        title: report.title(),
        lead: said.chain(notes).collect(),
        sections: sets.iter().map(|set| section(set, unit)).collect(),
    }
}

fn section(set: &Set<'_>, unit: Unit) -> Section {
    let mut parts = Vec::new();
    for (how, points) in set.ways() {
        let (head, rows) = columns::of(&points, unit);
        let head = head.into_iter().map(str::to_owned).collect();
        parts.push(Part::Text(format!("Latency in {}, {how}:", unit.name())));
        parts.push(Part::Table(Table { head, rows }));
    }
    let plots = match set
        .points
        .iter()
        .any(|point| point.offered_per_second.is_some())
    {
        true => vec![late(&set.points, unit)],
        false => vec![throughput(&set.points), latency(&set.points, unit)],
    };
    parts.extend(plots.iter().map(|plot| Part::Svg(plot.svg())));
    Section {
        title: set.shapes(),
        parts,
    }
}

/// How much more threads get through.
fn throughput(points: &[&Point]) -> Plot {
    Plot {
        title: "What more threads get through".to_owned(),
        x: Axis::new("threads", Scale::Log2),
        y: Axis::new("rows/s", Scale::Linear),
        series: series(points, with_rows, |point| {
            Some((point.threads as f64, point.rows_per_second))
        }),
    }
}

/// What that costs each request.
fn latency(points: &[&Point], unit: Unit) -> Plot {
    Plot {
        title: "How long a request takes, from fewer threads to more".to_owned(),
        x: Axis::new("rows/s", Scale::Linear),
        y: Axis::new(format!("99th percentile, {}", unit.name()), Scale::Log10),
        series: series(points, with_rows, |point| {
            let late = point.latency_seconds.p99?;
            Some((point.rows_per_second, unit.of_seconds(late)))
        }),
    }
}

/// How long requests take as more arrive.
fn late(points: &[&Point], unit: Unit) -> Plot {
    let name = |point: &Point| {
        let threads = counted(point.threads as u64, "thread");
        format!("{threads}, {}", with_rows(point))
    };
    Plot {
        title: "How long requests take as more arrive".to_owned(),
        x: Axis::new("requests that arrive each second", Scale::Linear),
        y: Axis::new(format!("99th percentile, {}", unit.name()), Scale::Log10),
        series: series(points, name, |point| {
            let late = point.latency_seconds.p99?;
            Some((point.offered_per_second?, unit.of_seconds(late)))
        }),
    }
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
    points: &[&Point],
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

    #[test]
    fn each_way_and_number_of_rows_is_a_line() {
        let points = [
            point(Via::Threads, 1, 1, None),
            point(Via::Threads, 8, 1, None),
            point(Via::Threads, 1, 32, None),
            point(Via::Queue, 8, 1, None),
        ];
        let points: Vec<&Point> = points.iter().collect();
        let names = |plot: Plot| {
            let named = |series: Series| (series.name, series.points.len());
            plot.series.into_iter().map(named).collect::<Vec<_>>()
        };
        let expected = [("1 row", 2), ("32 rows", 1), ("1 row, queue", 1)];
        let expected = expected.map(|(name, points)| (name.to_owned(), points));
        assert_eq!(names(throughput(&points)), expected);
    }

    #[test]
    fn what_is_not_known_has_no_place() {
        let mut known = point(Via::Threads, 8, 1, Some(50.0));
        known.latency_seconds.p99 = Some(0.2);
        let unknown = point(Via::Threads, 8, 1, Some(100.0));
        let alone = point(Via::Threads, 1, 1, None);
        let points = [&alone, &known, &unknown];
        assert_eq!(latency(&points, Unit::Milliseconds).series.len(), 1);
        let plot = late(&points, Unit::Milliseconds);
        assert_eq!(plot.series.len(), 1);
        assert_eq!(plot.series[0].name, "8 threads, 1 row");
        assert_eq!(plot.series[0].points, [(50.0, 200.0)]);
    }
}
