//! Files that are read once, each byte of them: others may change or shorten them meanwhile, as with any file.

use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Read, Result as IoResult};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;

use crate::error::{Error, Result};

/// What devices ask of memory that they did not allocate.
pub const ALIGNMENT: usize = 256;

/// An open file, and how long it is.
pub fn open(path: &Path) -> Result<(File, usize)> {
    let failed = |error| Error::io(path, error);
    // A pipe that nobody writes to would be waited for.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = format!("{:?}", path.display());
        return Err(Error::file(what, "no regular file", "a file of bytes"));
    }
    let length = usize::try_from(metadata.len());
    let length = length.map_err(|_| failed(ErrorKind::FileTooLarge.into()))?;
    Ok((file, length))
}

/// The next so many bytes, in aligned memory of their own.
#[expect(clippy::disallowed_methods, reason = "it is fallible")]
pub fn aligned(from: &mut impl Read, bytes: usize) -> IoResult<Bytes> {
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(bytes.saturating_add(ALIGNMENT))?;
    let begin = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
    memory.resize(begin, 0);
    append(from, bytes, &mut memory)?;
    Ok(Bytes::from(memory).slice(begin..))
}

/// Appends the next so many bytes.
pub fn append(from: &mut impl Read, bytes: usize, to: &mut Vec<u8>) -> IoResult<()> {
    let read = from.take(bytes as u64).read_to_end(to)?;
    match read == bytes {
        true => Ok(()),
        false => Err(IoError::new(
            ErrorKind::UnexpectedEof,
            "it became shorter while it was read",
        )),
    }
}
