//! What the thread sanitizer is told of fibers: each has a history of calls of its own.

use std::ffi::c_void;

/// A fiber, as the sanitizer knows it; nothing where none watches.
#[derive(Debug, Clone, Copy)]
pub struct Watched(#[cfg_attr(not(sanitize_thread), expect(dead_code))] *mut c_void);

#[cfg(sanitize_thread)]
unsafe extern "C" {
    fn __tsan_get_current_fiber() -> *mut c_void;
    fn __tsan_create_fiber(flags: u32) -> *mut c_void;
    fn __tsan_destroy_fiber(fiber: *mut c_void);
    fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
}

impl Watched {
    pub const NONE: Watched = Watched(std::ptr::null_mut());
}

#[cfg(sanitize_thread)]
impl Watched {
    /// The context that runs.
    pub fn current() -> Watched {
        // SAFETY: the sanitizer is there.
        Watched(unsafe { __tsan_get_current_fiber() })
    }

    /// A new one.
    pub fn begin() -> Watched {
        // SAFETY: as above.
        Watched(unsafe { __tsan_create_fiber(0) })
    }

    /// From now on this one runs.
    ///
    /// # Safety
    /// It has begun and has not ended, and stacks are switched next.
    #[inline(always)]
    pub unsafe fn go_on(self) {
        // SAFETY: passed on from the caller.
        unsafe { __tsan_switch_to_fiber(self.0, 0) };
    }

    /// # Safety
    /// It does not go on, and ends once.
    pub unsafe fn end(self) {
        if !self.0.is_null() {
            // SAFETY: passed on from the caller.
            unsafe { __tsan_destroy_fiber(self.0) };
        }
    }
}

#[cfg(not(sanitize_thread))]
impl Watched {
    pub fn current() -> Watched {
        Watched::NONE
    }

    pub fn begin() -> Watched {
        Watched::NONE
    }

    /// # Safety
    /// None is asked for.
    pub unsafe fn go_on(self) {}

    /// # Safety
    /// None is asked for.
    pub unsafe fn end(self) {}
}
