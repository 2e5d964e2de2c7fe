//! Running the program, and reading what it writes.

use std::process::{Command, Output};

use serde_json::Value;

/// The program, in an environment without settings and without GPUs.
pub fn streampool(arguments: &[&str]) -> Command {
    let mut command = with_gpus(arguments);
    command.env("CUDA_VISIBLE_DEVICES", "");
    command
}

/// The program, in an environment without settings, with the GPUs that there are.
pub fn with_gpus(arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STREAMPOOL_") {
            command.env_remove(name);
        }
    }
    command.args(arguments);
    command
}

/// Whether there is a GPU to test on; says so if not.
pub fn has_gpu(test: &str) -> bool {
    match streampool::cuda::CudaDevice::count() {
        Ok(count) if count > 0 => true,
        Ok(_) => {
            eprintln!("{test} is skipped: the driver shows no GPU");
            false
        }
        Err(why) => {
            eprintln!("{test} is skipped: {why}");
            false
        }
    }
}

pub fn run(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the output is text")
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("the errors are text")
}

#[track_caller]
pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout:\n{}\nstderr:\n{}",
        stdout(output),
        stderr(output)
    );
}

/// The one JSON object on standard output; `serde_json` refuses anything after it.
#[track_caller]
pub fn object(output: &Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error} in:\n{}", stdout(output)));
    assert!(value.is_object(), "{value}");
    value
}

/// It could not do what it was asked, and says why in words with this part, and as an object.
#[track_caller]
pub fn assert_refused(output: &Output, part: &str) {
    assert_code(output, 1);
    assert!(stderr(output).contains(part), "{part}:\n{}", stderr(output));
    assert!(object(output)["error"].is_string());
}

/// No line is wider than a terminal, and none ends in blanks.
#[track_caller]
pub fn assert_fits_a_terminal(output: &Output) {
    for line in stdout(output).lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
        assert_eq!(line, line.trim_end());
    }
}
