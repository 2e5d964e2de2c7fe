//! The `streampool` program: `doctor` looks, `run` and `inspect` take a model, `serve` serves, `bench` measures, `story` shows.

#![forbid(unsafe_code)]

mod bench;
mod doctor;
mod inputs;
mod inspect;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod story;

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
    Story(story::Options),
}

/// Find the best way to serve a model on this machine
#[derive(Subcommand)]
enum Bench {
    Model(Box<bench::Options>),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let (json, done) = match &command {
        Command::Doctor(options) => (options.json, doctor::run(options)),
        Command::Inspect(options) => (options.json, inspect::run(options)),
        Command::Run(options) => (options.json, run::run(options)),
        #[cfg(feature = "serve")]
        Command::Serve(options) => (false, serve::run(options)),
        Command::Bench(Bench::Model(options)) => (options.json, bench::run(options)),
        Command::Story(options) => (options.json, story::run(options)),
    };
    output::exit(json, done)
}
