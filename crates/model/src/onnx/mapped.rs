//! Files mapped into memory, so that what is read of them is copied once, from the system's own pages.

use std::fs::File;
use std::path::Path;

use bytes::Bytes;

use crate::error::{Error, Result};

/// The bytes of a file, for as long as anything holds a part of them.
pub fn map(path: &Path) -> Result<Bytes> {
    let failed = |error| Error::Io {
        path: path.to_owned(),
        error,
    };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = format!("{:?}", path.display());
        return Err(Error::file(what, "no regular file", "a file of bytes"));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the map is only read, and as plain bytes, any of which are checked before they mean something; no
    // value is read twice and trusted to be the same. That nobody shortens the file meanwhile is asked of callers.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(failed)?;
    Ok(Bytes::from_owner(map))
}
