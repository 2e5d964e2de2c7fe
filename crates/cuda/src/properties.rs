//! What a GPU is.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use streampool_device::DeviceKind;
use streampool_device::lock::Mutex;

use crate::blas::Blas;
use crate::compiler::Kernels;
use crate::context::{Context, Failure};
use crate::dnn::Dnn;
use crate::{driver, ranks};

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

/// What the GPU calls itself.
pub(crate) fn hardware(context: &Context) -> Result<String, Failure> {
    let mut name = [0u8; 256];
    // SAFETY: it writes at most so many bytes, a zero among them.
    let result = unsafe {
        sys::cuDeviceGetName(
            name.as_mut_ptr().cast(),
            name.len() as i32,
            context.device(),
        )
    };
    context.check("cuDeviceGetName", result)?;
    Ok(CStr::from_bytes_until_nul(&name).map_or_else(
        |_| String::new(),
        |name| name.to_string_lossy().into_owned(),
    ))
}

/// The bytes of memory it has.
pub(crate) fn memory(context: &Context) -> Result<usize, Failure> {
    let mut bytes = 0;
    // SAFETY: it writes one number.
    let result = unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, context.device()) };
    context.check("cuDeviceTotalMem", result)?;
    Ok(bytes)
}

/// Its compute capability, as `(9, 0)`.
pub(crate) fn capability(context: &Context) -> Result<(usize, usize), Failure> {
    let major = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok((major, minor))
}

/// What it computes with, and what of that is missing.
pub(crate) fn features(
    context: &Context,
    kernels: &Kernels,
    blas: &Blas,
    dnn: &Dnn,
) -> Result<Vec<String>, Failure> {
    let (major, minor) = capability(context)?;
    let library = |found: &Result<String, String>| match found {
        Ok(version) => version.clone(),
        Err(why) => why.clone(),
    };
    Ok(vec![
        format!("compute {major}.{minor}"),
        format!("driver {}", driver::version()),
        library(kernels.compiler()),
        library(blas.library()),
        library(dnn.library()),
    ])
}
