//! The primitives of the gate: std's, or loom's under `cfg(loom)`, where a model checker runs every interleaving of the
//! same code.

#[cfg(loom)]
pub use loom::{
    sync::atomic::{AtomicBool, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{ThreadId, current},
};

#[cfg(not(loom))]
pub use std::{
    sync::atomic::{AtomicBool, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{ThreadId, current},
};

use std::sync::PoisonError;

/// Locks a mutex whose content is valid at every step, so that a panic elsewhere says nothing about it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until woken, or for no reason.
pub fn wait<'a, T>(woken: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    woken.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Lets others have the processor for a short while, as long as `is_needed`.
#[cfg(not(loom))]
pub fn linger(is_needed: impl Fn() -> bool) {
    const SHORT: std::time::Duration = std::time::Duration::from_micros(20);
    let begun = std::time::Instant::now();
    while is_needed() && begun.elapsed() < SHORT {
        std::thread::yield_now();
    }
}

/// A model has no time to pass.
#[cfg(loom)]
pub fn linger(_: impl Fn() -> bool) {}
