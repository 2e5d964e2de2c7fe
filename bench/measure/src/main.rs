//! The program `streampool-measure`: what Streampool costs on this machine, beside what the machine could do.

mod bare;
mod crew;
mod dense;
mod fairness;
mod figures;
mod gpu;
mod lengths;
mod ops;
mod queue;
mod runtime;
mod several;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use streampool_console::{
    Failure, Outcome, Result, device, errors, latencies, machine, noise, output, progress, table,
    text, threads,
};

/// Measure what Streampool costs on this machine
///
/// A goal that is missed is no failure of the program; a result that is wrong is one.
#[derive(Parser)]
#[command(
    name = "streampool-measure",
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 80
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Runtime(runtime::Options),
    Ops(ops::Options),
    Queue(queue::Options),
    Fairness(fairness::Options),
    Lengths(lengths::Options),
    Several(several::Options),
}

fn main() -> ExitCode {
    let (json, done) = match &Cli::parse().command {
        Command::Runtime(options) => (options.json, runtime::run(options)),
        Command::Ops(options) => (options.json, ops::run(options)),
        Command::Queue(options) => (options.json, queue::run(options)),
        Command::Fairness(options) => (options.json, fairness::run(options)),
        Command::Lengths(options) => (options.json, lengths::run(options)),
        Command::Several(options) => (options.json, several::run(options)),
    };
    output::exit(json, done)
}
