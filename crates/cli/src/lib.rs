//! The `streampool` program: `doctor` looks, `run` and `inspect` take a model, `serve` serves, `bench` measures, `simulate` plans, `story` shows. It is a library so
//! that the Python package has it, too.
//!
//! ```
//! let done = streampool_cli::run_program(["streampool", "inspect", "nowhere.onnx"].map(Into::into));
//! assert_ne!(done, std::process::ExitCode::SUCCESS);
//! ```

#![forbid(unsafe_code)]

mod bench;
mod doctor;
mod inputs;
mod inspect;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod story;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use streampool_console::{
    Failure, Outcome, Result, device, latencies, machine, noise, output, page, plot, progress,
    table, text, threads,
};

/// Run models from any number of threads on one device.
#[derive(Parser)]
#[command(
    name = "streampool",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 80,
    after_help = "Examples:\n  \
        streampool doctor                 what this machine has, and whether it works\n  \
        streampool inspect model.onnx     what is in a model, and what it takes\n  \
        streampool run model.onnx         run it on made-up inputs\n  \
        streampool serve models           serve the models of a folder\n  \
        streampool bench model model.onnx how a model is best served here\n  \
        streampool simulate --help        how many replicas a load needs\n  \
        streampool story                  the whole argument, shown on this machine"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Doctor(doctor::Options),
    Inspect(inspect::Options),
    Run(run::Options),
    #[cfg(feature = "serve")]
    Serve(Box<serve::Options>),
    #[command(subcommand)]
    Bench(Bench),
    Simulate(Box<streampool_simulate::command::Options>),
    Story(story::Options),
}

/// Find the best way to serve a model on this machine
#[derive(Subcommand)]
enum Bench {
    Model(Box<bench::Options>),
}

/// Does what these arguments say, the first of which names the program. Ends the process where they cannot be understood, or ask for
/// help.
pub fn run_program(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = Cli::parse_from(arguments).command;
    let (json, done) = match &command {
        Command::Doctor(options) => (options.json, doctor::run(options)),
        Command::Inspect(options) => (options.json, inspect::run(options)),
        Command::Run(options) => (options.json, run::run(options)),
        #[cfg(feature = "serve")]
        Command::Serve(options) => (false, serve::run(options)),
        Command::Bench(Bench::Model(options)) => (options.json, bench::run(options)),
        Command::Simulate(options) => {
            let done = streampool_simulate::command::run(options);
            (options.json, done)
        }
        Command::Story(options) => (options.json, story::run(options)),
    };
    output::exit(json, done)
}
