//! The operators as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::case::{Case, Stage};
use super::peak::{Bound, Peak};
use super::{Effort, spread};
use crate::Result;
use crate::figure::{Goal, Measurement, Spread};
use crate::machine::Machine;
use crate::table::{Align, Table, width, wrap};
use crate::text::{compact, figure};

/// The least share of a copy's bandwidth that is wanted of what is bound by memory alone.
const LEAST_OF_COPY: f64 = 0.8;

/// What one operator took.
pub struct Measured {
    /// Its name.
    pub name: &'static str,
    /// Seconds of a call.
    pub seconds: Spread,
    /// Bytes of its operands.
    pub bytes: f64,
    flops: f64,
    memory_bound: bool,
}

impl Measured {
    /// What `case` took, by a value for each round.
    pub fn new(case: &Case, seconds: &[f64]) -> Result<Measured> {
        Ok(Measured {
            name: case.name,
            seconds: spread(seconds)?,
            bytes: case.bytes,
            flops: case.flops,
            memory_bound: case.memory_bound,
        })
    }
}

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
    ops: Ops,
    /// What failed or came out wrong, and how.
    refused: BTreeMap<&'static str, String>,
    overhead: BTreeMap<&'static str, Overhead>,
    #[serde(skip)]
    titles: Vec<(&'static str, &'static str)>,
}

/// Each operator with its name, in the order of the table.
struct Ops(Vec<(&'static str, Row)>);

impl Serialize for Ops {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, row)| (name, row)))
    }
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
    ns: f64,
    min: f64,
    max: f64,
    goal: Option<f64>,
    ok: Option<bool>,
}

impl Row {
    fn new(measured: &Measured, peak: &Peak, judged: bool) -> Row {
        let Spread {
            median, min, max, ..
        } = measured.seconds;
        let (of_peak, bound) = peak.share(measured.flops, measured.bytes, median);
        let goal = (judged && measured.memory_bound).then_some(LEAST_OF_COPY);
        Row {
            seconds: median,
            min,
            max,
            flop_per_s: (measured.flops > 0.0).then_some(measured.flops / median),
            bytes_per_s: measured.bytes / median,
            bound,
            of_peak,
            goal,
            ok: goal.map(|least| Goal::AtLeast(least).is_met(of_peak)),
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
            self.goal
                .map_or_else(String::new, |least| format!(">= {least}")),
            verdict(self.ok).to_owned(),
        ]
    }
}

impl Overhead {
    fn new(measurement: &Measurement) -> Result<Overhead> {
        let spread = spread(&measurement.values)?;
        let goal = measurement.figure.goal;
        Ok(Overhead {
            ns: spread.median,
            min: spread.min,
            max: spread.max,
            goal: goal.map(|goal| match goal {
                Goal::AtMost(limit) | Goal::AtLeast(limit) => limit,
            }),
            ok: goal.map(|goal| goal.is_met(spread.median)),
        })
    }
}

fn verdict(ok: Option<bool>) -> &'static str {
    match ok {
        Some(true) => "ok",
        Some(false) => "missed",
        None => "",
    }
}

impl Report {
    /// The report of what was measured on `stage`.
    pub fn new(
        stage: &Stage,
        effort: &Effort,
        peak: Peak,
        ops: &[Measured],
        refused: Vec<(&'static str, String)>,
        overhead: &[Measurement],
    ) -> Result<Report> {
        let properties = stage.pool.device().properties();
        // Only where they fill the device do operators come near its memory.
        let judged = !stage.is_host();
        let rows = ops.iter().map(|op| (op.name, Row::new(op, &peak, judged)));
        let costs = overhead.iter();
        Ok(Report {
            device: properties.name.clone(),
            machine: Machine::with(properties),
            precision: stage.dtype.name(),
            rounds: effort.rounds,
            slice_seconds: effort.slice.as_secs_f64(),
            peak,
            ops: Ops(rows.collect()),
            refused: refused.into_iter().collect(),
            overhead: costs
                .map(|one| Ok((one.figure.key, Overhead::new(one)?)))
                .collect::<Result<_>>()?,
            titles: overhead
                .iter()
                .map(|one| (one.figure.key, one.figure.what))
                .collect(),
        })
    }

    /// Whether every operator came out right.
    pub fn is_right(&self) -> bool {
        self.refused.is_empty()
    }

    /// Tables for a terminal.
    pub fn page(&self) -> String {
        use Align::{Left, Right};
        let mut page = String::new();
        let about = format!(
            "Operators in {} on {}: {}",
            self.precision,
            self.device,
            self.machine.line()
        );
        for line in wrap(&about, width()) {
            let _ = writeln!(page, "{line}");
        }
        let mut table = Table::new(2, &[Left, Right, Right, Right, Left, Left, Left]);
        table.row(["", "a call", "within", "reaches", "of peak", "goal", ""]);
        for (name, row) in &self.ops.0 {
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
        for (key, what) in &self.titles {
            let cost = &self.overhead[key];
            table.row([
                (*what).to_owned(),
                figure(cost.ns),
                format!("{}-{}", figure(cost.min), figure(cost.max)),
                cost.goal
                    .map_or_else(String::new, |most| format!("<= {most}")),
                verdict(cost.ok).to_owned(),
            ]);
        }
        let _ = writeln!(page, "{}", table.render());
        let peaks = format!(
            "Peaks in this run: {}FLOP/s, {}B/s read and written by a copy. Medians of {} rounds.",
            compact(self.peak.flop_per_s),
            compact(self.peak.bytes_per_s),
            self.rounds
        );
        for line in wrap(&peaks, width()) {
            let _ = writeln!(page, "{line}");
        }
        page
    }
}
