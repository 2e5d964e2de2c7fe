//! `streampool-measure lengths`: text of many lengths, as requests bring it, beside text of one length.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use streampool::model::{Session, Statistics, ValueInfo};
use streampool::{Array, DType, Pool};

use crate::device::On;
use crate::latencies::Latencies;
use crate::machine::Machine;
use crate::table::{Align, Table};
use crate::text::{bytes, compact, time, within};
use crate::{Failure, Outcome, Result, output, threads};

/// So many lengths are met for the first time.
const NEW: usize = 32;

/// Measure what it costs that each request has a length of its own
///
/// The model is a text encoder: each of its inputs takes whole numbers of shape [batch, words]. Takes half a minute; quieten the
/// machine first.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool-measure lengths encoder.onnx --device cuda\n  \
        streampool-measure lengths encoder.onnx --batch 32 --threads 8")]
pub struct Options {
    /// The model
    model: std::path::PathBuf,
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// The device to measure on
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// How many threads, one crowd after the other
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_values_t = [8, 31], value_parser = within(1usize, 1024))]
    threads: Vec<usize>,
    /// Lengths are drawn from 1 to this
    #[arg(long, default_value_t = 256, value_parser = within(2usize, 1 << 16))]
    words: usize,
    /// Batches are drawn from 1 to this
    #[arg(long, default_value_t = 1, value_parser = within(1usize, 1 << 16))]
    batch: usize,
    /// How long each is measured, after as long to warm up
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = within(0.1, 3600.0))]
    seconds: f64,
}

/// What was measured, where. Times are in seconds.
#[derive(Serialize)]
struct Report {
    device: String,
    machine: Machine,
    /// What the first run of a length takes beyond the second, on an idle device: the median.
    new_length: f64,
    new_length_longest: f64,
    crowds: Vec<Crowd>,
}

#[derive(Serialize)]
struct Crowd {
    threads: usize,
    /// Runs a second where all have half the length and half the batch.
    mean: f64,
    /// Runs a second where lengths are random.
    random: f64,
    statistics: Statistics,
}

/// Measures, and says what it came to.
pub fn run(options: &Options) -> Result<Outcome> {
    options
        .threads
        .iter()
        .try_for_each(|&count| threads::check(count))?;
    let pool = options.device.pool()?;
    let (new_length, new_length_longest) = first_runs(&pool, options)?;
    let mut crowds = Vec::new();
    for &count in &options.threads {
        let mean = (options.batch.div_ceil(2), options.words / 2);
        let (mean, _) = rate(&pool, options, count, |_| mean)?;
        let (random, statistics) = rate(&pool, options, count, |random| {
            (
                random.usize(1..=options.batch),
                random.usize(1..=options.words),
            )
        })?;
        crowds.push(Crowd {
            threads: count,
            mean,
            random,
            statistics,
        });
    }
    let report = Report {
        device: pool.device().properties().name.clone(),
        machine: Machine::with(pool.device().properties()),
        new_length,
        new_length_longest,
        crowds,
    };
    output::told(options.json, &report, || report.page())?;
    Ok(Outcome::Good)
}

impl Report {
    fn page(&self) -> String {
        let mut table = Table::new(2, &[Align::Right; 6]);
        table.row([
            "threads",
            "one length",
            "random",
            "ratio",
            "captures",
            "memory",
        ]);
        for crowd in &self.crowds {
            table.row([
                crowd.threads.to_string(),
                compact(crowd.mean),
                compact(crowd.random),
                format!("{:.2}", crowd.random / crowd.mean),
                crowd.statistics.captures.to_string(),
                bytes(crowd.statistics.program_bytes),
            ]);
        }
        format!(
            "{}\nRuns a second:\n\n{}\nThe first run of a length takes {} more than the second (median; at most {}).\n",
            self.device,
            table.render(),
            time(self.new_length),
            time(self.new_length_longest)
        )
    }
}

/// What the model gets: words that it has.
fn inputs(session: &Session, (batch, words): (usize, usize)) -> Result<Vec<(String, Array)>> {
    let one = |input: &ValueInfo| {
        if input.dtype != Some(DType::I64) {
            return Err(Failure::from(format!(
                "lengths are measured on models of words, but the input {} takes no i64",
                input.name
            )));
        }
        let values: Vec<i64> = vec![1; batch * words];
        Ok((
            input.name.clone(),
            Array::from_vec(values, &[batch, words])?,
        ))
    };
    session.inputs().iter().map(one).collect()
}

fn once(session: &Session, inputs: &[(String, Array)]) -> Result<Duration> {
    let begun = Instant::now();
    session.run(inputs.iter().map(|(name, array)| (name.as_str(), array)))?;
    Ok(begun.elapsed())
}

fn load(pool: &Pool, options: &Options) -> Result<Session> {
    Ok(Session::load(pool, &options.model)?)
}

/// What the first run of a length takes beyond the second: median and longest.
fn first_runs(pool: &Pool, options: &Options) -> Result<(f64, f64)> {
    // Kernels that some lengths need are compiled before.
    let other = load(pool, options)?;
    let lengths = || (0..NEW).map(|number| 1 + number * (options.words - 1) / NEW);
    for words in lengths() {
        once(&other, &inputs(&other, (1, words))?)?;
    }
    let session = load(pool, options)?;
    once(&session, &inputs(&session, (1, options.words))?)?;
    let mut beyond = Vec::new();
    for words in lengths() {
        let inputs = inputs(&session, (1, words))?;
        let first = once(&session, &inputs)?;
        beyond.push(first.saturating_sub(once(&session, &inputs)?));
    }
    let beyond = Latencies::new(beyond);
    Ok((beyond.at(0.5).as_secs_f64(), beyond.at(1.0).as_secs_f64()))
}

/// Runs a second of so many threads, each run of the shape that `shape` draws, and what the session did.
fn rate(
    pool: &Pool,
    options: &Options,
    threads: usize,
    shape: impl Fn(&mut fastrand::Rng) -> (usize, usize) + Sync,
) -> Result<(f64, Statistics)> {
    let session = load(pool, options)?;
    let (stop, runs) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let work = |number: u64| -> Result<()> {
        let mut random = fastrand::Rng::with_seed(number);
        while !stop.load(Ordering::Relaxed) {
            once(&session, &inputs(&session, shape(&mut random))?)?;
            runs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let rate = std::thread::scope(|scope| -> Result<f64> {
        let running: Vec<_> = (0..threads as u64)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let slice = Duration::from_secs_f64(options.seconds);
        std::thread::sleep(slice);
        let (before, begun) = (runs.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(slice);
        let (after, took) = (runs.load(Ordering::Relaxed), begun.elapsed());
        stop.store(true, Ordering::Relaxed);
        for thread in running {
            let ended = thread.join();
            ended.map_err(|_| Failure::from("a thread panicked"))??;
        }
        Ok((after - before) as f64 / took.as_secs_f64())
    })?;
    Ok((rate, session.statistics()))
}
