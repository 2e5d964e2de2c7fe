//! Bad launches on request, for tests.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_device::lock::Mutex;

use crate::ranks;

/// Which queues are to make a launch that the driver refuses.
pub(crate) struct Injector {
    armed: AtomicUsize,
    queues: Mutex<HashSet<u32>>,
}

impl Injector {
    pub fn new() -> Injector {
        Injector {
            armed: AtomicUsize::new(0),
            queues: Mutex::new(ranks::INJECTOR, HashSet::new()),
        }
    }

    pub fn arm(&self, queue: u32) {
        let mut queues = self.queues.lock();
        queues.insert(queue);
        self.armed.store(queues.len(), Ordering::Release);
    }

    /// Whether the next launch of this queue is to go wrong; then it is asked for no more.
    #[inline]
    pub fn strikes(&self, queue: u32) -> bool {
        if self.armed.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut queues = self.queues.lock();
        let struck = queues.remove(&queue);
        self.armed.store(queues.len(), Ordering::Release);
        struck
    }
}
