//! How long each kind of call of the CUDA driver takes while 31 threads launch, with and without the gate.

use serde::Serialize;
use streampool_measure::driver::{CallTime, Driver};

use crate::Result;
use crate::device::On;
use crate::latencies::Latencies;
use crate::progress::Progress;
use crate::table::{Align, Table};
use crate::text::{compact, time};

/// How many threads launch meanwhile.
const LAUNCHERS: usize = 31;

/// What was measured.
#[derive(Serialize)]
pub struct Calls {
    launchers: usize,
    /// Launches per second between the calls, without and with the gate.
    launches_per_second: [f64; 2],
    calls: Vec<Call>,
}

/// One kind of call.
#[derive(Serialize)]
struct Call {
    call: &'static str,
    without_gate: Times,
    with_gate: Times,
}

/// How long it took, in seconds.
#[derive(Serialize)]
struct Times {
    median: f64,
    longest: f64,
    /// How often it did not return until the launches stopped.
    starved: usize,
}

impl Calls {
    /// Measures it on the first GPU.
    pub fn measure(device: On) -> Result<Calls> {
        if device != On::Cuda {
            return Err("--calls times the CUDA driver: add --device cuda".into());
        }
        let progress = Progress::on_terminal();
        progress.step(1, 2, "calls of the driver without a gate");
        let mut driver = Driver::new(0)?;
        let (without, open_rate) = driver.call_times(LAUNCHERS, false)?;
        progress.step(2, 2, "calls of the driver with a gate");
        let (with, gated_rate) = driver.call_times(LAUNCHERS, true)?;
        let times = |call: CallTime| {
            let times = Latencies::new(call.times);
            Times {
                median: times.at(0.5).as_secs_f64(),
                longest: times.at(1.0).as_secs_f64(),
                starved: call.starved,
            }
        };
        let calls = without.into_iter().zip(with).map(|(without, with)| Call {
            call: without.call,
            without_gate: times(without),
            with_gate: times(with),
        });
        Ok(Calls {
            launchers: LAUNCHERS,
            launches_per_second: [open_rate, gated_rate],
            calls: calls.collect(),
        })
    }

    /// A table for a terminal.
    pub fn page(&self) -> String {
        let mut table = Table::new(2, &[Align::Left, Align::Right, Align::Right]);
        table.row(["call", "without the gate", "with it"]);
        let cell = |times: &Times| {
            let starved = match times.starved {
                0 => "",
                _ => ", starves",
            };
            format!("{}, {}{starved}", time(times.median), time(times.longest))
        };
        for call in &self.calls {
            table.row([
                call.call.to_owned(),
                cell(&call.without_gate),
                cell(&call.with_gate),
            ]);
        }
        format!(
            "Calls of the driver while {} threads launch graphs and wait for them, median and longest:\n\n{}\n\
             {} launches a second without the gate, {} with it.\n",
            self.launchers,
            table.render(),
            compact(self.launches_per_second[0]),
            compact(self.launches_per_second[1]),
        )
    }
}
