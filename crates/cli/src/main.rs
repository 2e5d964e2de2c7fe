//! The `streampool` program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    streampool_cli::run_program(std::env::args_os())
}
