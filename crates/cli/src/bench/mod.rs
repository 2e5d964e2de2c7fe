//! `streampool bench`: what things cost on this machine.

mod bare;
mod difference;
mod fairness;
mod figure;
mod gpu;
mod linear;
mod lookup;
mod memory;
mod model;
mod ops;
mod order;
mod queue;
mod report;
mod rounds;
mod runtime;
mod timing;

use clap::Subcommand;

use crate::{Outcome, Result};

/// Measure what things cost on this machine
#[derive(Subcommand)]
pub enum Bench {
    Runtime(runtime::Options),
    Ops(ops::Options),
    Queue(queue::Options),
    Fairness(fairness::Options),
    Model(Box<model::Options>),
}

impl Bench {
    /// Measures, and says what it came to. A goal that is missed is no failure of the program.
    pub fn run(&self) -> Result<Outcome> {
        match self {
            Bench::Runtime(options) => runtime::run(options),
            Bench::Ops(options) => ops::run(options),
            Bench::Queue(options) => queue::run(options),
            Bench::Fairness(options) => fairness::run(options),
            Bench::Model(options) => model::run(options),
        }
    }

    /// Whether JSON was asked for.
    pub fn json(&self) -> bool {
        match self {
            Bench::Runtime(options) => options.json,
            Bench::Ops(options) => options.json,
            Bench::Queue(options) => options.json,
            Bench::Fairness(options) => options.json,
            Bench::Model(options) => options.json,
        }
    }
}
