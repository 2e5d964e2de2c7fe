//! The operators as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::case::{Case, Stage};
use super::peak::{Bound, Peak};
use crate::Result;
use crate::figures::{Figure, Goal, Spread, verdict};
use crate::machine::Machine;
use crate::table::{Align, Table, width, wrap};
use crate::text::{compact, figure};

/// The least share of a copy's bandwidth that is wanted of what is bound by memory alone.
const LEAST_OF_COPY: f64 = 0.8;

/// What was measured, where.
///
/// As JSON:
///
/// ```json
/// {"device": "host", "machine": {"cores": 2}, "precision": "f32", "rounds": 5, "slice_seconds": 0.1,
///  "peak": {"flop_per_s": 2.1e11, "bytes_per_s": 1.2e11},
///  "ops": {"matmul": {"seconds": 1e-3, "min": 9.8e-4, "max": 1.1e-3, "flop_per_s": 1.5e11, "bytes_per_s": 3.3e9,
///          "bound": "flops", "of_peak": 0.71, "goal": null, "ok": null}},
///  "refused": {},
///  "overhead": {"add": {"ns": 800.0, "min": 780.0, "max": 850.0, "goal": null, "ok": null}}}
/// ```
#[derive(Serialize)]
pub struct Report {
    device: String,
    machine: Machine,
    precision: &'static str,
    rounds: usize,
    slice_seconds: f64,
    peak: Peak,
    #[serde(serialize_with = "by_name")]
    ops: Vec<(&'static str, Row)>,
    /// What failed or came out wrong, and how.
    refused: BTreeMap<&'static str, String>,
    #[serde(serialize_with = "by_name")]
    overhead: Vec<(&'static str, Overhead)>,
}

fn by_name<T: Serialize, S: serde::Serializer>(
    rows: &[(&'static str, T)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(rows.iter().map(|(name, row)| (name, row)))
}

/// What one operator came to.
#[derive(Serialize)]
struct Row {
    /// Of a call: the median of all rounds.
    seconds: f64,
    min: f64,
    max: f64,
    /// `None` where there is no product.
    flop_per_s: Option<f64>,
    bytes_per_s: f64,
    /// What keeps it from being faster on a perfect device.
    bound: Bound,
    /// How much of that it reaches.
    of_peak: f64,
    goal: Option<f64>,
    ok: Option<bool>,
}

/// What a call costs its thread.
#[derive(Serialize)]
struct Overhead {
    #[serde(skip)]
    what: &'static str,
    ns: f64,
    min: f64,
    max: f64,
    goal: Option<f64>,
    ok: Option<bool>,
}

impl Row {
    fn new(case: &Case, seconds: &Spread, peak: &Peak, judged: bool) -> Row {
        let Spread {
            median, min, max, ..
        } = *seconds;
        let (of_peak, bound) = peak.share(case.flops, case.bytes, median);
        let goal = (judged && case.memory_bound).then_some(LEAST_OF_COPY);
        Row {
            seconds: median,
            min,
            max,
            flop_per_s: (case.flops > 0.0).then_some(case.flops / median),
            bytes_per_s: case.bytes / median,
            bound,
            of_peak,
            goal,
            ok: goal.map(|least| of_peak >= least),
        }
    }

    fn cells(&self, name: &str) -> [String; 7] {
        let (scale, unit) = match self.seconds {
            seconds if seconds >= 1.0 => (1.0, "s"),
            seconds if seconds >= 1e-3 => (1e3, "ms"),
            _ => (1e6, "us"),
        };
        let rate = match (self.bound, self.flop_per_s) {
            (Bound::Flops, Some(rate)) => format!("{}FLOP/s", compact(rate)),
            _ => format!("{}B/s", compact(self.bytes_per_s)),
        };
        [
            name.to_owned(),
            format!("{} {unit}", figure(self.seconds * scale)),
            format!("{}-{}", figure(self.min * scale), figure(self.max * scale)),
            rate,
            format!("{:.2} {}", self.of_peak, self.bound.name()),
            Goal::told(self.goal.map(Goal::AtLeast)),
            verdict(self.ok).to_owned(),
        ]
    }
}

impl Overhead {
    fn new(figure: &Figure) -> Result<Overhead> {
        let spread = Spread::of(&figure.values)?;
        Ok(Overhead {
            what: figure.what,
            ns: spread.median,
            min: spread.min,
            max: spread.max,
            goal: figure.goal.map(|goal| match goal {
                Goal::AtMost(limit) | Goal::AtLeast(limit) => limit,
            }),
            ok: figure.goal.map(|goal| goal.is_met(spread.median)),
        })
    }
}

impl Report {
    /// The report of what was measured on `stage`, in rounds of so many slices.
    pub fn new(
        stage: &Stage,
        (rounds, slice): (usize, Duration),
        peak: Peak,
        ops: &[(Case, Spread)],
        refused: BTreeMap<&'static str, String>,
        overhead: &[Figure],
    ) -> Result<Report> {
        let properties = stage.pool.device().properties();
        // Only where they fill the device do operators come near its memory.
        let judged = !stage.is_host();
        let row =
            |(case, seconds): &(Case, Spread)| (case.name, Row::new(case, seconds, &peak, judged));
        let cost = |figure: &Figure| Ok((figure.key, Overhead::new(figure)?));
        Ok(Report {
            device: properties.name.clone(),
            machine: Machine::with(properties),
            precision: stage.dtype.name(),
            rounds,
            slice_seconds: slice.as_secs_f64(),
            peak,
            ops: ops.iter().map(row).collect(),
            refused,
            overhead: overhead.iter().map(cost).collect::<Result<_>>()?,
        })
    }

    /// Whether every operator came out right.
    pub fn is_right(&self) -> bool {
        self.refused.is_empty()
    }

    /// Tables for a terminal.
    pub fn page(&self) -> String {
        use Align::{Left, Right};
        let about = format!(
            "Operators in {} on {}: {}",
            self.precision,
            self.device,
            self.machine.line()
        );
        let mut page = wrap(&about, width()).join("\n") + "\n";
        let mut table = Table::new(2, &[Left, Right, Right, Right, Left, Left, Left]);
        table.row(["", "a call", "within", "reaches", "of peak", "goal", ""]);
        for (name, row) in &self.ops {
            table.row(row.cells(name));
        }
        let _ = writeln!(page, "\n{}", table.render());
        if !self.is_right() {
            let mut table = Table::pairs(2);
            for (name, why) in &self.refused {
                table.row([format!("FAILED: {name}"), why.clone()]);
            }
            let _ = writeln!(page, "{}", table.render());
        }
        let mut table = Table::new(2, &[Left, Right, Right, Left, Left]);
        table.row(["a call, nobody waiting", "ns", "within", "goal", ""]);
        for (_, cost) in &self.overhead {
            table.row([
                cost.what.to_owned(),
                figure(cost.ns),
                format!("{}-{}", figure(cost.min), figure(cost.max)),
                Goal::told(cost.goal.map(Goal::AtMost)),
                verdict(cost.ok).to_owned(),
            ]);
        }
        let peaks = format!(
            "Peaks in this run: {}FLOP/s, {}B/s read and written by a copy. Medians of {} rounds.",
            compact(self.peak.flop_per_s),
            compact(self.peak.bytes_per_s),
            self.rounds
        );
        let peaks = wrap(&peaks, width()).join("\n");
        let _ = writeln!(page, "{}\n{peaks}", table.render());
        page
    }
}
