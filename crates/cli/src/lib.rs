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
mod inspect;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod story;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use streampool_console::{
    Failure, Outcome, Result, device, errors, inputs, latencies, machine, models, noise, output,
    page, plot, progress, table, text, threads,
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
        streampool doctor                 show and test the devices of this machine\n  \
        streampool inspect model.onnx     show what a model contains\n  \
        streampool run model.onnx         run a model on generated inputs\n  \
        streampool serve models           serve the models of a folder\n  \
        streampool bench model model.onnx find the best way to serve a model here\n  \
        streampool simulate --help        find how many replicas a load needs\n  \
        streampool story                  demonstrate every claim on this machine"
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
    let all = Cli::command();
    #[cfg(feature = "serve")]
    let all = all.mut_subcommand("serve", serve::with_variables);
    let given = Cli::from_arg_matches(&all.get_matches_from(arguments));
    let command = given.unwrap_or_else(|error| error.exit()).command;
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
