//! `streampool doctor`: what this machine has, what works, and what is in force.

mod page;
mod report;
mod self_test;

use clap::Args;

pub use report::unusable_cache;

use crate::{Outcome, Result, output};

/// Show the devices, the pool, its memory and the settings
///
/// Lists the devices and why one cannot be used, tests the usable ones, and lists every setting and where
/// its value comes from. The exit code is 1 if something is wrong.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool doctor\n  \
        streampool doctor --json | jq .findings\n  \
        STREAMPOOL_STREAMS=8 streampool doctor")]
pub struct Options {
    /// Write one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Looks, and says what was seen.
pub fn run(options: &Options) -> Result<Outcome> {
    let report = report::examine();
    output::told(options.json, &report, || page::page(&report))?;
    Ok(Outcome::of(report.ok))
}
