//! Kernels kept between runs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io, process};

use streampool_device::lock::Mutex;

use crate::entry::{self, Stored};
use crate::{hash, ranks};

/// A directory of compiled kernels, one file each.
///
/// Any number of threads and processes may use one directory: files appear whole, by renaming, and a reader
/// believes none that is damaged, of another stamp, or of another key. A store that cannot be read or
/// written costs its users nothing but the compile; [`failure`](Self::failure) says why.
#[derive(Debug)]
pub struct DiskStore {
    dir: PathBuf,
    stamp: Vec<u8>,
    failure: Mutex<Option<String>>,
    temporary: AtomicU64,
}

impl DiskStore {
    /// The store in `dir`, made when first written to. `stamp` names all that a kernel depends on besides
    /// its key: the device, the compiler, their versions.
    pub fn new(dir: impl Into<PathBuf>, stamp: impl Into<Vec<u8>>) -> Self {
        DiskStore {
            dir: dir.into(),
            stamp: stamp.into(),
            failure: Mutex::new(ranks::DISK_FAILURE, None),
            temporary: AtomicU64::new(0),
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Why the directory could not be used, the last time it could not.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// The kernel kept for `key`.
    pub fn load<V: Stored>(&self, key: &[u8]) -> Option<V> {
        let path = self.path(key);
        match fs::read(&path) {
            Ok(bytes) => V::from_bytes(entry::decode(&bytes, &self.stamp, key)?),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.remember("read", &path, &error);
                }
                None
            }
        }
    }

    /// Keeps the kernel for `key`, in the place of whatever was there.
    pub fn save<V: Stored>(&self, key: &[u8], value: &V) {
        let path = self.path(key);
        let bytes = entry::encode(&self.stamp, key, &value.to_bytes());
        if let Err(error) = self.replace(&path, &bytes) {
            self.remember("write", &path, &error);
        }
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // The process and a count make the name unique among all writers of the directory.
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let store = std::ptr::from_ref(self).addr();
        let temporary = path.with_extension(format!("{}-{store:x}-{number}.tmp", process::id()));
        let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // Best effort: the failure that matters is the one already in hand.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn remember(&self, what: &str, path: &Path, error: &io::Error) {
        *self.failure.lock() = Some(format!("cannot {what} {}: {error}", path.display()));
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        let name = hash::fnv128(&[&self.stamp, b"\0", key]);
        self.dir.join(format!("{name:032x}.kernel"))
    }
}
