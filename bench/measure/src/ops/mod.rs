//! `streampool-measure ops`: how fast operators are, and how far from what the machine could do.

mod case;
mod operators;
mod peak;
mod report;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use streampool::cuda::{CudaOptions, Precision};
use streampool::{DType, Tensor};

use crate::device::On;
use crate::figures::{Figure, Goal, Spread, Unit};
use crate::noise::Noise;
use crate::progress::Progress;
use crate::text::within;
use crate::{Outcome, Result, output};
use case::{Call, Case, Stage};
use operators::ALL;
use peak::{Ceiling, Peak};
use report::Report;

/// Measure the operators of tensors, and what a call costs
///
/// Each figure is the median of short rounds, taken in turn with the others, beside what bounds it: how many
/// floating-point operations or bytes a second the machine can do, measured in the same run. Every result is checked.
///
/// On the host each call is waited for. On a GPU the shapes are repeated until they fill it, and calls follow one
/// another without waiting; what should be bound by memory alone is judged by a copy.
#[derive(Args)]
pub struct Options {
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// The device to measure on
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// What is computed with
    #[arg(long, value_enum, default_value_t = Floats::F32)]
    precision: Floats,
    /// How long each operator is measured, all rounds together
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true, value_parser = within(0.001, 600.0))]
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

/// Measures, and says what it came to. An operator that fails or comes out wrong is a failure, and has no figures.
pub fn run(options: &Options) -> Result<Outcome> {
    let (dtype, mut tolerance) = match options.precision {
        Floats::F32 => (DType::F32, 1e-4),
        Floats::F16 => (DType::F16, 1e-2),
    };
    if options.device == On::Cuda && CudaOptions::from_env()?.precision != Precision::Exact {
        tolerance = 5e-2;
    }
    let stage = Stage::new(options.device.pool()?, dtype, tolerance);
    if options.take_turns {
        return take_turns(&stage, Duration::from_secs_f64(options.seconds));
    }
    let (rounds, seconds) = match options.quick {
        true => (3, 0.03),
        false => (5, options.seconds),
    };
    let slice = Duration::from_secs_f64(seconds / rounds as f64);
    let report = measure(&stage, rounds, slice)?;
    output::told(options.json, &report, || report.page())?;
    Ok(Outcome::of(report.is_right()))
}

/// The names of the operators that are measured there.
fn names(stage: &Stage) -> Vec<&'static str> {
    let measured = ALL.iter().filter(|(.., large)| !large || !stage.is_host());
    measured.map(|(name, ..)| *name).collect()
}

/// The operator of this name, whose result is right.
fn checked(stage: &Stage, name: &str) -> Result<Case> {
    let known = names(stage);
    let found = ALL.iter().find(|(other, ..)| *other == name);
    match found.filter(|_| known.contains(&name)) {
        Some((_, make, _)) => {
            let (case, right) = make(stage)?;
            case.check(stage, &right)?;
            Ok(case)
        }
        None => {
            let known = known.join(", ");
            Err(format!("there is no operator `{name}`: known are {known}").into())
        }
    }
}

/// One round of all before the next of any: what disturbs the machine for a while hits all alike. The first warms up.
fn measure(stage: &Stage, rounds: usize, slice: Duration) -> Result<Report> {
    let progress = Progress::on_terminal();
    let names = names(stage);
    let (mut cases, mut refused) = (Vec::new(), BTreeMap::new());
    for (number, &name) in names.iter().enumerate() {
        progress.step(number + 1, names.len(), &format!("{name}: is it right?"));
        match checked(stage, name) {
            Ok(case) => cases.push((case, Vec::new())),
            Err(why) => {
                refused.insert(name, why.to_string());
            }
        }
    }
    let ceiling = Ceiling::new(stage)?;
    let mut overhead = overhead(stage)?;
    let (mut flops, mut bytes) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let step = |what: &str| progress.step(round + 1, rounds + 1, what);
        let keep = |values: &mut Vec<f64>, value: f64| {
            if round > 0 {
                values.push(value);
            }
        };
        for (case, seconds) in &mut cases {
            step(case.name);
            keep(seconds, stage.seconds(slice, &case.call)?);
        }
        step("what the machine could do");
        keep(&mut flops, ceiling.flop_per_s(stage, slice)?);
        if let Some(rate) = ceiling.bytes_per_s(slice)? {
            keep(&mut bytes, rate);
        }
        for figure in &mut overhead {
            step(figure.what);
            let value = (figure.round)(slice)?;
            keep(&mut figure.values, value);
        }
    }
    let measured = cases.into_iter();
    let measured = measured.map(|(case, seconds)| Ok((case, Spread::of(&seconds)?)));
    let measured: Vec<(Case, Spread)> = measured.collect::<Result<_>>()?;
    let copy = measured.iter().find(|(case, _)| case.name == "copy");
    let peak = Peak {
        flop_per_s: Spread::of(&flops)?.median,
        bytes_per_s: match copy {
            Some((copy, seconds)) => copy.bytes / seconds.median,
            None => Spread::of(&bytes)?.median,
        },
    };
    Report::new(stage, (rounds, slice), peak, &measured, refused, &overhead)
}

/// For each line of standard input, which names an operator, writes one line: the seconds of a call, of as many as fill
/// `slice`, or `error:` and why there are none. The first time it is made, checked and run to warm up. Says whether all
/// could be measured.
fn take_turns(stage: &Stage, slice: Duration) -> Result<Outcome> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    let mut measured = |name: &str| -> Result<f64> {
        if !cases.contains_key(name) {
            let case = checked(stage, name)?;
            stage.seconds(slice / 4, &case.call)?;
            cases.insert(name.to_owned(), case);
        }
        stage.seconds(slice, &cases[name].call)
    };
    let mut good = true;
    for line in io::stdin().lock().lines() {
        let answer = measured(line?.trim());
        good &= answer.is_ok();
        let mut stdout = io::stdout().lock();
        match answer {
            Ok(seconds) => writeln!(stdout, "{seconds:e}"),
            Err(why) => writeln!(stdout, "error: {}", why.to_string().replace('\n', " ")),
        }
        .and_then(|()| stdout.flush())?;
    }
    Ok(Outcome::of(good))
}

/// Calls between two waits: not so many that the driver, which queues about a thousand, makes the last ones wait for
/// the GPU.
const CALLS: u32 = 500;

/// The most nanoseconds that a call on a GPU may take.
const MOST: f64 = 4_000.0;

/// What a call costs the thread that makes it: tensors so small that nothing else counts.
fn overhead(stage: &Stage) -> Result<Vec<Figure>> {
    let mut noise = Noise::new(15);
    let mut input =
        |shape: &[usize]| -> Result<Tensor> { Ok(stage.input(&mut noise, shape, 1.0)?.tensor) };
    let (a, b) = (input(&[1024])?, input(&[1024])?);
    let x = input(&[4, 256])?;
    let (weight, bias) = (input(&[128, 256])?, input(&[128])?);
    let (rows, scale, shift) = (x.clone(), input(&[256])?, input(&[256])?);
    let calls: [(_, _, Call); 3] = [
        ("add", "add 1024 elements", Box::new(move || a.add(&b))),
        (
            "linear",
            "linear 256 to 128, 4 rows",
            Box::new(move || x.linear(&weight, Some(&bias))),
        ),
        (
            "layer_norm",
            "layer_norm 4 x 256",
            Box::new(move || rows.layer_norm(-1, Some(&scale), Some(&shift), 1e-5)),
        ),
    ];
    let figure = |(key, what, call): (_, _, Call)| {
        let pool = stage.pool.clone();
        let goal = (!stage.is_host()).then_some(Goal::AtMost(MOST));
        Figure::new(key, what, Unit::Nanoseconds, goal, move |_| {
            let stream = pool.current()?;
            let begin = Instant::now();
            for _ in 0..CALLS {
                call()?;
            }
            let took = begin.elapsed();
            stream.synchronize()?;
            Ok(took.as_nanos() as f64 / f64::from(CALLS))
        })
    };
    Ok(calls.into_iter().map(figure).collect())
}
