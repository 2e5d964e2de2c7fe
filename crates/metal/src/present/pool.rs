//! Autorelease pools.

use std::ffi::c_void;

use objc2::ffi::{objc_autoreleasePoolPop, objc_autoreleasePoolPush};

/// Does something in an autorelease pool.
///
/// The pools of `objc2` keep a list for each thread in debug builds, and panic where that is gone: as a thread ends. There
/// streams are given back.
pub fn pooled<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: it may be called anywhere.
    let _pool = Pool(unsafe { objc_autoreleasePoolPush() });
    work()
}

struct Pool(*mut c_void);

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: this thread opened it above, and has closed all that it opened since.
        unsafe { objc_autoreleasePoolPop(self.0) };
    }
}
