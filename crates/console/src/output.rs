//! What goes to standard output: written at once, and no harm done if nobody reads to the end.

use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::{Serialize, Serializer};

use crate::{Failure, Outcome, Result};

/// Writes `text`. A reader that has gone away, as `head` does, is no failure.
pub fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {error}").into())
        }
        _ => Ok(()),
    }
}

/// A path in a JSON object: what is not Unicode in it is a replacement character there.
pub fn path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

/// Says what is wrong and does not keep the command from its work, on standard error.
pub fn warning(what: &str) {
    let _ = writeln!(io::stderr(), "warning: {what}");
}

/// Writes `value` as one JSON object.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut object = serde_json::to_string_pretty(value)?;
    object.push('\n');
    text(&object)
}

/// Tells what was found: as the one JSON object that was asked for, or as text.
pub fn told(as_json: bool, report: &impl Serialize, page: impl FnOnce() -> String) -> Result<()> {
    match as_json {
        true => json(report),
        false => text(&page()),
    }
}

/// Writes a file.
pub fn file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| unwritten(path, &error))
}

/// Makes a folder, before there is anything to lose.
pub fn folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    format!("{} cannot be written: {error}", path.display()).into()
}

/// Tells why a command failed: in words on standard error, and as the one object that `--json` promised.
fn failure(as_json: bool, failure: &(dyn Error + Send + Sync)) {
    let message = failure.to_string();
    // There is nobody left to tell if this cannot be written either.
    let _ = writeln!(io::stderr(), "error: {message}");
    if as_json {
        let _ = json(&serde_json::json!({ "error": message }));
    }
}

/// Ends a program: with 1 if something is wrong or could not be done, which is then told.
pub fn exit(json: bool, done: Result<Outcome>) -> ExitCode {
    match done {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::FAILURE,
        Err(why) => {
            failure(json, &*why);
            ExitCode::FAILURE
        }
    }
}
