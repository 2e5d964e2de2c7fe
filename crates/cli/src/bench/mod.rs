//! `streampool bench`: what things cost on this machine.

mod bare;
mod difference;
mod figure;
mod gpu;
mod linear;
mod lookup;
mod memory;
mod noise;
mod ops;
mod order;
mod report;
mod runtime;
mod timing;

use clap::{Subcommand, ValueEnum};
use streampool::Pool;
use streampool::device::DeviceKind;

use crate::{Outcome, Result};

/// Measure what things cost on this machine
#[derive(Subcommand)]
pub enum Bench {
    Runtime(runtime::Options),
    Ops(ops::Options),
}

impl Bench {
    /// Measures, and says what it came to. A goal that is missed is no failure of the program.
    pub fn run(&self) -> Result<Outcome> {
        match self {
            Bench::Runtime(options) => runtime::run(options),
            Bench::Ops(options) => ops::run(options),
        }
    }

    /// Whether JSON was asked for.
    pub fn json(&self) -> bool {
        match self {
            Bench::Runtime(options) => options.json,
            Bench::Ops(options) => options.json,
        }
    }
}

/// A device that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum On {
    Host,
    Cuda,
    Metal,
}

impl On {
    fn kind(self) -> DeviceKind {
        match self {
            On::Host => DeviceKind::Host,
            On::Cuda => DeviceKind::Cuda,
            On::Metal => DeviceKind::Metal,
        }
    }

    /// A pool on it, set up by the environment.
    fn pool(self) -> Result<Pool> {
        if self == On::Cuda {
            return Ok(streampool::cuda_pool()?);
        }
        let kind = self.kind();
        let found = streampool::devices()
            .into_iter()
            .find(|found| found.kind == kind);
        match found.map(|found| found.device) {
            Some(Ok(device)) => Ok(Pool::new(device)?),
            Some(Err(why)) => {
                Err(format!("the {} device cannot be used: {why}", kind.name()).into())
            }
            None => Err(format!("there is no {} device", kind.name()).into()),
        }
    }
}
