//! `streampool run`: a model on inputs from a file or made up, once or again and again.

mod check;
mod profile;
mod report;
mod threads;
mod values;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use streampool::model::RunOptions;
use streampool::{Array, DType, Outputs, Pool, Profile, Session, SessionOptions, Tensor};

use crate::device::On;
use crate::doctor::unusable_cache;
use crate::inputs::{self, From, refer};
use crate::machine::{self, Machine};
use crate::progress::Progress;
use crate::text::within;
use crate::{Outcome, Result, output};
use report::{AtOnce, Given, Report};
use values::Seen;

/// Run an ONNX model, once or from many threads
///
/// Without --input, inputs are generated: floats are normally distributed, integers count from 1, masks are ones. Use
/// --shape for sizes that the model leaves open.
///
/// A single run prints its outputs. With several threads, all run the model at the same time, and each has to get the same
/// result as one thread alone. With --repeat, all threads share the session and run it as often as they can, each on its
/// own inputs; the command prints the rate, the latencies, and what else happened.
///
/// The exit code is 1 if an output differs from --check or between threads.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool run model.onnx --shape input_ids=1,16\n  \
        streampool run model.onnx --input x.npz --check y.npz\n  \
        streampool run model.onnx --input x.npz --output y.npz\n  \
        streampool run model.onnx --threads 8 --repeat --json | jq .runs_per_second\n  \
        streampool run model.onnx --profile trace.json")]
pub struct Options {
    /// The model
    model: PathBuf,
    /// Arrays named like the inputs
    #[arg(long, value_name = "NPZ")]
    input: Option<PathBuf>,
    /// The shape of a generated input, such as x=1,16; once for each input
    #[arg(long, value_name = "NAME=SIZES", conflicts_with = "input", value_parser = inputs::Given::parse)]
    shape: Vec<inputs::Given>,
    /// The seed of generated inputs, and of random operators that have none of their own; without it inputs are the same
    /// each time, and random operators are not
    #[arg(long)]
    seed: Option<u64>,
    /// Threads that run the model at the same time
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = within(1usize, 1024))]
    threads: usize,
    /// The device to run on
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// Compute in half precision, f16, where the model says f32
    #[arg(long)]
    half: bool,
    /// The deadline of each run, in milliseconds from its start, including planning
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    within: Option<u64>,
    /// The maximum number of nodes that a run evaluates and ops that it encodes, including rounds of loops
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Run the model repeatedly, and measure
    #[arg(long)]
    repeat: bool,
    /// With --repeat, leave inputs and outputs on the device
    #[arg(long, requires = "repeat", conflicts_with_all = ["within", "steps"])]
    resident: bool,
    /// How long --repeat measures, in seconds
    #[arg(long, default_value_t = 3.0, requires = "repeat", allow_negative_numbers = true, value_parser = within(0.001, 3600.0))]
    seconds: f64,
    /// The expected outputs, by name
    #[arg(long, value_name = "NPZ")]
    check: Option<PathBuf>,
    /// The allowed difference from the expected values, absolute or relative
    #[arg(long, default_value_t = 1e-4, requires = "check", allow_negative_numbers = true, value_parser = within(0.0, 1.0))]
    tolerance: f64,
    /// Write the outputs of the first run to this file
    #[arg(long, value_name = "NPZ")]
    output: Option<PathBuf>,
    /// Write a trace for Perfetto or chrome://tracing, and show how long each node took; with CUDA also the kernels of a run
    #[arg(long, value_name = "JSON")]
    profile: Option<PathBuf>,
    /// Write one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// Those of a run that begins now.
    fn of_run(&self) -> RunOptions {
        let until = |milliseconds| RunOptions::within(Duration::from_millis(milliseconds));
        RunOptions {
            steps: self.steps,
            ..self.within.map_or_else(RunOptions::default, until)
        }
    }
}

/// Runs it, and tells what it came to.
pub fn run(options: &Options) -> Result<Outcome> {
    crate::threads::check(options.threads)?;
    let pool = options.device.pool()?;
    let report = report(options, &pool)?;
    for cache in pool.snapshot()?.caches {
        if let Some(problem) = cache.problem {
            output::warning(&unusable_cache(&problem));
        }
    }
    output::told(options.json, &report, || report.page())?;
    Ok(Outcome::of(report.ok))
}

/// A seed that is another in each call.
fn any_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn report(options: &Options, pool: &Pool) -> Result<Report> {
    let progress = Progress::on_terminal();
    let session_options = SessionOptions {
        precision: options.half.then_some(DType::F16),
        // All threads of one call get the same, so that they can be compared.
        seed: Some(options.seed.unwrap_or_else(any_seed)),
        ..SessionOptions::default()
    };
    progress.step(1, 4, &format!("loading {}", options.model.display()));
    let (load, session) =
        timed(|| Ok(Session::load_with(pool, &options.model, &session_options)?))?;
    let from = match &options.input {
        Some(path) => From::File(path),
        None => From::Seed(options.seed.unwrap_or(0), &options.shape),
    };
    let session = from.session(session)?;
    let inputs = from.inputs(session.inputs(), 0, pool)?;
    let told = given(&session, &inputs);
    progress.step(2, 4, "the first run");
    let go = || Ok(session.run_positional_with(&refer(&inputs), &options.of_run())?);
    let (first_run, outputs) = timed(go)?;
    let profiled = options.profile.is_some();
    let of_run = || options.of_run();
    let (mut run_seconds, mut measured, mut at_once) = (None, None, None::<AtOnce>);
    let profile = if options.repeat {
        let all = for_each_thread(options, from, &session, inputs)?;
        let seconds = options.seconds;
        let what = format!("{} threads for {seconds} s", options.threads);
        progress.step(3, 4, &what);
        let time = Duration::from_secs_f64(seconds);
        let ends = match options.resident {
            true => threads::Ends::Device,
            false => threads::Ends::Host,
        };
        let (all_did, profile) = threads::repeat(&session, &all, time, ends, &of_run, profiled)?;
        measured = Some(all_did);
        profile
    } else {
        progress.step(3, 4, "the next run");
        let ((seconds, _), profile) = threads::recorded(&session, profiled, || timed(go))?;
        run_seconds = Some(seconds);
        if options.threads > 1 {
            let threads = options.threads;
            let differing = threads::differing(&session, &inputs, threads, &of_run, &outputs)?;
            at_once = Some(AtOnce { threads, differing });
        }
        profile
    };
    let (memory, statistics) = (pool.snapshot()?.memory, session.statistics());
    // What follows takes memory of its own.
    let peak_rss_bytes = machine::peak_memory();
    progress.step(4, 4, "looking at what came out");
    let named = named(&outputs);
    let seen = named.iter();
    let seen = seen.map(|(name, array)| Seen::of(name.clone(), array, pool));
    let compare = |path| check::against(path, &outputs, options.tolerance, pool);
    let check = options.check.as_deref().map(compare).transpose()?;
    let same = at_once.as_ref().is_none_or(|all| all.differing == 0);
    let right = check.iter().flatten().all(|one| one.ok);
    let mut report = Report {
        ok: same && right,
        model: options.model.clone(),
        device: pool.device().properties().name.clone(),
        machine: Machine::with(pool.device().properties()),
        inputs: told,
        load_seconds: load,
        first_run_seconds: first_run,
        run_seconds,
        measured,
        at_once,
        peak_rss_bytes,
        memory,
        session: statistics,
        outputs: seen.collect::<Result<_>>()?,
        check,
        profile: None,
        nodes: None,
        kernels: None,
        profile_dropped: 0,
    };
    if let Some(path) = &options.output {
        write_outputs(path, &named, pool)?;
    }
    if let (Some(path), Some(profile)) = (&options.profile, profile) {
        write_profile(path, &profile.ops)?;
        report.profile = Some(profile::ops(&profile.ops));
        report.profile_dropped = profile.ops.dropped();
        let runs = report.measured.as_ref().map_or(1, |measured| measured.runs);
        let processors = pool.device().properties().compute_units;
        report.kernels = profile::on_gpu(&profile.ops, runs, processors);
        report.nodes = Some(profile::nodes(profile));
    }
    Ok(report)
}

/// The inputs of each thread, of which the first has `first`.
fn for_each_thread(
    options: &Options,
    from: From<'_>,
    session: &Session,
    first: Vec<Array>,
) -> Result<Vec<Vec<Array>>> {
    let others = (1..options.threads).map(|thread| match from.differ() {
        true => from.inputs(session.inputs(), thread, session.pool()),
        false => Ok(first.clone()),
    });
    let others = others.collect::<Result<Vec<_>>>()?;
    Ok(std::iter::once(first).chain(others).collect())
}

fn given(session: &Session, inputs: &[Array]) -> Vec<Given> {
    let each = session.inputs().iter().zip(inputs);
    each.map(|(port, array)| Given {
        name: port.name.clone(),
        dtype: array.dtype().to_string(),
        shape: array.shape().to_vec(),
    })
    .collect()
}

/// Each array of the outputs; those of a sequence are numbered.
fn named(outputs: &Outputs) -> Vec<(String, &Array)> {
    let each = outputs.iter().flat_map(|(name, arrays)| {
        let numbered = arrays.len() != 1;
        arrays
            .iter()
            .enumerate()
            .map(move |(number, array)| match numbered {
                true => (format!("{name}.{number}"), array),
                false => (name.to_owned(), array),
            })
    });
    each.collect()
}

fn write_outputs(path: &Path, named: &[(String, &Array)], pool: &Pool) -> Result<()> {
    let tensors: Vec<(&str, Tensor)> = named
        .iter()
        .map(|(name, array)| Ok((&name[..], array.tensor(pool)?)))
        .collect::<Result<_>>()?;
    let tensors = tensors.iter().map(|(name, tensor)| (*name, tensor));
    Ok(streampool::tensor::write_npz(path, tensors, false)?)
}

fn write_profile(path: &Path, profile: &Profile) -> Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        profile.write_chrome_trace(&mut file)?;
        file.flush()
    });
    written.map_err(|error| format!("{}: {error}", path.display()).into())
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let begin = Instant::now();
    let done = work()?;
    Ok((begin.elapsed().as_secs_f64(), done))
}
