//! The library: whether it is there, and the handle that every call on one device shares.

use std::sync::Arc;

use cudarc::cublaslt::sys::{self, cublasLtHandle_t, cublasStatus_t};

use crate::context::Context;

/// The first version that has all that is used here.
const OLDEST: usize = 12;

/// cuBLASLt, opened on one device. Its functions may be called with it by many threads at once.
///
/// It is not closed when the device is: to close it, the library waits for the whole context, and that crashes in
/// the driver (seen in 580) while other threads make graphs. What it holds goes with the context or the process.
pub(super) struct Library {
    handle: cublasLtHandle_t,
    pub context: Arc<Context>,
}

// SAFETY: the library's documentation allows a handle on any thread.
unsafe impl Send for Library {}
// SAFETY: and on several at the same time.
unsafe impl Sync for Library {}

impl Library {
    /// Loads the library and opens it on the device whose context is bound. With it comes its name and
    /// version; the error says what is missing.
    pub fn open(context: &Arc<Context>) -> Result<(Arc<Library>, String), String> {
        let absent = |why: &str| {
            Err(format!(
                "no cuBLASLt: {why}; matrix products run on slower kernels"
            ))
        };
        // SAFETY: loading the library runs its initialisers, which is what it is loaded for.
        if !unsafe { sys::is_culib_present() } {
            return absent(
                "libcublasLt.so.13 is not in the library path (install it, or add its folder to LD_LIBRARY_PATH)",
            );
        }
        // SAFETY: the library is there; the function has no preconditions.
        let version = unsafe { sys::cublasLtGetVersion() };
        let (major, minor) = (version / 10_000, version / 100 % 100);
        if major < OLDEST {
            return absent(&format!(
                "version {major}.{minor} is in the library path, and at least {OLDEST}.0 is needed"
            ));
        }
        let mut handle = std::ptr::null_mut();
        let _alone = context.alone();
        // SAFETY: a context is bound; it writes one handle.
        match unsafe { sys::cublasLtCreate(&mut handle) } {
            cublasStatus_t::CUBLAS_STATUS_SUCCESS => {}
            other => {
                return absent(&format!(
                    "version {major}.{minor} does not start on this GPU ({other:?})"
                ));
            }
        }
        let library = Arc::new(Library {
            handle,
            context: context.clone(),
        });
        Ok((library, format!("cuBLASLt {major}.{minor}")))
    }

    pub fn handle(&self) -> cublasLtHandle_t {
        self.handle
    }
}
