//! Kernels that are loaded on their device.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUresult};
use streampool_device::lock::Mutex;

use crate::context::{Context, Failure};
use crate::ranks;
use crate::retired::Object;

/// The modules that were loaded for one device.
///
/// They stay until the device is closed and whoever holds a kernel is gone, since a launch does not keep its
/// kernel loaded: to unload one earlier would take waiting for the whole GPU, which others use as well.
#[derive(Debug)]
pub(super) struct Modules {
    context: Arc<Context>,
    loaded: Mutex<Vec<Object>>,
}

impl Modules {
    pub fn new(context: Arc<Context>) -> Arc<Modules> {
        Arc::new(Modules {
            context,
            loaded: Mutex::new(ranks::MODULES, Vec::new()),
        })
    }

    /// Loads an image or PTX (which ends with a zero) and finds `entry` in it, whose launches bring so many bytes of shared
    /// memory.
    pub fn load(
        self: &Arc<Self>,
        image: &[u8],
        entry: &str,
        brought: u32,
    ) -> Result<Function, Failure> {
        let context = &self.context;
        let _bound = context.bind()?;
        let mut module = ptr::null_mut();
        let _alone = context.alone();
        // SAFETY: the context is bound. An image says itself how long it is, and was checked to be whole.
        let result = unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) };
        context.check("cuModuleLoadData", result)?;
        // From here on it is unloaded whatever happens.
        self.loaded.lock().push(Object::Module(module));
        let not_found = Failure::Call("cuModuleGetFunction", CUresult::CUDA_ERROR_NOT_FOUND);
        let name = CString::new(entry).map_err(|_| not_found)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the module is loaded; it writes one pointer.
        let result = unsafe { sys::cuModuleGetFunction(&mut raw, module, name.as_ptr()) };
        context.check("cuModuleGetFunction", result)?;
        // Else the driver loads it at its first launch.
        // SAFETY: the function was just found in a module that stays loaded.
        let result = unsafe { sys::cuFuncLoad(raw) };
        context.check("cuFuncLoad", result)?;
        if brought > 0 {
            const MOST: CUfunction_attribute =
                CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: as above.
            let result = unsafe { sys::cuFuncSetAttribute(raw, MOST, brought as i32) };
            context.check("cuFuncSetAttribute", result)?;
        }
        Ok(Function {
            raw,
            brought,
            _modules: self.clone(),
        })
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        if self.context.check_process().is_err() {
            return;
        }
        let Ok(_bound) = self.context.bind() else {
            return;
        };
        let modules = std::mem::take(&mut *self.loaded.lock());
        // SAFETY: they were loaded in this context. Lanes keep their device until their work is over, so nothing runs any
        // more.
        unsafe { self.context.destroy(modules) };
    }
}

/// A kernel that is loaded on its device.
#[derive(Debug)]
pub(crate) struct Function {
    raw: CUfunction,
    brought: u32,
    _modules: Arc<Modules>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above; nothing here is mutable.
unsafe impl Sync for Function {}

impl Function {
    pub fn raw(&self) -> CUfunction {
        self.raw
    }

    /// Bytes of shared memory that its launches bring.
    pub fn brought(&self) -> u32 {
        self.brought
    }
}
