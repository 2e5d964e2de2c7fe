//! `streampool-measure several`: several devices of one machine, alone and together.

mod apart;
mod callers;
mod mixed;
mod speed;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use streampool::DeviceSet;

use crate::device::On;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::table::{Align, Table};
use crate::text::{bytes, compact, figure, time, within};
use crate::{Outcome, Result, output};
use apart::{Apart, Plan};
use callers::Callers;
use mixed::Mixed;
use speed::Speed;
use workload::Workload;

/// Threads for each device: as many as a pool has streams beside the main thread's.
const THREADS: usize = 31;

/// Callers of the queue.
const CALLERS: usize = 512;

/// Measure several devices of one machine: each alone, and all together in one process
///
/// The exit code is 1 if a result is wrong. A goal that is missed is no failure.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool-measure several --devices 2 --quick\n  \
        streampool-measure several --device cuda --models MODELS")]
pub struct Options {
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// The devices to measure on: all GPUs, or as many host devices as --devices says
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// How many devices; by default all GPUs, or two of the host
    #[arg(long, value_name = "COUNT", value_parser = within(1usize, 64))]
    devices: Option<usize>,
    /// A folder with half.onnx, the encoder that bench/models/make_encoder.py writes
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// How long each measurement takes
    #[arg(long, value_name = "S", value_parser = within(0.05, 600.0))]
    seconds: Option<f64>,
    /// A first impression: half a second for each
    #[arg(long)]
    quick: bool,
    /// Threads for each device
    #[arg(long, value_name = "COUNT", default_value_t = THREADS, value_parser = within(1usize, 256))]
    threads: usize,
    /// Be one process of several: measure the workload of this number when told
    #[arg(long, hide = true)]
    worker: Option<usize>,
}

/// What was measured, where.
#[derive(Serialize)]
struct Report {
    devices: usize,
    machine: Machine,
    seconds: f64,
    speed: Vec<Speed>,
    mixed: Mixed,
    callers: Callers,
    /// One process of all devices beside one for each.
    processes: Vec<Apart>,
}

/// Measures, and says what it came to.
pub fn run(options: &Options) -> Result<Outcome> {
    let set = set(options)?;
    let usual = if options.quick { 0.5 } else { 5.0 };
    let slice = Duration::from_secs_f64(options.seconds.unwrap_or(usual));
    let workloads = Workload::all(options.models.as_deref(), options.threads)?;
    if let Some(number) = options.worker {
        let workload = workloads.get(number).ok_or("there is no such workload")?;
        apart::work(&set, workload, slice)?;
        return Ok(Outcome::Good);
    }
    let progress = Progress::on_terminal();
    let steps = 2 * workloads.len() + 2;
    let mut speed = Vec::new();
    for (number, workload) in workloads.iter().enumerate() {
        progress.step(number + 1, steps, workload.name);
        speed.push(speed::measure(&set, workload, slice)?);
    }
    progress.step(workloads.len() + 1, steps, "eight models, mixed");
    let mixed = mixed::measure(&set, options.threads * set.len(), slice)?;
    progress.step(workloads.len() + 2, steps, "callers of a queue");
    let callers = callers::measure(&set, CALLERS, slice)?;
    let first = set.pools().next().ok_or("there is no device")?;
    let machine = Machine::with(first.device().properties());
    let devices = set.len();
    // The other processes need the memory.
    drop(set);
    let plan = Plan {
        device: options.device,
        devices,
        models: options.models.as_deref(),
        time: slice,
    };
    let mut processes = Vec::new();
    for (number, workload) in workloads.iter().enumerate() {
        let step = workloads.len() + 3 + number;
        progress.step(step, steps, "one process, and one for each device");
        processes.push(apart::measure(&plan, number, workload.name)?);
    }
    drop(progress);
    let report = Report {
        devices,
        machine,
        seconds: slice.as_secs_f64(),
        speed,
        mixed,
        callers,
        processes,
    };
    output::told(options.json, &report, || report.page())?;
    Ok(Outcome::of(report.is_right()))
}

/// The devices that are asked for.
fn set(options: &Options) -> Result<DeviceSet> {
    let set = match options.device {
        On::Cuda => streampool::cuda_set()?,
        On::Host => return Ok(streampool::host_set(options.devices.unwrap_or(2))?),
        On::Metal => return Err("several Apple GPUs are not measured".into()),
    };
    let count = options.devices.unwrap_or(set.len());
    if count > set.len() {
        return Err(format!("there are {} GPUs, and not {count}", set.len()).into());
    }
    Ok(DeviceSet::new(set.pools().take(count).cloned())?)
}

impl Report {
    /// Whether no result is wrong.
    fn is_right(&self) -> bool {
        self.speed.iter().all(|speed| speed.same_bits)
            && self.mixed.wrong == 0
            && self.callers.each_once
    }

    fn page(&self) -> String {
        use Align::{Left, Right};
        let mut speed = Table::new(2, &[Left, Right, Right, Right, Right, Right, Left, Left]);
        speed.row([
            "",
            "threads",
            "one, /s",
            "all, /s",
            "ratio",
            "p99 one, all",
            "bits",
            "goals",
        ]);
        for of in &self.speed {
            let one: f64 = of.one.iter().map(|pace| pace.per_second).sum();
            let worst = of.one.iter().map(|pace| pace.p99).fold(0.0, f64::max);
            let goals = match (of.scales, of.p99_no_worse) {
                (true, true) => "ok",
                (false, _) => "missed: rate",
                _ => "missed: p99",
            };
            speed.row([
                of.model.to_owned(),
                format!("{} each", of.threads_per_device),
                compact(one / of.one.len() as f64),
                compact(of.all.per_second),
                figure(of.ratio),
                format!("{}, {}", time(worst), time(of.all.p99)),
                if of.same_bits { "same" } else { "DIFFER" }.to_owned(),
                goals.to_owned(),
            ]);
        }
        let mut processes = Table::new(2, &[Left, Right, Right, Right, Right, Right]);
        processes.row(["", "processes", "/s", "p99", "host memory", "GPU memory"]);
        for of in &self.processes {
            for done in [&of.together, &of.apart] {
                processes.row([
                    of.model.clone(),
                    done.processes.to_string(),
                    compact(done.per_second),
                    time(done.p99),
                    bytes(done.host_memory),
                    done.device_memory.map_or_else(String::new, bytes),
                ]);
            }
        }
        let (mixed, callers) = (&self.mixed, &self.callers);
        format!(
            "{} devices: {}\n\nEach alone, and all together:\n\n{}\n\
             {} models from {} threads: {} runs, {} wrong, begun on each device: {:?}\n\n\
             {} callers of a queue: {}/s ({}/s with one device), p99 {}, uneven by {:.1} % \
             (99 of 100 looks: {:.1} %), {} answered, {} wrong, {}\n\n\
             One process of all devices, and one for each:\n\n{}",
            self.devices,
            self.machine.line(),
            speed.render(),
            mixed.models,
            mixed.threads,
            mixed.runs,
            mixed.wrong,
            mixed.begun,
            callers.callers,
            compact(callers.per_second),
            compact(callers.per_second_of_one),
            time(callers.p99),
            100.0 * callers.uneven,
            100.0 * callers.uneven_p99,
            callers.answered,
            callers.wrong,
            if callers.each_once {
                "each once"
            } else {
                "NOT EACH ONCE"
            },
            processes.render(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_host_devices_are_measured() {
        let set = streampool::host_set(2).unwrap();
        let slice = Duration::from_millis(100);
        let speed = speed::measure(&set, &Workload::mlp(2).unwrap(), slice).unwrap();
        assert!(speed.same_bits && speed.ratio > 0.0 && speed.one.len() == 2);
        let mixed = mixed::measure(&set, 4, slice).unwrap();
        assert_eq!((mixed.models, mixed.wrong), (8, 0));
        assert_eq!(mixed.begun.iter().sum::<u64>(), mixed.runs as u64);
        let callers = callers::measure(&set, 16, slice).unwrap();
        assert!(callers.each_once && callers.answered > 0, "{callers:?}");
    }

    #[test]
    fn what_there_is_no_device_for_is_refused() {
        let options = Options {
            json: false,
            device: On::Metal,
            devices: Some(2),
            models: None,
            seconds: Some(0.1),
            quick: true,
            threads: 2,
            worker: None,
        };
        let error = run(&options).map(drop).unwrap_err().to_string();
        assert!(error.contains("Apple"), "{error}");
    }
}
