//! The kernel that does nothing.

use std::ffi::CStr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUmodule};

use crate::context::{Context, Failure};

/// As old a target as drivers still translate: it runs on every GPU that they do.
const TEXT: &CStr = c".version 6.0
.target sm_50
.address_size 64
.visible .entry nothing() { ret; }
";

/// The kernel, loaded.
pub(super) struct Kernel {
    context: Arc<Context>,
    module: CUmodule,
    function: CUfunction,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above; nothing here changes.
unsafe impl Sync for Kernel {}

impl Kernel {
    pub fn load(context: &Arc<Context>) -> Result<Kernel, Failure> {
        context.bind()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the context is bound; the text ends with a zero, and one handle is written.
        let result = unsafe { sys::cuModuleLoadData(&mut module, TEXT.as_ptr().cast()) };
        context.check("cuModuleLoadData", result)?;
        let mut kernel = Kernel {
            context: context.clone(),
            module,
            function: std::ptr::null_mut(),
        };
        // SAFETY: the module was just loaded; the name ends with a zero, and one handle is written.
        let result =
            unsafe { sys::cuModuleGetFunction(&mut kernel.function, module, c"nothing".as_ptr()) };
        context.check("cuModuleGetFunction", result)?;
        Ok(kernel)
    }

    pub fn function(&self) -> CUfunction {
        self.function
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: it was loaded by `load`; the lanes that launch it keep it alive.
            unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}
