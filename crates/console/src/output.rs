//! What goes to standard output: written at once, and no harm done if nobody reads to the end.

use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::Result;

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

/// Tells why a command failed: in words on standard error, and as the one object that `--json` promised.
pub fn failure(as_json: bool, failure: &(dyn Error + Send + Sync)) {
    let message = failure.to_string();
    // There is nobody left to tell if this cannot be written either.
    let _ = writeln!(io::stderr(), "error: {message}");
    if as_json {
        let _ = json(&serde_json::json!({ "error": message }));
    }
}
