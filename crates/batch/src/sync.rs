//! The primitives of the files that threads share: std's, or loom's under `cfg(loom)`, where a model checker runs
//! every interleaving of the same code.

#[cfg(loom)]
pub use loom::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Thread, current, park},
};

#[cfg(not(loom))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Thread, current, park},
};

use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Locks a mutex whose content is valid at every step, so that a panic elsewhere says nothing about it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a thread looks out for what it would otherwise sleep for.
#[cfg(not(loom))]
const LOOK_OUT: Duration = Duration::from_micros(50);

/// Looks out for a short while, until something is there, and says whether it is: not what is gone again in a microsecond. Others
/// may have the processor meanwhile.
#[cfg(not(loom))]
pub fn look_out(is_there: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LOOK_OUT {
        let seen = is_there();
        for _ in 0..20 {
            std::hint::spin_loop();
        }
        if seen && is_there() {
            return true;
        }
        if !seen {
            std::thread::yield_now();
        }
    }
    false
}

/// A model has no time to pass.
#[cfg(loom)]
pub fn look_out(_: impl Fn() -> bool) -> bool {
    false
}

/// Sleeps until woken, or for no reason.
pub fn wait<'a, T>(woken: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    woken.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until woken, until a time, or for no reason. Loom's never ends by time: a model uses no times but those that
/// are past already.
pub fn wait_until<'a, T>(
    woken: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> MutexGuard<'a, T> {
    let Some(until) = until else {
        return wait(woken, guard);
    };
    let left = until.saturating_duration_since(Instant::now());
    wait_for(woken, guard, left)
}

fn wait_for<'a, T>(woken: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
    woken
        .wait_timeout(guard, time)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}
