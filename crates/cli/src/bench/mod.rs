//! `streampool bench model`: a user's own model under threads, batches, shapes and load.

mod csv;
mod load;
mod point;
mod queue;
mod report;
mod shapes;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use streampool::{Array, DType, Session, SessionOptions};

use crate::device::On;
use crate::inputs::{self, made, refer};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::text::within;
use crate::{Outcome, Result, output, threads};
use load::{Load, drive};
use point::{Point, Spec, Via};
use queue::rows_per_batch;
use report::Report;
use shapes::Shapes;

/// Find the best way to serve a model: threads, batches, shapes, load
///
/// Measures every combination of --threads, --batch and --shape as one point. Without --rate, each thread sends its next
/// request as soon as it has an answer. With --rate, requests arrive at random at that rate, the next free thread takes the
/// next request, and latency counts from the arrival, including the wait for a thread.
///
/// Inputs are generated as in `streampool run`, different for each thread, and are copied from and to the host. The exit
/// code is 1 if a request failed.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool bench model model.onnx --batch 1,8,32\n  \
        streampool bench model model.onnx --shape ids=1,16 --shape ids=1,128\n  \
        streampool bench model model.onnx --threads 8 --rate 50,100,200 --queue\n  \
        streampool bench model model.onnx --batch 1,8,32 --out report --csv points.csv\n  \
        streampool bench model model.onnx --json | jq .verdict")]
pub struct Options {
    /// The model
    model: PathBuf,
    /// Threads that send requests at the same time
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2,8,31", allow_negative_numbers = true, value_parser = within(1usize, 1024))]
    threads: Vec<usize>,
    /// Rows of a request, on axis 0 of every input; by default, as many as the shapes have
    #[arg(long, value_name = "N,..", value_delimiter = ',', allow_negative_numbers = true, value_parser = within(1usize, 1_000_000))]
    batch: Vec<usize>,
    /// The shape of an input, such as x=1,16; once for each input. Naming an input again starts the next set of shapes
    #[arg(long, value_name = "NAME=SIZES", value_parser = inputs::Given::parse)]
    shape: Vec<inputs::Given>,
    /// Random arrivals per second
    #[arg(long, value_name = "N,..", value_delimiter = ',', allow_negative_numbers = true, value_parser = within(0.001, 1e6))]
    rate: Vec<f64>,
    /// Also measure each point through a queue that runs requests in batches
    #[arg(long)]
    queue: bool,
    #[command(flatten)]
    policy: queue::Policy,
    /// How long each point is measured, in seconds
    #[arg(long, default_value_t = 3.0, allow_negative_numbers = true, value_parser = within(0.001, 3600.0))]
    seconds: f64,
    /// The device to run on
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// Compute in half precision, f16, where the model says f32
    #[arg(long)]
    half: bool,
    /// The seed of generated inputs
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write a page with plots, report.html, to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Write the points as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Measures, and says what it came to.
pub fn run(options: &Options) -> Result<Outcome> {
    threads::check(options.threads.iter().copied().max().unwrap_or(1))?;
    // What cannot be written in the end is better known now.
    write_files(options, "", "")?;
    let report = measure(options)?;
    let page = report.page();
    write_files(options, &csv::of(&report.points), &page.html())?;
    output::told(options.json, &report, || page.text())?;
    Ok(Outcome::of(report.is_whole()))
}

fn write_files(options: &Options, csv: &str, html: &str) -> Result<()> {
    if let Some(path) = &options.csv {
        output::file(path, csv)?;
    }
    if let Some(folder) = &options.out {
        output::folder(folder)?;
        output::file(&folder.join("report.html"), html)?;
    }
    Ok(())
}

fn measure(options: &Options) -> Result<Report> {
    let progress = Progress::on_terminal();
    let pool = options.device.pool()?;
    let session_options = SessionOptions {
        precision: options.half.then_some(DType::F16),
        ..SessionOptions::default()
    };
    let session = Session::load_with(&pool, &options.model, &session_options)?;
    let sets = shapes::sets(session.inputs(), &options.shape, &options.batch)?;
    if options.queue {
        options.policy.queue(&session)?;
    }
    let specs = specs(options, &sets);
    let mut points = Vec::with_capacity(specs.len());
    for (number, spec) in specs.iter().enumerate() {
        progress.step(number + 1, specs.len(), &spec.told());
        points.push(measure_point(options, &session, spec)?);
    }
    let properties = pool.device().properties();
    Ok(Report {
        model: options.model.clone(),
        device: properties.name.clone(),
        machine: Machine::with(properties),
        seconds: options.seconds,
        verdict: report::verdicts(&points),
        points,
    })
}

/// What is measured, in order. Where requests arrive at a rate, one thread alone says what a request takes at least.
fn specs(options: &Options, sets: &[Vec<Shapes>]) -> Vec<Spec> {
    let mut specs = Vec::new();
    for (set, all_rows) in sets.iter().enumerate() {
        for shapes in all_rows {
            let spec = |via, threads, rate| Spec {
                set,
                shapes: shapes.clone(),
                via,
                threads,
                rate,
            };
            let rates: Vec<Option<f64>> = match options.rate.is_empty() {
                true => vec![None],
                false => options.rate.iter().copied().map(Some).collect(),
            };
            if !options.rate.is_empty() {
                specs.push(spec(Via::Threads, 1, None));
            }
            let queue = options.queue.then_some(Via::Queue);
            for via in std::iter::once(Via::Threads).chain(queue) {
                for &threads in &options.threads {
                    specs.extend(rates.iter().map(|&rate| spec(via, threads, rate)));
                }
            }
        }
    }
    specs
}

fn measure_point(options: &Options, session: &Session, spec: &Spec) -> Result<Point> {
    let ports = session.inputs();
    let own = |thread: usize| {
        let seed = options.seed.wrapping_add(thread as u64);
        made(ports, &spec.shapes.each, seed, session.pool())
    };
    let inputs: Vec<Vec<Array>> = (0..spec.threads).map(own).collect::<Result<_>>()?;
    let time = Duration::from_secs_f64(options.seconds);
    let load = |warm| Load {
        time,
        warm,
        rate: spec.rate,
    };
    let shape = spec.shapes.told(ports);
    match spec.via {
        Via::Threads => {
            let ask = |own: &&Vec<Array>| Ok(session.run_positional(&refer(own)).map(drop)?);
            let driven = drive(inputs.iter(), load(Duration::ZERO), ask, || ())?;
            Ok(Point::new(spec, shape, driven, None))
        }
        Via::Queue => {
            let queue = options.policy.queue(session)?;
            let ask = |own: &&Vec<Array>| Ok(queue.infer((*own).clone()).map(drop)?);
            // Batches of every size that callers make are planned before.
            let driven = drive(inputs.iter(), load(time / 4), ask, || queue.statistics())?;
            let rows = rows_per_batch(&driven.before, &queue.statistics());
            Ok(Point::new(spec, shape, driven, rows))
        }
    }
}
