//! The context: one GPU as this process uses it, and whether it is still alive.

use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute, CUresult};
use streampool_device::{Error, Result};

use crate::{driver, properties};

/// The primary context of one GPU, shared with every other user of the driver in this process.
#[derive(Debug)]
pub(crate) struct Context {
    /// The name of the device in messages.
    pub name: String,
    device: CUdevice,
    raw: CUcontext,
    process: u32,
    lost: OnceLock<String>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above; what is mutable here is a `OnceLock`.
unsafe impl Sync for Context {}

/// Why the driver does not do what it was to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    /// It was not even asked: what it was to do could not be prepared.
    Unprepared(Error),
    /// The call failed and left everything as it was.
    Call(&'static str, CUresult),
    /// The device is gone.
    Lost(String),
}

impl Context {
    /// Opens the GPU of this number.
    pub fn open(ordinal: usize) -> Result<Arc<Context>> {
        let unavailable = |why: String| Error::Unavailable {
            device: properties::name(ordinal),
            why,
        };
        driver::start().map_err(unavailable)?;
        let count = driver::count().map_err(unavailable)?;
        if ordinal >= count {
            return Err(unavailable(format!(
                "there is no GPU {ordinal}: the driver shows {count}, numbered from 0"
            )));
        }
        let call = |result: CUresult, what: &str| match result {
            CUresult::CUDA_SUCCESS => Ok(()),
            other => Err(unavailable(format!("{what}: {}", driver::message(other)))),
        };
        let (mut device, mut raw) = (0, std::ptr::null_mut());
        // SAFETY: the driver is started and the number is one of its GPUs.
        unsafe {
            call(
                sys::cuDeviceGet(&mut device, ordinal as i32),
                "the GPU is not to be had",
            )?;
            call(
                sys::cuDevicePrimaryCtxRetain(&mut raw, device),
                "the GPU cannot be opened",
            )?;
        }
        Ok(Arc::new(Context {
            name: properties::unused_name(ordinal),
            device,
            raw,
            process: std::process::id(),
            lost: OnceLock::new(),
        }))
    }

    /// Makes it this thread's context; what a driver call that names no stream works on. Fails once the
    /// device is lost.
    #[inline]
    pub fn bind(&self) -> Result<(), Failure> {
        self.check_alive()?;
        let mut current = std::ptr::null_mut();
        // SAFETY: it writes one pointer.
        unsafe { sys::cuCtxGetCurrent(&mut current) };
        if current == self.raw {
            return Ok(());
        }
        // SAFETY: the context is retained as long as this lives.
        let result = unsafe { sys::cuCtxSetCurrent(self.raw) };
        self.check("cuCtxSetCurrent", result)
    }

    /// Fails once the device is lost.
    #[inline]
    pub fn check_alive(&self) -> Result<(), Failure> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => Err(Failure::Lost(why.clone())),
        }
    }

    /// Whether the device is lost.
    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Fails in a process forked from the one that opened the device: the driver does not work there.
    pub fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(Error::DeviceLost(
            "this process is a fork of the one that opened the device: open it after the fork"
                .to_owned(),
        ))
    }

    /// What a driver call came to. A result after which nothing works any more loses the device.
    #[inline]
    pub fn check(&self, call: &'static str, result: CUresult) -> Result<(), Failure> {
        match result {
            CUresult::CUDA_SUCCESS => Ok(()),
            other => Err(self.failure(call, other)),
        }
    }

    #[cold]
    fn failure(&self, call: &'static str, result: CUresult) -> Failure {
        if !is_fatal(result) {
            return Failure::Call(call, result);
        }
        let why = self
            .lost
            .get_or_init(|| format!("{}: {call} reports: {}", self.name, driver::message(result)));
        Failure::Lost(why.clone())
    }

    /// An attribute of the GPU.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<usize, Failure> {
        let mut value = 0;
        // SAFETY: it writes one integer.
        let result = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) };
        self.check("cuDeviceGetAttribute", result)?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// The driver's handle of the GPU.
    pub fn device(&self) -> CUdevice {
        self.device
    }

    /// The driver's handle of the context.
    pub fn raw(&self) -> CUcontext {
        self.raw
    }

    /// A failed call as the contract's error.
    pub fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Unprepared(error) => error,
            Failure::Lost(why) => Error::DeviceLost(why),
            Failure::Call(call, result) => Error::Driver {
                device: self.name.clone(),
                call,
                message: driver::message(result),
            },
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            // SAFETY: it was retained once and everything made in it is gone.
            unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Unprepared(error) => error.fmt(f),
            Failure::Call(call, result) => write!(f, "{call}: {}", driver::message(*result)),
            Failure::Lost(why) => f.write_str(why),
        }
    }
}

/// Whether the context is unusable after this result: a kernel went wrong, or the hardware.
fn is_fatal(result: CUresult) -> bool {
    use CUresult::*;
    matches!(
        result,
        CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_SYSTEM_NOT_READY
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_UNKNOWN
    )
}
