//! `streampool-measure fairness`: whether every thread gets its turn while others run flat out.

mod calls;
mod crowd;
mod first;
pub mod mlp;
mod submits;

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use streampool::model::{Session, SessionOptions};

use crate::device::On;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::table::{Align, Table};
use crate::text::{compact, figure, time, within};
use crate::{Outcome, Result, output, threads};
use calls::Calls;
use crowd::Crowd;
use first::Firsts;
use submits::Submits;

/// How many threads there are, one crowd after the other.
const THREADS: [usize; 8] = [2, 8, 16, 31, 32, 48, 128, 256];

/// Measure whether every thread gets its turn: a crowd of threads that run one model flat out, while a quarter of them
/// start anew, bring inputs of new sizes, or load another model
///
/// Takes about two minutes; quieten the machine first.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool-measure fairness --quick\n  \
        streampool-measure fairness --device cuda\n  \
        streampool-measure fairness --device cuda --threads 31 --seconds 60\n  \
        streampool-measure fairness --device cuda --calls\n  \
        streampool-measure fairness --json | jq '.crowds[].fewest_by_most'")]
pub struct Options {
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// The device to measure on
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// How many threads, one crowd after the other
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = within(1usize, 1024))]
    threads: Vec<usize>,
    /// How long each crowd runs
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = within(0.1, 3600.0))]
    seconds: Option<f64>,
    /// A first impression: one second for each crowd
    #[arg(long)]
    quick: bool,
    /// Time each kind of call of the CUDA driver instead, while 31 threads launch
    #[arg(long)]
    calls: bool,
}

/// What was measured, where.
#[derive(Serialize)]
struct Report {
    device: String,
    machine: Machine,
    seconds: f64,
    /// First answers while nothing else runs.
    idle: Firsts,
    crowds: Vec<Crowd>,
    submits: Submits,
}

/// Measures, and says what it came to. A goal that is missed is no failure of the program.
pub fn run(options: &Options) -> Result<Outcome> {
    if options.calls {
        let calls = Calls::measure(options.device)?;
        output::told(options.json, &calls, || calls.page())?;
        return Ok(Outcome::Good);
    }
    let counts = match &options.threads[..] {
        [] => &THREADS[..],
        chosen => chosen,
    };
    counts.iter().try_for_each(|&count| threads::check(count))?;
    let usual = if options.quick { 1.0 } else { 10.0 };
    let slice = Duration::from_secs_f64(options.seconds.unwrap_or(usual));
    let pool = options.device.pool()?;
    let session = Session::from_bytes(&pool, mlp::onnx()?, &SessionOptions::default())?;
    let progress = Progress::on_terminal();
    progress.step(1, counts.len() + 1, "first answers on an idle device");
    let newcomers = first::Newcomers::new(&pool, &session)?;
    let idle = newcomers.idle()?;
    // First, while the process is small.
    let submits = Submits::measure(&pool)?;
    let mut crowds = Vec::new();
    for (number, &count) in counts.iter().enumerate() {
        let what = format!("{count} threads");
        progress.step(number + 2, counts.len() + 1, &what);
        crowds.push(crowd::run(&session, &newcomers, count, slice)?);
    }
    drop(progress);
    let report = Report {
        device: pool.device().properties().name.clone(),
        machine: Machine::with(pool.device().properties()),
        seconds: slice.as_secs_f64(),
        idle,
        crowds,
        submits,
    };
    output::told(options.json, &report, || report.page())?;
    Ok(Outcome::Good)
}

impl Report {
    fn page(&self) -> String {
        let mut turns = Table::new(2, &[Align::Right; 7]);
        turns.row([
            "threads",
            "runs/s",
            "fewest",
            "most",
            "fewest/most",
            "p99.9",
            "longest wait",
        ]);
        for crowd in &self.crowds {
            turns.row([
                crowd.threads.to_string(),
                compact(crowd.runs_per_second),
                crowd.fewest.to_string(),
                crowd.most.to_string(),
                figure(crowd.fewest_by_most),
                crowd.p99_9.map_or_else(String::new, time),
                time(crowd.longest_wait),
            ]);
        }
        let mut firsts = Table::new(2, &[Align::Right; 4]);
        firsts.row(["threads", "new thread", "new sizes", "new model"]);
        firsts.row(self.idle.cells("idle"));
        for crowd in &self.crowds {
            firsts.row(crowd.firsts.cells(&crowd.threads.to_string()));
        }
        format!(
            "Threads that run a model flat out on {}: {}\n\n\
             Runs of a thread in {} s, and its waits for answers, the first 10 ms left out:\n\n{}\n\
             First answers meanwhile, median and longest:\n\n{}\n{}",
            self.device,
            self.machine.line(),
            self.seconds,
            turns.render(),
            firsts.render(),
            self.submits.line(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_crowd_is_measured_on_the_host() {
        let pool = streampool::host_pool().unwrap();
        let session =
            Session::from_bytes(&pool, mlp::onnx().unwrap(), &SessionOptions::default()).unwrap();
        let newcomers = first::Newcomers::new(&pool, &session).unwrap();
        let idle = newcomers.idle().unwrap();
        // Each thread has to get its turn in this time, also beside other processes.
        let slice = Duration::from_secs(1);
        let crowds =
            [2, 5].map(|threads| crowd::run(&session, &newcomers, threads, slice).unwrap());
        for crowd in &crowds {
            assert!(crowd.fewest > 0 && crowd.fewest <= crowd.most);
            assert!((0.0..=1.0).contains(&crowd.fewest_by_most));
        }
        let report = Report {
            device: "host".to_owned(),
            machine: Machine::with(pool.device().properties()),
            seconds: 1.0,
            idle,
            crowds: crowds.into(),
            submits: Submits::measure(&pool).unwrap(),
        };
        let page = report.page();
        assert!(
            page.contains("longest wait") && page.contains("idle"),
            "{page}"
        );
    }
}
