//! How long tests wait, how often they try, and locks that a failed test leaves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest a test waits for anything: far more than any of it takes, so that a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// The deadline of a wait that must end.
pub(crate) fn patience() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

/// So many rounds, and a tenth of them under a sanitizer, where each takes so much longer.
pub(crate) const fn rounds(count: usize) -> usize {
    match cfg!(any(sanitize_address, sanitize_thread)) {
        true => count / 10,
        false => count,
    }
}

/// Polls until `done`, yielding the processor in between.
pub(crate) fn poll_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::yield_now();
    }
}

/// Locks a list that is valid at every step, even if a test failed while holding it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
