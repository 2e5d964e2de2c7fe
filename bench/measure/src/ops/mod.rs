//! `streampool-measure ops`: how fast operators are, and how far from what the machine could do.

mod case;
mod moves;
mod overhead;
mod peak;
mod products;
mod recurrent;
mod report;
mod rows;
mod turns;

use std::time::Duration;

use clap::{Args, ValueEnum};
use streampool::DType;
use streampool::cuda::{CudaOptions, Precision};

use super::figure::Spread;
use crate::device::On;
use crate::progress::Progress;
use crate::{Outcome, Result, output};
use case::{Case, Right, Stage};
use peak::{Ceiling, Peak};
use report::{Measured, Report};

/// Measure the operators of tensors, and what a call costs
///
/// Each figure is the median of short rounds, taken in turn with the others, beside what bounds it: how many
/// floating-point operations or bytes a second the machine can do, measured in the same run. Every result is checked.
///
/// On the host each call is waited for. On a GPU the shapes are repeated until they fill it, and calls follow one
/// another without waiting; what should be bound by memory alone is judged by a copy.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool-measure ops\n  \
        streampool-measure ops --quick\n  \
        streampool-measure ops --device cuda --precision f16\n  \
        streampool-measure ops --json | jq .ops.matmul.seconds")]
pub struct Options {
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// The device to measure on
    #[arg(long, value_enum, default_value_t = On::Host)]
    pub device: On,
    /// What is computed with
    #[arg(long, value_enum, default_value_t = Floats::F32)]
    precision: Floats,
    /// How long each operator is measured, all rounds together
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true, value_parser = seconds)]
    seconds: f64,
    /// Fewer and shorter rounds: a first impression
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Measure one operator for each line of standard input that names it, and write the seconds of a call as a
    /// line: for a script that measures others in turn
    #[arg(long, conflicts_with_all = ["json", "quick"])]
    take_turns: bool,
}

/// What is computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Floats {
    F32,
    F16,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok();
    let value = value.filter(|seconds| (0.001..=600.0).contains(seconds));
    value.ok_or_else(|| "expected a number from 0.001 to 600".to_owned())
}

/// How an operator is made, and what it should give.
type Make = fn(&Stage) -> Result<(Case, Right)>;

/// What is measured everywhere.
const EVERYWHERE: [(&str, Make); 7] = [
    ("matmul", products::matmul),
    ("attention", products::attention),
    ("layer_norm", rows::layer_norm),
    ("gelu", rows::gelu),
    ("conv", products::conv),
    ("lstm", recurrent::lstm),
    ("softmax", rows::softmax),
];

/// What is measured on GPUs besides.
const ON_GPUS: [(&str, Make); 7] = [
    ("attention_long", products::attention_long),
    ("copy", moves::copy),
    ("add", moves::add),
    ("cast", moves::cast),
    ("embedding", moves::embedding),
    ("cumsum", moves::cumsum),
    ("max_pool", moves::max_pool),
];

/// How much is measured.
struct Effort {
    rounds: usize,
    /// How long one operator takes in one round.
    slice: Duration,
}

impl Effort {
    fn of(options: &Options) -> Self {
        let (rounds, seconds) = if options.quick {
            (3, 0.03)
        } else {
            (5, options.seconds)
        };
        Effort {
            rounds,
            slice: Duration::from_secs_f64(seconds / rounds as f64),
        }
    }
}

/// Measures, and says what it came to. A goal that is missed is no failure of the program; an operator that fails or
/// comes out wrong is one, and has no figures.
pub fn run(options: &Options) -> Result<Outcome> {
    let stage = stage(options)?;
    if options.take_turns {
        return turns::take(&stage, Duration::from_secs_f64(options.seconds));
    }
    let report = measure(&stage, &Effort::of(options))?;
    if options.json {
        output::json(&report)?;
    } else {
        output::text(&report.page())?;
    }
    Ok(Outcome::of(report.is_right()))
}

fn stage(options: &Options) -> Result<Stage> {
    let (dtype, mut tolerance) = match options.precision {
        Floats::F32 => (DType::F32, 1e-4),
        Floats::F16 => (DType::F16, 1e-2),
    };
    if options.device == On::Cuda && CudaOptions::from_env()?.precision != Precision::Exact {
        tolerance = 5e-2;
    }
    Ok(Stage::new(options.device.pool()?, dtype, tolerance))
}

fn list(stage: &Stage) -> impl Iterator<Item = (&'static str, Make)> {
    let besides: &[_] = if stage.is_host() { &[] } else { &ON_GPUS };
    EVERYWHERE.iter().chain(besides).copied()
}

/// The operator of this name, whose result is right.
fn checked(stage: &Stage, name: &str) -> Result<Case> {
    let Some((_, make)) = list(stage).find(|(known, _)| *known == name) else {
        let known: Vec<_> = list(stage).map(|(known, _)| known).collect();
        return Err(format!(
            "there is no operator `{name}`: known are {}",
            known.join(", ")
        )
        .into());
    };
    let (case, right) = make(stage)?;
    case.check(stage, &right)?;
    Ok(case)
}

/// One round of all before the next of any: what disturbs the machine for a while hits all alike.
fn measure(stage: &Stage, effort: &Effort) -> Result<Report> {
    let progress = Progress::new();
    let names: Vec<_> = list(stage).map(|(name, _)| name).collect();
    let (mut cases, mut refused) = (Vec::new(), Vec::new());
    for (number, &name) in names.iter().enumerate() {
        progress.step(number + 1, names.len(), &format!("{name}: is it right?"));
        match checked(stage, name) {
            Ok(case) => cases.push((case, Vec::new())),
            Err(why) => refused.push((name, why.to_string())),
        }
    }
    let ceiling = Ceiling::new(stage)?;
    let mut overhead = overhead::measurements(stage)?;
    let (mut flops, mut bytes) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=effort.rounds {
        let step = |what: &str| progress.step(round + 1, effort.rounds + 1, what);
        let keep = |values: &mut Vec<f64>, value: f64| {
            if round > 0 {
                values.push(value);
            }
        };
        for (case, seconds) in &mut cases {
            step(case.name);
            keep(seconds, stage.seconds(effort.slice, &case.call)?);
        }
        step("what the machine could do");
        keep(&mut flops, ceiling.flop_per_s(stage, effort.slice)?);
        if let Some(rate) = ceiling.bytes_per_s(effort.slice)? {
            keep(&mut bytes, rate);
        }
        for measurement in &mut overhead {
            step(measurement.figure.what);
            let value = measurement.round(effort.slice)?;
            keep(&mut measurement.values, value);
        }
    }
    let ops: Vec<Measured> = cases
        .into_iter()
        .map(|(case, seconds)| Measured::new(&case, &seconds))
        .collect::<Result<_>>()?;
    let copy = ops.iter().find(|op| op.name == "copy");
    let peak = Peak {
        flop_per_s: median(&flops)?,
        bytes_per_s: match copy {
            Some(copy) => copy.bytes / copy.seconds.median,
            None => median(&bytes)?,
        },
    };
    Report::new(stage, effort, peak, &ops, refused, &overhead)
}

fn median(values: &[f64]) -> Result<f64> {
    Ok(spread(values)?.median)
}

fn spread(values: &[f64]) -> Result<Spread> {
    Spread::of(values).ok_or_else(|| "nothing was measured".into())
}
