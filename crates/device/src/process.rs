//! Whether this process is a fork of the one in which something was made.

#![expect(unsafe_code, reason = "is told of forks by the operating system")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often this process or one that it comes of was forked since forks are watched for.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made. In a fork of it the threads are gone and locks are as they were: nothing that was
/// made before may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This process. From the first call on, forks are watched for, so that no system call is needed to know of one.
    pub fn current() -> Process {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            #[cfg(unix)]
            {
                extern "C" fn in_child() {
                    FORKS.fetch_add(1, Ordering::Relaxed);
                }
                // SAFETY: the handler only adds to an atomic, which is allowed between fork and exec.
                unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            }
        });
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether it is this process, and not one that this is a fork of.
    #[inline]
    pub fn is_current(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// A number that no process has which it comes of.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The process of this number, of those that this one comes of.
    #[inline]
    pub fn numbered(number: u32) -> Process {
        Process(number)
    }
}
