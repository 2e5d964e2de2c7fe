//! What a GPU is.

use std::ffi::CStr;

use cudarc::driver::sys;

use crate::blas::Blas;
use crate::compiler::Kernels;
use crate::context::{Context, Failure};
use crate::dnn::Dnn;
use crate::driver;

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

/// What it computes with, and what of that is missing.
pub(crate) fn features(
    context: &Context,
    kernels: &Kernels,
    blas: &Blas,
    dnn: &Dnn,
) -> Result<Vec<String>, Failure> {
    let (major, minor) = context.capability()?;
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
