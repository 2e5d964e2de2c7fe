//! `streampool-measure queue`: what a queue that makes batches costs, and what it keeps to.

mod crowd;
mod deadline;
mod lengths;
mod overhead;
mod tenants;

use std::collections::VecDeque;

use clap::Args;
use streampool::batch::{BatchQueue, Request, Ticket};
use streampool::{Array, DType};

use super::report::Report;
use super::rounds;
use crate::machine::Machine;
use crate::{Outcome, Result};

/// Measure the queue that makes batches: its overhead, and how well it keeps deadlines, shares and shapes
///
/// The queue runs functions that take a known time, so that what is measured is the queue. Every figure is the median of
/// many rounds, taken in turn so that a disturbance hits all alike. Takes about a minute; quieten the machine first.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool-measure queue\n  \
        streampool-measure queue --quick\n  \
        streampool-measure queue --json | jq .queue_infer_ns.median")]
pub struct Options {
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Fewer and shorter rounds: a first impression in a few seconds
    #[arg(long)]
    quick: bool,
}

/// Measures, and says what it came to. A goal that is missed is no failure of the program.
pub fn run(options: &Options) -> Result<Outcome> {
    let mut measurements = vec![
        overhead::infer()?,
        overhead::submit()?,
        crowd::of_nothing()?,
        overhead::idle()?,
        crowd::of_batches()?,
        crowd::of_sleepers()?,
        deadline::median()?,
        deadline::latest()?,
        tenants::fairness()?,
        tenants::fairness_between_sizes()?,
        tenants::fairness_of_long_batches()?,
        lengths::mixed()?,
    ];
    let rounds = rounds::take(&mut measurements, options.quick)?;
    let pool = streampool::host_pool()?;
    let properties = pool.device().properties();
    let report = Report {
        title: "What a queue costs",
        device: properties.name.clone(),
        machine: Machine::with(properties),
        rounds,
        measurements,
    };
    report.tell(options.json)
}

/// The input of a request: one row of so many numbers.
fn row(length: usize) -> Vec<Array> {
    vec![Array::zeros(DType::F32, &[1, length]).expect("a row is short")]
}

/// Sends `requests`, so many of them under way at a time, and calls `answered` after each answer.
fn send(
    queue: &BatchQueue,
    requests: impl IntoIterator<Item = Request>,
    under_way: usize,
    answered: impl Fn(),
) -> Result<()> {
    let mut tickets = VecDeque::new();
    let settle = |ticket: Option<Ticket>| -> Result<()> {
        ticket.map(Ticket::wait).transpose()?;
        answered();
        Ok(())
    };
    for request in requests {
        if tickets.len() == under_way {
            settle(tickets.pop_front())?;
        }
        tickets.push_back(queue.submit(request)?);
    }
    tickets.into_iter().map(Some).try_for_each(settle)
}
