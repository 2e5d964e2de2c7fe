//! What a simulation came to, for people.

use streampool_console::page::{Cell, Page, Part, Section, Table};
use streampool_console::plot::{Axis, Plot, Scale, Series};
use streampool_console::text::{compact, figure, time};

use serde::Serialize;

use crate::{Arrivals, Outcome, Plan, Slice};

/// What was found.
#[derive(Serialize)]
pub struct Report {
    /// How many replicas there were; with `--p99` the fewest that do.
    pub replicas: usize,
    /// Whether they keep what `--p99` asks for, if it asks.
    pub kept: Option<bool>,
    /// What came of the simulation.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Fewer replicas than this could not run what comes, if all batches were full.
pub fn at_least(plan: &Plan) -> usize {
    let rate = match &plan.arrivals {
        Arrivals::Poisson { rate }
        | Arrivals::Bursty { rate, .. }
        | Arrivals::Diurnal { rate, .. } => *rate,
        Arrivals::Trace(times) => times.len() as f64 / plan.seconds,
    };
    let rows = plan.max_batch_size;
    let each = (1..=rows).map(|rows| rows as f64 / plan.cost.seconds(rows));
    let best = each.fold(0.0, f64::max) * plan.lanes as f64;
    ((rate / best).ceil() as usize).clamp(1, plan.replicas)
}

fn told(seconds: Option<f64>) -> Cell {
    seconds.map_or_else(Cell::none, |seconds| time(seconds).into())
}

/// The whole page.
pub fn page(plan: &Plan, report: &Report, p99: Option<f64>) -> Page {
    let outcome = &report.outcome;
    let percent = |part: f64| Cell::from(format!("{:.1} %", 100.0 * part));
    let table = Table {
        head: vec![
            "replicas", "per s", "p50", "p99", "p99.9", "rejected", "failed", "batch", "busy",
        ],
        rows: vec![vec![
            Cell::figure(outcome.mean_replicas),
            Cell::rate(outcome.answered_per_second),
            told(outcome.p50),
            told(outcome.p99),
            told(outcome.p99_9),
            Cell::count(outcome.rejected as usize),
            Cell::count(outcome.failed as usize),
            Cell::figure(outcome.rows_per_batch),
            percent(outcome.utilisation),
        ]],
    };
    let mut parts = vec![Part::Table(table)];
    if !outcome.tenants.is_empty() {
        let row = |(name, answers, late): &(String, u64, Option<f64>)| {
            vec![
                name.clone().into(),
                Cell::count(*answers as usize),
                told(*late),
            ]
        };
        parts.push(Part::Table(Table {
            head: vec!["tenant", "answers", "p99"],
            rows: outcome.tenants.iter().map(row).collect(),
        }));
    }
    if outcome.slices.len() > 1 {
        parts.push(over_time(
            "Requests a second",
            "requests/s",
            &outcome.slices,
            |slice| Some(slice.requests_per_second),
        ));
        parts.push(over_time(
            "The 99th percentile",
            "p99, ms",
            &outcome.slices,
            |slice| slice.p99.map(|late| 1e3 * late),
        ));
        if plan.autoscale.is_some() || plan.failures.is_some() {
            parts.push(over_time(
                "Replicas that take requests",
                "replicas",
                &outcome.slices,
                |slice| Some(slice.replicas as f64),
            ));
        }
    }
    let sum = match (p99, report.kept) {
        (Some(p99), Some(true)) => vec![Part::Verdict(
            true,
            format!(
                "{} replicas keep a p99 of {} ms",
                report.replicas,
                figure(p99)
            ),
        )],
        (Some(p99), _) => vec![Part::Verdict(
            false,
            format!(
                "{} replicas do not keep a p99 of {} ms",
                report.replicas,
                figure(p99)
            ),
        )],
        _ => Vec::new(),
    };
    Page {
        title: format!(
            "{} replicas, {} requests in {} s",
            report.replicas,
            compact(outcome.requests as f64),
            figure(plan.seconds - plan.warm_up)
        ),
        about: Vec::new(),
        sum,
        sections: vec![Section {
            title: "Figures".to_owned(),
            parts,
        }],
    }
}

fn over_time(
    title: &str,
    label: &str,
    slices: &[Slice],
    of: impl Fn(&Slice) -> Option<f64>,
) -> Part {
    let points = slices
        .iter()
        .filter_map(|slice| Some((slice.from, of(slice)?)));
    Part::Plot(Plot {
        title: title.to_owned(),
        x: Axis::new("seconds", Scale::Linear),
        y: Axis::new(label, Scale::Linear),
        series: vec![Series::new(label, points)],
    })
}
