//! `streampool-measure runtime`: what the runtime itself costs.

use clap::Args;
use streampool::Pool;
use streampool::device::DeviceKind;

use super::figure::Measurement;
use super::report::Report;
use super::{gpu, linear, lookup, memory, order, rounds};
use crate::device::On;
use crate::machine::Machine;
use crate::{Outcome, Result};

/// Measure the runtime's own overheads: streams, memory, ordering, launches
///
/// Every figure is the median of many short rounds, taken in turn so that a disturbance hits all alike,
/// with the smallest and the largest beside it. Takes about half a minute; quieten the machine first.
///
/// On a GPU the figures are rates, each beside what bare calls of the driver reach in the same process, and
/// every result is checked. Takes about a minute.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool-measure runtime\n  \
        streampool-measure runtime --quick\n  \
        streampool-measure runtime --device cuda\n  \
        streampool-measure runtime --json | jq .empty_op_ns.median")]
pub struct Options {
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// The device to measure on
    #[arg(long, value_enum, default_value_t = On::Host)]
    pub device: On,
    /// Fewer and shorter rounds: a first impression in a few seconds
    #[arg(long)]
    pub quick: bool,
}

/// Measures, and says what it came to. A goal that is missed is no failure of the program.
pub fn run(options: &Options) -> Result<Outcome> {
    if options.device == On::Cuda {
        return gpu::run(options.json, options.quick);
    }
    let pool = options.device.pool()?;
    let mut measurements = measurements(&pool)?;
    let rounds = rounds::take(&mut measurements, options.quick)?;
    let report = Report {
        title: "What the runtime costs",
        device: pool.device().properties().name.clone(),
        machine: Machine::with(pool.device().properties()),
        rounds,
        measurements,
    };
    report.tell(options.json)
}

fn measurements(pool: &Pool) -> Result<Vec<Measurement>> {
    let mut all = vec![
        lookup::current(pool),
        lookup::lease(pool),
        memory::alloc_free(pool)?,
        memory::alloc_scaling(pool)?,
        memory::remote_free(pool)?,
        memory::malloc(),
        order::empty_op(pool)?,
        order::foreign_read(pool)?,
        linear::one_thread(pool)?,
        linear::scaling(pool)?,
    ];
    // Only the host's kernels can be called without a queue.
    if pool.device().properties().kind == DeviceKind::Host {
        all.push(linear::against_bare(pool)?);
    }
    Ok(all)
}
