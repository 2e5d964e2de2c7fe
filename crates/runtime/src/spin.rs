//! A lock for sections of some nanoseconds.

#![expect(unsafe_code, reason = "a lock")]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicBool, Ordering, UnsafeCell, spin_loop, yield_now};

/// What unlocking orders: everything done under the lock comes before what the next holder does.
const UNLOCK: Ordering = if cfg!(planted) {
    Ordering::Relaxed
} else {
    Ordering::Release
};

/// How often a waiting thread looks before it gives its core away: longer than a section lasts, shorter
/// than a time slice of a holder that lost its core. In a model one look is
/// as good as many.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };

/// A mutex that costs one exchange to lock and one plain store to unlock.
///
/// A waiting thread burns its core, so the holder must never block, call a device, or run code of a user.
#[derive(Debug)]
pub(crate) struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time; so sharing the lock
// only ever moves exclusive access to the value from thread to thread, which `T: Send` allows.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// An unlocked value.
    pub(crate) fn new(value: T) -> Self {
        SpinLock {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until it is free, and takes it.
    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        if !self.take_if_free() {
            self.wait();
        }
        SpinGuard::new(self)
    }

    #[inline(always)]
    fn take_if_free(&self) -> bool {
        // Acquire pairs with UNLOCK.
        self.held
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn wait(&self) {
        loop {
            for _ in 0..LOOKS {
                // Looks before it writes, so that waiters do not steal the holder's cache line.
                if !self.held.load(Ordering::Relaxed) && self.take_if_free() {
                    return;
                }
                spin_loop();
            }
            yield_now();
            if self.take_if_free() {
                return;
            }
        }
    }
}

/// Holds a [`SpinLock`].
#[derive(Debug)]
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    // As Send and Sync as the exclusive reference that the guard stands for.
    access: PhantomData<&'a mut T>,
}

impl<'a, T> SpinGuard<'a, T> {
    #[inline(always)]
    fn new(lock: &'a SpinLock<T>) -> Self {
        SpinGuard {
            lock,
            access: PhantomData,
        }
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one until it is dropped, and it is borrowed shared as long as the
        // reference lives.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one until it is dropped, and it is borrowed exclusively as long
        // as the reference lives.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.held.store(false, UNLOCK);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_locked_value_is_not_free_until_its_guard_is_gone() {
        let lock = SpinLock::new(1);
        let mut guard = lock.lock();
        assert!(!lock.take_if_free());
        *guard += 1;
        drop(guard);
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn a_panic_in_the_section_unlocks() {
        let lock = SpinLock::new(0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock();
            panic!("in the section");
        }));
        assert!(outcome.is_err());
        assert!(lock.take_if_free());
    }

    #[test]
    fn sections_of_many_threads_do_not_overlap() {
        // Two fields that agree only if nobody saw a section half done.
        let lock = SpinLock::new((0_u64, 0_u64));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut pair = lock.lock();
                        assert_eq!(pair.0, pair.1);
                        pair.0 += 1;
                        pair.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), (80_000, 80_000));
    }
}
