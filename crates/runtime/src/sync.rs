//! The primitives of the lock-free files: std's, or loom's under `cfg(loom)`, where a model checker runs
//! every interleaving of the same code.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

use std::sync::PoisonError;
use std::time::Duration;

/// Locks a mutex whose content is valid at every step, so that a panic elsewhere says nothing about it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until woken, or for no reason.
pub fn wait<'a, T>(woken: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    woken.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until woken, until the time is up, or for no reason. Loom's never ends by time: a model uses no
/// times but those that are up already.
pub fn wait_timeout<'a, T>(
    woken: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Duration,
) -> MutexGuard<'a, T> {
    woken
        .wait_timeout(guard, time)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

/// `std::cell::UnsafeCell` with loom's interface: each access is a closure, which loom can watch.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Reads through the pointer. The closure answers for the absence of writers meanwhile.
    #[inline(always)]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Writes through the pointer. The closure answers for the absence of other accesses meanwhile.
    #[inline(always)]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
