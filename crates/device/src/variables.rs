//! The environment variables of a device: what all devices read alike.

use std::path::PathBuf;

use crate::{Error, Result, bytes};

/// Where compiled kernels are kept between runs: read by every device that keeps some.
pub const CACHE_DIR: &str = "STREAMPOOL_CACHE_DIR";
/// What [`CACHE_DIR`] decides.
pub const CACHE_DIR_MEANING: &str = "the folder in which compiled kernels are kept between runs";

/// All variables that are set, with their values. Bytes that are not text are replaced: what has some is no
/// value of ours.
pub fn all() -> impl Iterator<Item = (String, String)> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (lossy(name), lossy(value)))
}

/// Reads a number of bytes above zero: see [`mod@bytes`].
pub fn bytes(name: &'static str, value: &str) -> Result<usize> {
    bytes::parse(value.trim())
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| bad(name, value, bytes::SPELLING))
}

/// Reads the path of a folder.
pub fn folder(name: &'static str, value: &str) -> Result<PathBuf> {
    match value {
        "" => Err(invalid(name, "empty", "the path of a folder")),
        path => Ok(path.into()),
    }
}

/// Refuses a variable that begins with `prefix`, since none of the `known` is it. `what` says whose variables
/// begin so.
pub fn refuse_unknown(
    name: &str,
    prefix: &str,
    what: &'static str,
    known: &[(&str, &str)],
) -> Result<()> {
    if !name.starts_with(prefix) {
        return Ok(());
    }
    let own = known.iter().map(|(name, _)| *name);
    let own: Vec<_> = own.filter(|name| name.starts_with(prefix)).collect();
    Err(invalid(what, name, format!("one of {}", own.join(", "))))
}

/// The error of a value that a variable cannot have.
pub fn bad(name: &'static str, value: &str, expected: impl ToString) -> Error {
    invalid(name, format!("`{value}`"), expected)
}

/// The error of an option that makes no sense.
pub fn invalid(what: &'static str, got: impl ToString, expected: impl ToString) -> Error {
    Error::Invalid {
        what,
        got: got.to_string(),
        expected: expected.to_string(),
    }
}
