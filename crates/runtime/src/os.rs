//! What only the operating system knows: whether the process forked, and which thread is the main one.

#![expect(unsafe_code, reason = "calls the operating system")]

use std::sync::atomic::{AtomicU64, Ordering};

use streampool_device::Process;

/// The number of the next pool, without that of its process.
static NEXT_POOL: AtomicU64 = AtomicU64::new(1);

/// Above so many bits, a pool's number says which process made it.
const PROCESS_FROM: u32 = 32;

/// A number for a pool, unique in this process.
pub(crate) fn number_pool() -> u64 {
    let process = u64::from(Process::current().number());
    process << PROCESS_FROM | NEXT_POOL.fetch_add(1, Ordering::Relaxed)
}

/// Whether the pool of this number was made before this process was forked: its threads are gone here, and its locks are as
/// they were, so nothing of it may be touched.
#[inline]
pub(crate) fn is_stale(pool: u64) -> bool {
    !Process::numbered((pool >> PROCESS_FROM) as u32).is_current()
}

/// Whether this is the thread the process began with.
pub(crate) fn is_main_thread() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // SAFETY: both calls only read identifiers.
        unsafe { libc::gettid() == libc::getpid() }
    }
    #[cfg(target_vendor = "apple")]
    {
        // SAFETY: it only reads an identifier.
        unsafe { libc::pthread_main_np() == 1 }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    {
        std::thread::current().name() == Some("main")
    }
}
