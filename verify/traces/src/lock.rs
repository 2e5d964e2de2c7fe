//! The locks of `streampool_device` on the scheduler, for files that take them.

use std::time::Duration;

use crate::{record, sync};

/// Whose time is up later than this sleeps until it is woken.
const SOON: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(_rank: (), value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }
    pub fn lock(&self) -> sync::MutexGuard<'_, T> {
        sync::lock(&self.0)
    }
}

/// It knows whose it is.
#[derive(Debug)]
pub struct Condvar(sync::Condvar, pub usize);

impl Condvar {
    pub fn new() -> Self {
        Condvar(sync::Condvar::new(), record::me())
    }
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    pub fn wait_timeout<'a, T>(
        &self,
        guard: sync::MutexGuard<'a, T>,
        time: Duration,
    ) -> sync::MutexGuard<'a, T> {
        match time > SOON {
            true => sync::wait(&self.0, guard),
            false => sync::wait_timeout(&self.0, guard, time),
        }
    }
}
