//! The driver: whether it is there, and what it says when a call fails.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUresult};
use streampool_device::DeviceKind;
use streampool_device::lock::Mutex;

use crate::ranks;

/// The oldest driver that has every function used here, as it numbers its versions: 12.8.
const OLDEST: c_int = 12_080;

/// Loads the driver and starts it, once. The error says what is missing and what to do.
pub(crate) fn start() -> Result<(), String> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    STARTED.get_or_init(try_start).clone()
}

fn try_start() -> Result<(), String> {
    // SAFETY: loading the driver's library runs its initialisers, which is what it is loaded for.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "the NVIDIA driver is not installed: there is no libcuda.so.1 in the library path"
                .to_owned(),
        );
    }
    let version = driver_version()?;
    if version < OLDEST {
        return Err(format!(
            "the NVIDIA driver is too old: it knows CUDA {}, and at least {} is needed; update the driver",
            spelled(version),
            spelled(OLDEST)
        ));
    }
    // SAFETY: it has no preconditions; the library is there.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => Ok(()),
        CUresult::CUDA_ERROR_NO_DEVICE => {
            Err("the NVIDIA driver finds no GPU (is CUDA_VISIBLE_DEVICES empty?)".to_owned())
        }
        other => Err(format!(
            "the NVIDIA driver does not start: {}",
            message(other)
        )),
    }
}

fn driver_version() -> Result<c_int, String> {
    let mut version = 0;
    // SAFETY: it writes one integer; every driver has it.
    match unsafe { sys::cuDriverGetVersion(&mut version) } {
        CUresult::CUDA_SUCCESS => Ok(version),
        other => Err(format!(
            "the NVIDIA driver does not tell its version: {}",
            message(other)
        )),
    }
}

/// The version of CUDA that the driver knows, such as `13.0`. The driver has been started.
pub(crate) fn version() -> String {
    driver_version().map_or_else(|why| why, spelled)
}

fn spelled(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// How many GPUs the driver shows to this process. The driver has been started.
pub(crate) fn count() -> Result<usize, String> {
    let mut count = 0;
    // SAFETY: it writes one integer.
    match unsafe { sys::cuDeviceGetCount(&mut count) } {
        CUresult::CUDA_SUCCESS => Ok(usize::try_from(count).unwrap_or(0)),
        other => Err(format!(
            "the NVIDIA driver does not count its GPUs: {}",
            message(other)
        )),
    }
}

/// The name of the GPU of this number: `cuda`, then `cuda:1` and so on.
pub(crate) fn name(ordinal: usize) -> String {
    match ordinal {
        0 => DeviceKind::Cuda.name().to_owned(),
        other => format!("{}:{other}", DeviceKind::Cuda.name()),
    }
}

/// A name that no device of this process has had: that of the GPU, then `cuda#2` and so on.
pub(crate) fn unused_name(ordinal: usize) -> String {
    static MADE: Mutex<Vec<usize>> = Mutex::new(ranks::NAMES, Vec::new());
    let mut made = MADE.lock();
    made.push(ordinal);
    match made.iter().filter(|&&known| known == ordinal).count() {
        1 => name(ordinal),
        count => format!("{}#{count}", name(ordinal)),
    }
}

/// What the driver calls this result, and what it says of it.
pub(crate) fn message(result: CUresult) -> String {
    let text = |get: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: it writes a pointer to a constant string, or leaves it null.
        let found = unsafe { get(result, &mut text) } == CUresult::CUDA_SUCCESS && !text.is_null();
        found.then(|| {
            // SAFETY: the driver's strings end with a zero and live as long as the process.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().into_owned()
        })
    };
    match (text(sys::cuGetErrorName), text(sys::cuGetErrorString)) {
        (Some(name), Some(words)) => format!("{words} ({name})"),
        _ => format!("result {}", result as i32),
    }
}

/// Whether it is worth to try again what had this result.
pub(crate) fn is_refused(result: CUresult) -> bool {
    result != CUresult::CUDA_SUCCESS && !is_fatal(result)
}

/// Whether the context is unusable after this result: a kernel went wrong, or the hardware.
pub(crate) fn is_fatal(result: CUresult) -> bool {
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
