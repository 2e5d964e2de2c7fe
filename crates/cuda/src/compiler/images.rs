//! Images: what the compiler makes of a text, kept on disk between runs.

use std::path::PathBuf;

use streampool_kernels::text::CUDA_OPTIONS;
use streampool_kernels::{DiskStore, Source, Stored};

use super::nvrtc;

/// What a missing compiler means.
const WITHOUT: &str = "no kernel can be compiled; memory, transfers, empty launches, copies of contiguous \
                       memory and matrix products by cuBLASLt still work";

/// The images for one architecture: a compiler, and a folder for what it made.
pub(super) struct Images {
    /// The compiler and its version, or why there is none.
    pub compiler: Result<String, String>,
    options: Vec<String>,
    disk: Option<DiskStore>,
}

/// A kernel as the driver loads it.
pub(super) struct Image(pub Vec<u8>);

impl Stored for Image {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Image(bytes.to_vec()))
    }
}

impl Images {
    /// Looks for the compiler. `architecture` is such as `sm_90`, or why it is not known.
    pub fn new(architecture: Result<String, String>, cache_dir: Option<PathBuf>) -> Images {
        let compiler = architecture
            .as_ref()
            .map_err(String::clone)
            .and_then(|architecture| nvrtc::open(architecture))
            .map_err(|why| format!("{why}; {WITHOUT}"));
        let architecture = architecture.unwrap_or_default();
        // What a compiler of unknown version made is never used, so without a compiler there is no store.
        let stamp = compiler
            .as_ref()
            .map(|compiler| format!("streampool-cuda {compiler} {architecture}"));
        let disk = cache_dir
            .zip(stamp.ok())
            .map(|(dir, stamp)| DiskStore::new(dir, stamp));
        let own = format!("--gpu-architecture={architecture}");
        Images {
            compiler,
            options: std::iter::once(own)
                .chain(CUDA_OPTIONS.iter().map(|&option| option.to_owned()))
                .collect(),
            disk,
        }
    }

    /// The image that was kept of this text by an earlier run.
    pub fn kept(&self, source: &Source) -> Option<Image> {
        self.disk.as_ref()?.load(&self.key(source))
    }

    /// Compiles the text, and keeps the image. The error is the compiler's log. There is a compiler.
    pub fn compile(&self, source: &Source) -> Result<Image, String> {
        let image = Image(nvrtc::compile(&source.text, &self.options)?);
        self.keep(source, &image);
        Ok(image)
    }

    pub(super) fn keep(&self, source: &Source, image: &Image) {
        if let Some(disk) = &self.disk {
            disk.save(&self.key(source), image);
        }
    }

    /// Why the folder could not be used.
    pub fn problem(&self) -> Option<String> {
        self.disk.as_ref().and_then(DiskStore::failure)
    }

    fn key(&self, source: &Source) -> Vec<u8> {
        [&self.options.join(" "), "\0", &source.text]
            .concat()
            .into_bytes()
    }
}

#[cfg(test)]
mod tests;
