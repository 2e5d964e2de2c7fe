//! Waking many: a thread that was woken helps to wake the others, so that the last of them does not wait for one thread to
//! make as many calls of the system as there are.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::outcome::Waiter;
use crate::sync::{Mutex, lock};

/// How many others a thread wakes that was woken.
const EACH: usize = 2;

/// Who is to be woken. Whoever rings goes on until nobody is left, so that it does not depend on help.
pub struct Alarm {
    asleep: Mutex<Vec<Waiter>>,
    /// About how many these are: so that who looks for nothing takes no lock.
    count: AtomicUsize,
}

impl Alarm {
    /// Nobody.
    pub fn new() -> Self {
        Alarm {
            asleep: Mutex::new(Vec::new()),
            count: AtomicUsize::new(0),
        }
    }

    /// Wakes them all.
    pub fn ring(&self, waiters: impl IntoIterator<Item = Waiter>) {
        let mut waiters = waiters.into_iter();
        let Some(first) = waiters.next() else { return };
        let mut asleep = lock(&self.asleep);
        asleep.extend(waiters);
        self.count.store(asleep.len(), Ordering::Relaxed);
        drop(asleep);
        first.wake();
        while self.wake_one() {}
    }

    /// Wakes a few of those that somebody else is waking.
    pub fn help(&self) {
        for _ in 0..EACH {
            if self.count.load(Ordering::Relaxed) == 0 || !self.wake_one() {
                return;
            }
        }
    }

    fn wake_one(&self) -> bool {
        let mut asleep = lock(&self.asleep);
        let next = asleep.pop();
        self.count.store(asleep.len(), Ordering::Relaxed);
        drop(asleep);
        let some = next.is_some();
        if let Some(waiter) = next {
            waiter.wake();
        }
        some
    }
}
