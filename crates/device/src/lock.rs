//! Locks with a rank: a thread takes them in rising order only. Debug builds check it at every lock.
//!
//! Two locks of the same rank are never held together; so a thread never holds two stream locks.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

/// A place in the one order in which locks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Lower ones are taken first.
    pub order: u16,
    /// The name in the message of a violation.
    pub name: &'static str,
}

/// A mutex with a rank. A panic while it is held does not poison it: what it protects is kept valid at
/// every step, or belongs to a fault that is reported elsewhere.
#[derive(Debug)]
pub struct Mutex<T> {
    rank: Rank,
    inner: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// A mutex of this rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Mutex {
            rank,
            inner: std::sync::Mutex::new(value),
        }
    }

    /// What it protects: who has it alone need not lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks it. In debug builds, panics if this thread holds a lock of the same or a higher rank.
    pub fn lock(&self) -> Guard<'_, T> {
        let held = Held::take(self.rank);
        Guard {
            inner: self.inner.lock().unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }
}

/// Holds a [`Mutex`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    inner: std::sync::MutexGuard<'a, T>,
    held: Held,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A condition variable for a ranked [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// A condition variable.
    pub const fn new() -> Self {
        Condvar(std::sync::Condvar::new())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Releases the lock, waits, and takes it again. May wake for no reason.
    pub fn wait<'a, T>(&self, guard: Guard<'a, T>) -> Guard<'a, T> {
        let Guard { inner, held } = guard;
        Guard {
            inner: self.0.wait(inner).unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    pub fn wait_timeout<'a, T>(&self, guard: Guard<'a, T>, timeout: Duration) -> Guard<'a, T> {
        let Guard { inner, held } = guard;
        let (inner, _) = self
            .0
            .wait_timeout(inner, timeout)
            .unwrap_or_else(PoisonError::into_inner);
        Guard { inner, held }
    }
}

/// Panics, in debug builds, if this thread holds any ranked lock: called before foreign code runs.
pub fn assert_none_held() {
    #[cfg(debug_assertions)]
    checked::assert_none_held();
}

#[derive(Debug)]
struct Held {
    #[cfg(debug_assertions)]
    rank: Rank,
}

impl Held {
    #[cfg(debug_assertions)]
    fn take(rank: Rank) -> Held {
        checked::push(rank);
        Held { rank }
    }

    #[cfg(not(debug_assertions))]
    fn take(_: Rank) -> Held {
        Held {}
    }
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        checked::pop(self.rank);
    }
}

#[cfg(debug_assertions)]
mod checked {
    use super::Rank;
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn push(rank: Rank) {
        // While the thread ends its list may be gone already; then nothing is checked.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(last) = held.last() {
                assert!(
                    last.order < rank.order,
                    "lock order: `{}` ({}) taken while `{}` ({}) is held",
                    rank.name,
                    rank.order,
                    last.name,
                    last.order
                );
            }
            held.push(rank);
        });
    }

    pub(super) fn pop(rank: Rank) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(index) = held.iter().rposition(|&other| other == rank) {
                held.remove(index);
            }
        });
    }

    pub(super) fn assert_none_held() {
        let _ = HELD.try_with(|held| {
            let held = held.borrow();
            assert!(
                held.is_empty(),
                "foreign code called while {held:?} is held"
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Rank = Rank {
        order: 1,
        name: "low",
    };
    const HIGH: Rank = Rank {
        order: 2,
        name: "high",
    };

    #[test]
    fn rising_order_is_allowed_in_any_release_order() {
        let (low, high) = (Mutex::new(LOW, 1), Mutex::new(HIGH, 2));
        let first = low.lock();
        let second = high.lock();
        drop(first);
        drop(second);
        assert_eq!(*low.lock() + *high.lock(), 3);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: `low`")]
    fn falling_order_is_refused() {
        let (low, high) = (Mutex::new(LOW, ()), Mutex::new(HIGH, ()));
        let _high = high.lock();
        let _low = low.lock();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: `low`")]
    fn two_locks_of_one_rank_are_refused() {
        let (one, other) = (Mutex::new(LOW, ()), Mutex::new(LOW, ()));
        let _one = one.lock();
        let _other = other.lock();
    }
}
