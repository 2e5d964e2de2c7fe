//! The primitives of the files that threads share, as `crate::sync` of the crates has them, over a scheduler that tries random
//! interleavings. Each change of what threads share is told to the recorder in the same step.

use std::any::type_name;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

pub use shuttle::sync::atomic::Ordering;
pub use shuttle::thread::{Thread, current, park};

use crate::record;

#[derive(Debug)]
pub struct AtomicU64(shuttle::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub fn new(value: u64) -> Self {
        record::word(value, value);
        AtomicU64(shuttle::sync::atomic::AtomicU64::new(value))
    }
    pub fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    /// The scheduler lets others run before and after this, but not between the change and its record.
    pub fn fetch_update(
        &self,
        one: Ordering,
        other: Ordering,
        mut update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.0.fetch_update(one, other, |old| {
            let new = update(old)?;
            record::word(old, new);
            Some(new)
        })
    }
    fn change(&self, order: Ordering, mut update: impl FnMut(u64) -> u64) -> u64 {
        let old = self.fetch_update(order, Ordering::Relaxed, |old| Some(update(old)));
        old.unwrap_or_else(|old| old)
    }
    pub fn compare_exchange_weak(
        &self,
        old: u64,
        new: u64,
        one: Ordering,
        other: Ordering,
    ) -> Result<u64, u64> {
        self.fetch_update(one, other, |now| (now == old).then_some(new))
    }
    pub fn store(&self, value: u64, order: Ordering) {
        self.change(order, |_| value);
    }
    pub fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.change(order, |_| value)
    }
    pub fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.change(order, |old| old | bits)
    }
    pub fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.change(order, |old| old & bits)
    }
}

#[derive(Debug)]
pub struct AtomicBool(shuttle::sync::atomic::AtomicBool);

impl AtomicBool {
    pub fn new(value: bool) -> Self {
        AtomicBool(shuttle::sync::atomic::AtomicBool::new(value))
    }
    pub fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }
    pub fn store(&self, value: bool, order: Ordering) {
        self.0.store(value, order);
    }
}

/// What became of a waiter for a lease; it is its maker's.
#[derive(Debug)]
pub struct AtomicU8(shuttle::sync::atomic::AtomicU8, usize);

impl AtomicU8 {
    pub fn new(value: u8) -> Self {
        AtomicU8(shuttle::sync::atomic::AtomicU8::new(value), record::me())
    }
    pub fn load(&self, order: Ordering) -> u8 {
        let looked = self.0.fetch_update(order, order, |value| {
            record::looked(self.1, value);
            None
        });
        looked.unwrap_or_else(|value| value)
    }
    pub fn store(&self, value: u8, order: Ordering) {
        let _ = self.0.fetch_update(order, order, |_| {
            record::given(self.1, value);
            Some(value)
        });
    }
}

#[derive(Debug)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>, &'a Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(guard) = &self.0 {
            record::unlocks(type_name::<T>(), std::ptr::from_ref::<T>(guard).cast());
        }
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let guard = mutex
        .0
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    record::locked(type_name::<T>());
    MutexGuard(Some(guard), mutex)
}

#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Condvar(shuttle::sync::Condvar::new())
    }
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

pub fn wait<'a, T>(woken: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    let mutex = guard.1;
    let inner = guard.0.take().expect("it is held");
    record::unlocks(type_name::<T>(), std::ptr::from_ref::<T>(&inner).cast());
    let inner = woken
        .0
        .wait(inner)
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    record::locked(type_name::<T>());
    MutexGuard(Some(inner), mutex)
}

/// Wakes for no reason until the time is up, which it may.
pub fn wait_timeout<'a, T>(
    _: &Condvar,
    guard: MutexGuard<'a, T>,
    _: Duration,
) -> MutexGuard<'a, T> {
    let mutex = guard.1;
    drop(guard);
    shuttle::thread::yield_now();
    lock(mutex)
}

/// As [`wait_timeout`], if there is an end.
pub fn wait_until<'a, T>(
    woken: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> MutexGuard<'a, T> {
    match until {
        None => wait(woken, guard),
        Some(_) => wait_timeout(woken, guard, Duration::ZERO),
    }
}

/// Looks twice, and lets others run between.
pub fn look_out(is_there: impl Fn() -> bool) -> bool {
    shuttle::thread::yield_now();
    is_there()
}
