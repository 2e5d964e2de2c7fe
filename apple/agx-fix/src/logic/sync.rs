//! The primitives of the files that threads share: std's, or loom's under `cfg(loom)`, where a model checker runs every
//! interleaving of the same code.

#[cfg(loom)]
pub use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

#[cfg(not(loom))]
pub use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

use std::sync::PoisonError;
use std::time::Duration;

/// Locks a mutex whose content is valid at every step, so that a panic elsewhere says nothing about it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until woken, until the time is up, or for no reason. Loom's never ends by time: a model uses no times but those
/// that are up already.
pub fn wait_for<'a, T>(
    woken: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Duration,
) -> MutexGuard<'a, T> {
    woken
        .wait_timeout(guard, time)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}
