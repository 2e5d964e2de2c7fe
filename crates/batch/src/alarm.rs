//! Waking many: a thread that was woken helps to wake the others, so that the last of them does not wait for one thread to
//! make as many calls of the system as there are.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::outcome::Waiter;
use crate::sync::{Mutex, lock};

/// How many others a thread wakes that was woken.
const EACH: usize = 2;

/// Who is to be woken, who fell asleep first first. Whoever rings goes on until nobody is left, so that it does not depend on help.
pub struct Alarm {
    asleep: Mutex<VecDeque<Waiter>>,
    /// About how many these are: so that who looks for nothing takes no lock.
    count: AtomicUsize,
}

impl Alarm {
    /// Nobody.
    pub fn new() -> Self {
        Alarm {
            asleep: Mutex::new(VecDeque::new()),
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
        let next = asleep.pop_front();
        self.count.store(asleep.len(), Ordering::Relaxed);
        drop(asleep);
        let some = next.is_some();
        if let Some(waiter) = next {
            waiter.wake();
        }
        some
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Sleeper(usize, Arc<Mutex<Vec<usize>>>);

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            lock(&self.1).push(self.0);
        }
    }

    #[test]
    fn who_fell_asleep_first_is_woken_first() {
        let order = Arc::default();
        let sleeper = |number| Arc::new(Sleeper(number, Arc::clone(&order)));
        Alarm::new().ring((0..5).map(|number| Waiter::Task(sleeper(number).into())));
        assert_eq!(*lock(&order), [0, 1, 2, 3, 4]);
    }
}
