//! Kernels that are loaded on their device.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUmodule, CUresult};

use crate::context::{Context, Failure};

/// A kernel that is loaded on its device.
#[derive(Debug)]
pub(crate) struct Function {
    context: Arc<Context>,
    module: CUmodule,
    raw: CUfunction,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above; nothing here is mutable.
unsafe impl Sync for Function {}

impl Function {
    /// Loads an image or PTX (which ends with a zero) and finds `entry` in it.
    pub(super) fn load(
        context: &Arc<Context>,
        image: &[u8],
        entry: &str,
    ) -> Result<Function, Failure> {
        context.bind()?;
        let mut module = ptr::null_mut();
        // SAFETY: the context is bound. An image says itself how long it is, and was checked to be whole.
        let result = unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) };
        context.check("cuModuleLoadData", result)?;
        // From here on it is unloaded whatever happens.
        let mut function = Function {
            context: context.clone(),
            module,
            raw: ptr::null_mut(),
        };
        let not_found = Failure::Call("cuModuleGetFunction", CUresult::CUDA_ERROR_NOT_FOUND);
        let name = CString::new(entry).map_err(|_| not_found)?;
        // SAFETY: the module is loaded; it writes one pointer.
        let result = unsafe { sys::cuModuleGetFunction(&mut function.raw, module, name.as_ptr()) };
        context.check("cuModuleGetFunction", result)?;
        Ok(function)
    }

    pub fn raw(&self) -> CUfunction {
        self.raw
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        if self.context.check_process().is_err() || self.context.bind().is_err() {
            return;
        }
        // A launch does not keep its function loaded, and the last one may not be over. This is rare: it
        // happens when the cache is full, and when the device is closed.
        // SAFETY: the context is bound.
        if unsafe { sys::cuCtxSynchronize() } == CUresult::CUDA_SUCCESS {
            // SAFETY: it was loaded in this context and nothing runs any more; whoever launches it anew
            // holds it.
            unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}
