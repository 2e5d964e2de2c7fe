//! What a run came to, as a page and as JSON.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use streampool::model::Statistics;
use streampool::runtime::MemorySnapshot;

use super::check::Compared;
use super::profile::{self, OfKind, OfNode, OnGpu};
use super::threads::Measured;
use super::values::Seen;
use crate::machine::Machine;
use crate::table::{Align, Table};
use crate::text::{self, bytes, compact, count, counted, time};

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// The file of the model.
    #[serde(serialize_with = "crate::output::path")]
    pub model: PathBuf,
    /// The name of the device.
    pub device: String,
    /// The machine.
    pub machine: Machine,
    /// What was given, by name: type and shape.
    pub inputs: Vec<Given>,
    /// How long loading took.
    pub load_seconds: f64,
    /// How long the first run took, planning included.
    pub first_run_seconds: f64,
    /// How long the second one took, where it is not repeated.
    pub run_seconds: Option<f64>,
    /// What many threads did.
    #[serde(flatten)]
    pub measured: Option<Measured>,
    /// Threads that ran it once at the same time, and how many got other outputs than one alone.
    pub at_once: Option<AtOnce>,
    /// The most memory the process had.
    pub peak_rss_bytes: Option<usize>,
    /// The memory of the pool.
    pub memory: MemorySnapshot,
    /// What the session did and holds.
    pub session: Statistics,
    /// What came out.
    pub outputs: Vec<Seen>,
    /// How it compares to what it should be.
    pub check: Option<Vec<Compared>>,
    /// What took how long.
    pub profile: Option<Vec<OfKind>>,
    /// The nodes of the model, the one that took longest first.
    pub nodes: Option<Vec<OfNode>>,
    /// The kernels of the programs, where a GPU tells of them and the profile has room for all.
    pub kernels: Option<OnGpu>,
    /// Records that the profile had no room for.
    pub profile_dropped: u64,
}

/// One input.
#[derive(Debug, Serialize)]
pub struct Given {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<usize>,
}

/// Runs at the same time.
#[derive(Debug, Serialize)]
pub struct AtOnce {
    pub threads: usize,
    pub differing: usize,
}

impl Report {
    /// It for a terminal.
    pub fn page(&self) -> String {
        let (model, device) = (text::file_name(&self.model), &self.device);
        let mut page = format!("{model} on {device}: {}\n\n", self.machine.line());
        page.push_str(&self.times().render());
        if let Some(measured) = &self.measured {
            page.push_str(&meanwhile(measured));
        }
        page.push_str("\nOutputs\n");
        page.push_str(&self.table_of_outputs());
        if let Some(check) = &self.check {
            let mut table = Table::new(2, &[Align::Left; 3]);
            for one in check {
                let name = text::shortened(&one.name, 24);
                table.row([one.verdict().to_owned(), name, one.told()]);
            }
            let _ = write!(page, "\nCompared with the reference\n{}", table.render());
        } else {
            for output in self.outputs.iter().filter(|output| output.nan > 0) {
                let (nan, name) = (count(output.nan as u64), text::shortened(&output.name, 24));
                let of = count(output.shape.iter().product::<usize>() as u64);
                let _ = writeln!(page, "  WARNING: {nan} of {of} values of {name} are NaN");
            }
        }
        if let Some(profile) = &self.profile {
            page.push_str(&profile::table_of_ops(profile, self.profile_dropped));
        }
        if let Some(nodes) = &self.nodes {
            page.push_str(&profile::table_of_nodes(nodes));
        }
        if let Some(kernels) = &self.kernels {
            page.push_str(&profile::table_of_kernels(kernels));
        }
        page
    }

    fn times(&self) -> Table {
        let mut table = Table::pairs(2);
        for input in &self.inputs {
            let name = text::shortened(&input.name, 24);
            let told = format!("{} {:?}", input.dtype, input.shape);
            table.pair(format!("input {name}"), told);
        }
        table.pair("loaded in", time(self.load_seconds));
        table.pair("first run", time(self.first_run_seconds));
        if let Some(seconds) = self.run_seconds {
            table.pair("next run", time(seconds));
        }
        if let Some(AtOnce { threads, differing }) = self.at_once {
            let verdict = match differing {
                0 => "same outputs".to_owned(),
                _ => format!("DIFFERENT OUTPUTS from {differing}"),
            };
            table.pair(counted(threads as u64, "thread"), verdict);
        }
        if let Some(measured) = &self.measured {
            let threads = counted(measured.threads as u64, "thread");
            let rate = compact(measured.runs_per_second);
            let (runs, seconds) = (count(measured.runs as u64), measured.seconds);
            table.pair(threads, format!("{rate} runs/s ({runs} in {seconds:.1} s)"));
            let latency = &measured.latency_seconds;
            let [p50, p90, p99] = [latency.p50, latency.p90, latency.p99].map(time);
            table.pair("each run", format!("p50 {p50}, p90 {p90}, p99 {p99}"));
        }
        if let Some(peak) = self.peak_rss_bytes {
            table.pair("peak memory", bytes(peak));
        }
        let (used, taken) = (bytes(self.memory.in_use), bytes(self.memory.peak_reserved));
        let memory = format!("{used} in use, {taken} taken at most");
        table.pair("device memory", memory);
        let session = &self.session;
        let plans = counted(session.plans as u64, "plan");
        let captures = counted(session.captures, "capture");
        let held = bytes(session.program_bytes);
        let session = format!("{plans}, {captures}, programs of {held}");
        table.pair("session", session);
        table
    }

    fn table_of_outputs(&self) -> String {
        use Align::{Left, Right};
        let mut table = Table::new(2, &[Left, Left, Right, Right, Right, Left]);
        table.row(["", "", "min", "mean", "max", "first"]);
        for output in &self.outputs {
            table.row(output.cells());
        }
        table.render()
    }
}

fn meanwhile(measured: &Measured) -> String {
    let meanwhile = &measured.meanwhile;
    let mut table = Table::pairs(2);
    let each = [
        ("replays", meanwhile.replays),
        ("nodes outside programs", meanwhile.nodes_alone),
        ("captures", meanwhile.captures),
        ("device allocations", meanwhile.device_allocations),
        ("kernels compiled", meanwhile.kernels_compiled),
    ];
    for (name, number) in each {
        table.pair(name, count(number));
    }
    format!("\nDuring the measurement\n{}", table.render())
}
