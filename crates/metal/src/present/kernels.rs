//! Kernels: the text of each compiled once, and kept as a pipeline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use objc2::rc::Retained;
use objc2::runtime::NSObjectProtocol;
use objc2::sel;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLCompileOptions, MTLComputePipelineDescriptor, MTLComputePipelineState, MTLDevice,
    MTLLanguageVersion, MTLLibrary, MTLMathFloatingPointFunctions, MTLMathMode, MTLPipelineOption,
};
use streampool_device::lock::Mutex;
use streampool_device::{CacheReport, Error, OpKind, Result};
use streampool_kernels::{Cache, Dialect, Kernel, Missing, NotReady, Source};

use super::archive::Archive;
use super::errors::is_compiler_gone;
use super::objects::{Gpu, PipelineState, message};
use super::pool::pooled;
use crate::ranks;

/// Kernels found without compiling. Far more than there are: those that leave stay alive.
const CAPACITY: usize = 1 << 16;
/// How many threads of a GPU run in step, as kernels take for granted. On Apple's own all do; on others of a Mac not all.
const SIMDGROUP: usize = 32;

/// The kernels of one device.
pub(crate) struct Kernels {
    gpu: Gpu,
    device: String,
    cache: Cache<Kernel, Pipeline, Error>,
    archive: Option<Arc<Archive>>,
    /// All that were made. Buffers do not retain what they name, so none is released before the device is.
    made: Mutex<Vec<PipelineState>>,
    compiled: AtomicU64,
    loaded: AtomicU64,
}

/// A kernel, ready to run.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub state: PipelineState,
    /// The most threads that a group may have.
    pub threads: usize,
}

impl Kernels {
    pub fn new(gpu: Gpu, device: String, archive: Option<Arc<Archive>>) -> Kernels {
        Kernels {
            gpu,
            device,
            cache: Cache::new("kernels", CAPACITY),
            archive,
            made: Mutex::new(ranks::PIPELINES, Vec::new()),
            compiled: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
        }
    }

    /// The kernel that executes `op`.
    #[inline]
    pub fn pipeline(
        &self,
        op: OpKind,
        kernel: &Kernel,
        missing: Missing,
    ) -> Result<Arc<Pipeline>, NotReady<Error>> {
        self.cache
            .find(kernel, missing, || pooled(|| self.make(op, kernel)))
    }

    fn make(&self, op: OpKind, kernel: &Kernel) -> Result<Pipeline> {
        let source = kernel
            .source(Dialect::Metal)
            .ok_or_else(|| Error::Unsupported {
                device: self.device.clone(),
                op,
                why: "Metal has no floats of 64 bits, nor changes of words of 64 bits by several threads at once"
                    .to_owned(),
            })?;
        let state = self.compile(&source).map_err(|log| Error::Compile {
            device: self.device.clone(),
            kernel: source.entry.to_owned(),
            log,
        })?;
        let width = state.threadExecutionWidth();
        if width != SIMDGROUP {
            return Err(Error::Unsupported {
                device: self.device.clone(),
                op,
                why: format!(
                    "its kernel needs simdgroups of {SIMDGROUP} threads, this GPU has them of {width}"
                ),
            });
        }
        self.made.lock().push(state.clone());
        Ok(Pipeline {
            threads: state.maxTotalThreadsPerThreadgroup(),
            state,
        })
    }

    /// The error is the compiler's log. Tries once more where the compiler went away: it is a process of its own, which the
    /// system begins anew.
    fn compile(&self, source: &Source) -> Result<PipelineState, String> {
        match self.compile_once(source) {
            Err(log) if is_compiler_gone(&log) => self.compile_once(source),
            outcome => outcome,
        }
    }

    fn compile_once(&self, source: &Source) -> Result<PipelineState, String> {
        let text = NSString::from_str(&source.text);
        let library = self
            .gpu
            .newLibraryWithSource_options_error(&text, Some(&exact()))
            .map_err(|error| message(&error))?;
        let function = library
            .newFunctionWithName(&NSString::from_str(source.entry))
            .ok_or_else(|| format!("the library has no function `{}`", source.entry))?;
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setLabel(Some(&NSString::from_str(source.entry)));
        descriptor.setComputeFunction(Some(&function));
        let make = |option| {
            self.gpu
                .newComputePipelineStateWithDescriptor_options_reflection_error(
                    &descriptor,
                    option,
                    None,
                )
        };
        if let Some(archive) = &self.archive
            && archive.offer(&descriptor)
            && let Ok(state) = make(MTLPipelineOption::FailOnBinaryArchiveMiss)
        {
            self.loaded.fetch_add(1, Ordering::Relaxed);
            return Ok(state);
        }
        let state = make(MTLPipelineOption::None).map_err(|error| message(&error))?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        if let Some(archive) = &self.archive {
            archive.add(descriptor);
        }
        Ok(state)
    }

    /// Writes what was compiled to disk, where that is kept.
    pub fn save(&self) {
        if let Some(archive) = &self.archive {
            archive.save();
        }
    }

    /// What is held, how it came there, and why the archive could not be used.
    pub fn report(&self) -> CacheReport {
        CacheReport {
            compiled: self.compiled.load(Ordering::Relaxed),
            loaded: self.loaded.load(Ordering::Relaxed),
            problem: self.archive.as_ref().and_then(|archive| archive.problem()),
            ..self.cache.report()
        }
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        self.save();
    }
}

/// Options for arithmetic as it is written, in the language that the kernels are written in.
fn exact() -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(MTLLanguageVersion::Version3_1);
    if options.respondsToSelector(sel!(setMathMode:)) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        // Before macOS 15.
        #[allow(deprecated, reason = "what replaces it is not there yet")]
        options.setFastMathEnabled(false);
    }
    options
}
