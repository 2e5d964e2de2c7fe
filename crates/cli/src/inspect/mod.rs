//! `streampool inspect`: what is in a model, and what it takes to run it.

mod page;
mod report;

use std::path::PathBuf;

use clap::Args;

use crate::device::On;
use crate::{Outcome, Result, inputs, output};

/// Show an ONNX model: inputs, outputs, operators, parameters, and unsupported nodes
///
/// With the shapes of its inputs, also plan the model and show its ops, parts and memory. The exit code is 1 if an
/// operator is not supported.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool inspect model.onnx\n  \
        streampool inspect model.onnx --shape input_ids=1,128\n  \
        streampool inspect model.onnx --json | jq .operators")]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The shape of an input to plan for, such as x=1,16; once for each input
    #[arg(long, value_name = "NAME=SIZES", value_parser = inputs::Given::parse)]
    shape: Vec<inputs::Given>,
    /// The device to plan for
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// Write one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Looks, and says what was seen.
pub fn run(options: &Options) -> Result<Outcome> {
    let report = report::examine(&options.model, &options.shape, options.device)?;
    output::told(options.json, &report, || page::page(&report))?;
    Ok(Outcome::of(report.ok))
}
