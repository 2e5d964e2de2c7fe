//! The archive: compiled kernels kept on disk between runs, in Metal's own form.
//!
//! What is on disk when a device is opened is looked into and never changed. What is compiled after that is written when
//! nothing more came for a while, by a thread of ours: to add a kernel compiles it again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor, MTLDevice,
};
use streampool_device::lock::Mutex;

use super::objects::{BinaryArchive, Described, Gpu, Movable, message};
use super::pool::pooled;
use crate::ranks;

/// What was compiled is written when so long nothing more was.
const PAUSE: Duration = Duration::from_secs(2);

/// Kernels of one GPU under one version of the system, in one file.
pub(crate) struct Archive {
    gpu: Gpu,
    path: PathBuf,
    /// As it was on disk.
    read: Option<BinaryArchive>,
    /// Held by who writes the file.
    file: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was compiled and is not on disk.
    new: Vec<Described>,
    /// Whether a thread is to write it.
    tended: bool,
    problem: Option<String>,
}

impl Archive {
    /// The archive in `folder` for what `stamp` names: the GPU, the system, our version.
    pub fn open(gpu: &Gpu, folder: &Path, stamp: &str) -> Arc<Archive> {
        let path = folder.join(file_name(stamp));
        Arc::new(Archive {
            gpu: gpu.clone(),
            // One that is damaged, or of another driver, is begun anew.
            read: pooled(|| read(gpu, Some(&path))).ok(),
            path,
            file: Mutex::new(ranks::ARCHIVE_FILE, ()),
            state: Mutex::new(ranks::ARCHIVE, State::default()),
        })
    }

    /// Has a pipeline of `descriptor` looked up here first, if anything is here.
    pub fn offer(&self, descriptor: &MTLComputePipelineDescriptor) -> bool {
        let Some(archive) = &self.read else {
            return false;
        };
        let archives = NSArray::from_slice(&[&**archive]);
        descriptor.setBinaryArchives(Some(&archives));
        true
    }

    /// Has what `descriptor` was compiled to written, a while after the last one.
    pub fn add(self: &Arc<Self>, descriptor: Retained<MTLComputePipelineDescriptor>) {
        let mut state = self.state.lock();
        state.new.push(Movable(descriptor));
        if std::mem::replace(&mut state.tended, true) {
            return;
        }
        drop(state);
        let archive = Arc::downgrade(self);
        let spawned = std::thread::Builder::new()
            .name("metal-archive".to_owned())
            .spawn(move || tend(&archive));
        if spawned.is_err() {
            // The next kernel tries again, and so does the end of the device.
            self.state.lock().tended = false;
        }
    }

    /// Writes the file if there is something new. It appears whole, in the place of the one before.
    pub fn save(&self) {
        let _file = self.file.lock();
        let mut state = self.state.lock();
        state.tended = false;
        let new = std::mem::take(&mut state.new);
        drop(state);
        if new.is_empty() {
            return;
        }
        let written = pooled(|| self.write(new));
        if let Err(why) = written {
            let why = format!("cannot write {}: {why}", self.path.display());
            self.state.lock().problem = Some(why);
        }
    }

    fn write(&self, new: Vec<Described>) -> Result<(), String> {
        // Others may have written since it was opened.
        let archive = read(&self.gpu, Some(&self.path)).or_else(|_| read(&self.gpu, None))?;
        let mut refused = Ok(());
        for descriptor in new {
            let added = archive.addComputePipelineFunctionsWithDescriptor_error(&descriptor);
            refused = refused.and(added.map_err(|error| message(&error)));
        }
        write(&archive, &self.path)?;
        refused
    }

    /// How many kernels are to be written.
    fn waiting(&self) -> usize {
        self.state.lock().new.len()
    }

    /// Why it does not work as it should, though kernels do.
    pub fn problem(&self) -> Option<String> {
        self.state.lock().problem.clone()
    }
}

/// Writes the archive, if it is still there, when nothing was added for a while.
fn tend(archive: &Weak<Archive>) {
    let mut seen = 0;
    loop {
        std::thread::sleep(PAUSE);
        let Some(archive) = archive.upgrade() else {
            return;
        };
        let waiting = archive.waiting();
        if waiting == seen {
            return archive.save();
        }
        seen = waiting;
    }
}

/// Reads the archive at `path`, or makes an empty one.
fn read(gpu: &Gpu, path: Option<&Path>) -> Result<BinaryArchive, String> {
    let descriptor = MTLBinaryArchiveDescriptor::new();
    if let Some(path) = path {
        if !path.exists() {
            return Err("there is none yet".to_owned());
        }
        descriptor.setUrl(Some(&url(path)));
    }
    let archive = gpu.newBinaryArchiveWithDescriptor_error(&descriptor);
    archive.map(Movable).map_err(|error| message(&error))
}

fn write(archive: &ProtocolObject<dyn MTLBinaryArchive>, path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let temporary = temporary(path);
    let written = archive
        .serializeToURL_error(&url(&temporary))
        .map_err(|error| message(&error))
        .and_then(|()| std::fs::rename(&temporary, path).map_err(|error| error.to_string()));
    if written.is_err() {
        // Best effort: the failure that matters is the one already in hand.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// A file beside `path` that nobody else writes.
fn temporary(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{count}.tmp", std::process::id()))
}

fn url(path: &Path) -> Retained<NSURL> {
    NSURL::fileURLWithPath(&NSString::from_str(&path.to_string_lossy()))
}

/// A name for the file that depends on all of `stamp`.
fn file_name(stamp: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = stamp.chars().map(plain).collect();
    format!("{name}.metalarchive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_stamps_apart_and_are_names() {
        let name = file_name("streampool 0.1.0 Apple M3/4");
        assert_eq!(name, "streampool-0-1-0-Apple-M3-4.metalarchive");
        assert_ne!(file_name("14.1"), file_name("14.2"));
    }

    #[test]
    fn two_who_write_at_once_write_different_files() {
        let path = Path::new("folder/name.metalarchive");
        assert_ne!(temporary(path), temporary(path));
        assert_eq!(temporary(path).parent(), path.parent());
    }
}
