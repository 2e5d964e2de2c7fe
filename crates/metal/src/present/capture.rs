//! The scope that captures see: work of the device as frames.

use objc2_foundation::NSString;
use objc2_metal::{MTLCaptureManager, MTLCaptureScope};
use streampool_device::lock::Mutex;

use super::objects::{CaptureScope, Gpu, Movable};
use super::pool::pooled;
use crate::ranks;

/// The scope of one device. It is begun once and then ended once: frames that overlap are one to it.
pub(crate) struct Capture {
    scope: CaptureScope,
    /// How many frames are open.
    open: Mutex<usize>,
}

/// While it lives, the scope is begun.
pub(crate) struct Frame<'a>(&'a Capture);

impl Capture {
    pub fn new(gpu: &Gpu) -> Capture {
        // SAFETY: the one capture manager of the process may be asked for at any time.
        let manager = unsafe { MTLCaptureManager::sharedCaptureManager() };
        let scope = manager.newCaptureScopeWithDevice(gpu);
        scope.setLabel(Some(&NSString::from_str("streampool")));
        Capture {
            scope: Movable(scope),
            open: Mutex::new(ranks::CAPTURE, 0),
        }
    }

    pub fn frame(&self) -> Frame<'_> {
        let mut open = self.open.lock();
        if *open == 0 {
            pooled(|| self.scope.beginScope());
        }
        *open += 1;
        Frame(self)
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        let mut open = self.0.open.lock();
        *open -= 1;
        if *open == 0 {
            pooled(|| self.0.scope.endScope());
        }
    }
}
