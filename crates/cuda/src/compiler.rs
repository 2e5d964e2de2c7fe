//! Kernels: compiled by NVRTC once per process, and kept on disk.

mod function;
mod images;
mod nvrtc;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use streampool_device::{CacheReport, Error, OpKind, Result};
use streampool_kernels::{Cache, Dialect, Kernel, Missing, Source};

use crate::context::{Context, Failure};
use crate::driver;
use crate::step::NoSteps;

pub(crate) use function::Function;
use function::Modules;
use images::{Image, Images};

/// Kernels found without asking the disk. Far more than there are to compile: those that leave stay loaded.
const CAPACITY: usize = 1 << 16;

/// The empty kernel, which is launched without a compiler, too. Its one argument is the parameter that every
/// kernel has.
const NOP: &[u8] = b".version 7.0
.target sm_50
.address_size 64
.visible .entry nop(.param .align 8 .b8 p[8]) { ret; }
\0";

/// The kernels of one device.
pub(crate) struct Kernels {
    context: Arc<Context>,
    images: Images,
    modules: Arc<Modules>,
    cache: Cache<Kernel, Function, Error>,
    nop: OnceLock<Arc<Function>>,
    compiled: AtomicU64,
    loaded: AtomicU64,
}

impl Kernels {
    /// None yet; compiled ones are kept in `cache_dir` too, if given. The context is bound.
    pub fn new(context: Arc<Context>, cache_dir: Option<PathBuf>) -> Kernels {
        let architecture = match context.capability() {
            // With what only this architecture has: images are for this GPU alone.
            Ok((9, 0)) => Ok("sm_90a".to_owned()),
            Ok((major, minor)) => Ok(format!("sm_{major}{minor}")),
            Err(why) => Err(format!("the GPU does not tell its architecture: {why}")),
        };
        Kernels::with_images(context, Images::new(architecture, cache_dir))
    }

    fn with_images(context: Arc<Context>, images: Images) -> Kernels {
        Kernels {
            modules: Modules::new(context.clone()),
            context,
            images,
            cache: Cache::new("kernels", CAPACITY),
            nop: OnceLock::new(),
            compiled: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
        }
    }

    /// The kernel that executes `op`, loaded.
    #[inline]
    pub fn function(
        &self,
        op: OpKind,
        kernel: &Kernel,
        missing: Missing,
    ) -> Result<Arc<Function>, NoSteps> {
        match kernel {
            // It is not compiled.
            Kernel::Nop => Ok(self.nop().map_err(|failure| self.context.error(failure))?),
            _ => self.cache.find(kernel, missing, || self.make(op, kernel)),
        }
    }

    /// The kernel that does nothing. It needs no compiler.
    pub fn nop(&self) -> Result<Arc<Function>, Failure> {
        if let Some(function) = self.nop.get() {
            return Ok(function.clone());
        }
        let function = self.modules.load(NOP, "nop", 0)?;
        Ok(self.nop.get_or_init(|| Arc::new(function)).clone())
    }

    fn make(&self, op: OpKind, kernel: &Kernel) -> Result<Function> {
        let unsupported = |why: String| Error::Unsupported {
            device: self.context.name.clone(),
            op,
            why,
        };
        let source = kernel.source(Dialect::Cuda);
        let source = source
            .ok_or_else(|| unsupported("CUDA C++ lacks a type that it works on".to_owned()))?;
        match (self.kept(&source), self.compiler()) {
            (Some(function), _) => Ok(function),
            (None, Ok(compiler)) => self.compile(&source, compiler),
            (None, Err(why)) => Err(unsupported(why.clone())),
        }
    }

    /// What an earlier run made of the text, if the driver takes it.
    fn kept(&self, source: &Source) -> Option<Function> {
        let image = self.images.kept(source)?;
        let function = self.load(&image, source).ok()?;
        self.loaded.fetch_add(1, Ordering::Relaxed);
        Some(function)
    }

    fn load(&self, image: &Image, source: &Source) -> Result<Function, Failure> {
        self.modules.load(&image.0, source.entry, source.brought)
    }

    fn compile(&self, source: &Source, compiler: &str) -> Result<Function> {
        let image = self.images.compile(source).map_err(|log| Error::Compile {
            device: self.context.name.clone(),
            kernel: source.entry.to_owned(),
            log,
        })?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        self.load(&image, source)
            .map_err(|failure| self.refused(failure, compiler))
    }

    /// The error of an image that the driver does not load, with what may be the reason.
    fn refused(&self, failure: Failure, compiler: &str) -> Error {
        match failure {
            Failure::Call(call, result) => Error::Driver {
                device: self.context.name.clone(),
                call,
                message: format!(
                    "{}; {compiler} made the kernel, the driver knows CUDA {}",
                    driver::message(result),
                    driver::version()
                ),
            },
            lost => self.context.error(lost),
        }
    }

    /// The compiler and its version, or why there is none.
    pub fn compiler(&self) -> &Result<String, String> {
        &self.images.compiler
    }

    /// What is held, how it came there, and why the folder could not be used.
    pub fn report(&self) -> CacheReport {
        CacheReport {
            compiled: self.compiled.load(Ordering::Relaxed),
            loaded: self.loaded.load(Ordering::Relaxed),
            problem: self.images.problem(),
            ..self.cache.report()
        }
    }
}

#[cfg(test)]
mod tests;
