//! An imitation driver whose encoders race as AGX's do, and how a test runs a program that uses it.

pub mod driver;
pub mod protocols;

use std::process::{Command, Output};

/// Which scenario a process that a test started is to run.
const SCENARIO: &str = "AGX_FIX_TEST_SCENARIO";

/// Runs a scenario in a process of its own, with these variables, and returns how that ended.
pub fn run(scenario: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command.args(["--exact", "scenario", "--nocapture", "--test-threads=1"]);
    for name in [
        "DISABLE", "VERBOSE", "ABORT", "CHILDREN", "WARN_MS", "WAIT_MS",
    ] {
        command.env_remove(format!("AGX_FIX_{name}"));
    }
    command
        .env(SCENARIO, scenario)
        .envs(variables.iter().copied());
    command.output().expect("the test starts again")
}

/// The scenario that this process is to run, if a test started it for that.
pub fn asked_for() -> Option<String> {
    std::env::var(SCENARIO).ok()
}

/// What a process wrote to standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The scenario ended as it should.
#[track_caller]
pub fn assert_ended_well(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}",
        output.status,
        errors(output)
    );
}

/// The process was aborted, and said so.
#[track_caller]
pub fn assert_aborted(output: &Output, with: &str) {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    assert_eq!(
        output.status.signal(),
        Some(SIGABRT),
        "{}\n{}",
        output.status,
        errors(output)
    );
    assert!(errors(output).contains(with), "{}", errors(output));
}
