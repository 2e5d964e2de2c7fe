//! The kernel that does nothing.

use std::ffi::CStr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUmodule, CUresult, CUstream};

use crate::context::{Context, Failure};

/// As old a target as drivers still translate: it runs on every GPU that they do.
pub(super) const TEXT: &CStr = c".version 6.0
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
        let _bound = context.bind()?;
        let mut module = std::ptr::null_mut();
        let alone = context.alone();
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
        drop(alone);
        Ok(kernel)
    }

    pub fn function(&self) -> CUfunction {
        self.function
    }

    /// Launches it with as few threads as the hardware runs together. The context is bound, and the stream of it.
    #[inline]
    pub fn launch(&self, stream: CUstream) -> CUresult {
        const THREADS: u32 = 32;
        let none = std::ptr::null_mut();
        // SAFETY: kernel and stream are alive, and the kernel takes no arguments.
        unsafe {
            sys::cuLaunchKernel(
                self.function,
                1,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                stream,
                none,
                none.cast(),
            )
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: it was loaded by `load`; the lanes that launch it keep it alive.
            unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}
