//! The callbacks under memory pressure.

use std::cell::Cell;
use std::sync::Arc;

use streampool_device::lock::{Mutex, assert_none_held};

use crate::ranks;

/// What callbacks under pressure are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Bytes that are needed now.
    pub needed: usize,
    /// Bytes taken from the device, with those that it takes for itself.
    pub reserved: usize,
    /// The most that may be taken.
    pub limit: usize,
}

type Relieve = Arc<dyn Fn(&Pressure) + Send + Sync>;

/// The callbacks under pressure.
pub(crate) struct Callbacks(Mutex<Vec<Relieve>>);

impl Callbacks {
    pub fn new() -> Self {
        Callbacks(Mutex::new(ranks::PRESSURE, Vec::new()))
    }

    pub fn add(&self, relieve: Relieve) {
        self.0.lock().push(relieve);
    }

    /// Lets go of them all, and of what they hold: a stream of the pool itself, perhaps.
    pub fn clear(&self) {
        let callbacks = std::mem::take(&mut *self.0.lock());
        drop(callbacks);
    }

    /// Calls them, unless this is one of them that ran short itself.
    pub fn call(&self, pressure: &Pressure) {
        let Some(_asking) = Asking::begin() else {
            return;
        };
        let callbacks = self.0.lock().clone();
        assert_none_held();
        for relieve in callbacks {
            relieve(pressure);
        }
    }
}

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// This thread is inside a callback, until it is dropped, by a panic too.
struct Asking;

impl Asking {
    fn begin() -> Option<Asking> {
        (!ASKING.replace(true)).then_some(Asking)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.set(false);
    }
}
