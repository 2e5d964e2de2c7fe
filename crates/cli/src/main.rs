//! The `streampool` program: `doctor` looks, `run` and `inspect` take a model, `bench` measures, `story` shows.

mod bench;
mod device;
mod doctor;
mod html;
mod inputs;
mod inspect;
mod latencies;
mod machine;
mod noise;
mod output;
mod plot;
mod progress;
mod run;
mod story;
mod table;
mod text;
mod threads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Why a command failed, in words for whoever typed it.
type Failure = Box<dyn std::error::Error + Send + Sync>;

type Result<T, E = Failure> = std::result::Result<T, E>;

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
        streampool bench runtime          what the runtime costs here\n  \
        streampool bench ops              how fast operators are here\n  \
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
    #[command(subcommand)]
    Bench(bench::Bench),
    Story(story::Options),
}

/// What a command found, once it could do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Good,
    /// Something is wrong, and the output says what.
    Bad,
}

impl Outcome {
    fn of(good: bool) -> Self {
        if good { Outcome::Good } else { Outcome::Bad }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let (json, done) = match &command {
        Command::Doctor(options) => (options.json, doctor::run(options)),
        Command::Inspect(options) => (options.json, inspect::run(options)),
        Command::Run(options) => (options.json, run::run(options)),
        Command::Bench(bench) => (bench.json(), bench.run()),
        Command::Story(options) => (options.json, story::run(options)),
    };
    match done {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::FAILURE,
        Err(failure) => {
            output::failure(json, &*failure);
            ExitCode::FAILURE
        }
    }
}
