//! What only the operating system knows: whether the process forked, and which thread is the main one.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next pool.
static NEXT_POOL: AtomicU64 = AtomicU64::new(1);

/// Pools with lower numbers are the parent's: their threads are gone here, and their locks are as they were.
static FIRST_OWN_POOL: AtomicU64 = AtomicU64::new(0);

/// A number for a pool, unique in this process. From the first one on, forks are watched for.
pub(crate) fn number_pool() -> u64 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        #[cfg(unix)]
        {
            extern "C" fn in_child() {
                FIRST_OWN_POOL.store(NEXT_POOL.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            // SAFETY: the handler only copies an atomic, which is allowed between fork and exec.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
    });
    NEXT_POOL.fetch_add(1, Ordering::Relaxed)
}

/// Whether the pool of this number was made before this process was forked: nothing of it may be touched.
#[inline]
pub(crate) fn is_stale(pool: u64) -> bool {
    pool < FIRST_OWN_POOL.load(Ordering::Relaxed)
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
