//! The archive: compiled kernels kept on disk between runs, in Metal's own form.

use std::path::{Path, PathBuf};

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor, MTLDevice,
};
use streampool_device::lock::Mutex;

use super::objects::{BinaryArchive, Gpu, Movable, message};
use crate::ranks;

/// Kernels of one GPU under one version of the system, in one file.
pub(crate) struct Archive {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    archive: Option<BinaryArchive>,
    /// Whether something was added since it was read.
    grown: bool,
    problem: Option<String>,
}

impl Archive {
    /// The archive in `folder` for what `stamp` names: the GPU, the system, our version.
    pub fn open(gpu: &Gpu, folder: &Path, stamp: &str) -> Archive {
        let path = folder.join(file_name(stamp));
        let (archive, problem) = autoreleasepool(|_| match read(gpu, Some(&path)) {
            Ok(archive) => (Some(archive), None),
            // One that is damaged, or of another driver, is begun anew.
            Err(_) => match read(gpu, None) {
                Ok(archive) => (Some(archive), None),
                Err(why) => (None, Some(why)),
            },
        });
        Archive {
            path,
            state: Mutex::new(
                ranks::ARCHIVE,
                State {
                    archive,
                    grown: false,
                    problem,
                },
            ),
        }
    }

    /// Has a pipeline of `descriptor` looked up here first.
    pub fn offer(&self, descriptor: &MTLComputePipelineDescriptor) {
        if let Some(archive) = &self.state.lock().archive {
            let archives = NSArray::from_slice(&[&**archive]);
            descriptor.setBinaryArchives(Some(&archives));
        }
    }

    /// Adds what `descriptor` was compiled to.
    pub fn add(&self, descriptor: &MTLComputePipelineDescriptor) {
        let mut state = self.state.lock();
        let Some(archive) = &state.archive else {
            return;
        };
        match archive.addComputePipelineFunctionsWithDescriptor_error(descriptor) {
            Ok(()) => state.grown = true,
            Err(error) => {
                state.problem = Some(format!("cannot archive a kernel: {}", message(&error)));
            }
        }
    }

    /// Writes the file if there is something new. It appears whole, in the place of the one before.
    pub fn save(&self) {
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.grown) {
            return;
        }
        let written = match &state.archive {
            Some(archive) => autoreleasepool(|_| write(archive, &self.path)),
            None => Ok(()),
        };
        if let Err(why) = written {
            state.problem = Some(format!("cannot write {}: {why}", self.path.display()));
        }
    }

    /// Why it does not work as it should, though kernels do.
    pub fn problem(&self) -> Option<String> {
        self.state.lock().problem.clone()
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
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
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
}
