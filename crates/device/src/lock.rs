//! Locks with a rank: a thread takes them in rising order only. Debug builds check it at every lock, and where the
//! order is broken they tell both places in the code.
//!
//! Two locks of the same rank are never held together; so a thread never holds two stream locks. To read is to lock,
//! too: who reads one twice waits for ever if a writer comes in between.

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Who waits for a lock with a deadline looks again at least this often.
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

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
    #[track_caller]
    pub fn lock(&self) -> Guard<'_, T> {
        let held = Held::take(self.rank);
        Locked {
            inner: self.inner.lock().unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }

    /// As [`lock`](Self::lock); none if others hold it until the deadline.
    #[track_caller]
    pub fn lock_by(&self, deadline: Instant) -> Option<Guard<'_, T>> {
        let held = Held::take(self.rank);
        // The standard mutex has no such wait, and who has a deadline can bear to be late by a pause.
        let mut pause = Duration::from_micros(20);
        let inner = loop {
            match self.inner.try_lock() {
                Ok(inner) => break inner,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::sleep(pause.min(left));
            pause = (2 * pause).min(LONGEST_PAUSE);
        };
        Some(Locked { inner, held })
    }
}

/// A lock with a rank that many may read at the same time, or one may write. A panic does not poison it, as with a
/// [`Mutex`].
#[derive(Debug)]
pub struct RwLock<T> {
    rank: Rank,
    inner: std::sync::RwLock<T>,
}

impl<T> RwLock<T> {
    /// A lock of this rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        RwLock {
            rank,
            inner: std::sync::RwLock::new(value),
        }
    }

    /// Locks it with other readers. In debug builds, panics if this thread holds a lock of the same or a higher rank.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, T> {
        let held = Held::take(self.rank);
        Locked {
            inner: self.inner.read().unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }

    /// Locks it alone. In debug builds, panics if this thread holds a lock of the same or a higher rank.
    #[track_caller]
    pub fn write(&self) -> WriteGuard<'_, T> {
        let held = Held::take(self.rank);
        Locked {
            inner: self.inner.write().unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }
}

/// Holds a [`Mutex`].
pub type Guard<'a, T> = Locked<std::sync::MutexGuard<'a, T>>;

/// Holds a [`RwLock`] with other readers.
pub type ReadGuard<'a, T> = Locked<std::sync::RwLockReadGuard<'a, T>>;

/// Holds a [`RwLock`] alone.
pub type WriteGuard<'a, T> = Locked<std::sync::RwLockWriteGuard<'a, T>>;

/// Holds a lock, and its place in the order.
#[derive(Debug)]
pub struct Locked<G> {
    inner: G,
    held: Held,
}

impl<G: Deref> Deref for Locked<G> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        &self.inner
    }
}

impl<G: DerefMut> DerefMut for Locked<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
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
        let Locked { inner, held } = guard;
        Locked {
            inner: self.0.wait(inner).unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    pub fn wait_timeout<'a, T>(&self, guard: Guard<'a, T>, timeout: Duration) -> Guard<'a, T> {
        let Locked { inner, held } = guard;
        let (inner, _) = self
            .0
            .wait_timeout(inner, timeout)
            .unwrap_or_else(PoisonError::into_inner);
        Locked { inner, held }
    }
}

/// Panics, in debug builds, if this thread holds any ranked lock: called before foreign code runs.
#[track_caller]
pub fn assert_none_held() {
    #[cfg(debug_assertions)]
    checked::assert_none_held();
}

#[derive(Debug)]
struct Held {
    #[cfg(debug_assertions)]
    taken: checked::Taken,
}

impl Held {
    #[cfg(debug_assertions)]
    #[track_caller]
    fn take(rank: Rank) -> Held {
        Held {
            taken: checked::push(rank),
        }
    }

    #[cfg(not(debug_assertions))]
    fn take(_: Rank) -> Held {
        Held {}
    }
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        checked::pop(self.taken);
    }
}

#[cfg(debug_assertions)]
mod checked {
    use super::Rank;
    use std::cell::RefCell;
    use std::panic::Location;

    /// A lock that is held, and where it was taken.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(super) struct Taken {
        rank: Rank,
        at: &'static Location<'static>,
    }

    impl std::fmt::Display for Taken {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let (Rank { order, name }, at) = (self.rank, self.at);
            write!(f, "`{name}` ({order}), taken at {at}")
        }
    }

    thread_local! {
        static HELD: RefCell<Vec<Taken>> = const { RefCell::new(Vec::new()) };
    }

    #[track_caller]
    pub(super) fn push(rank: Rank) -> Taken {
        let taken = Taken {
            rank,
            at: Location::caller(),
        };
        // While the thread ends its list may be gone already; then nothing is checked.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(last) = held.last() {
                let rises = last.rank.order < rank.order;
                assert!(rises, "lock order: {taken}, while this is held: {last}");
            }
            held.push(taken);
        });
        taken
    }

    pub(super) fn pop(taken: Taken) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(index) = held.iter().rposition(|&other| other == taken) {
                held.remove(index);
            }
        });
    }

    #[track_caller]
    pub(super) fn assert_none_held() {
        let at = Location::caller();
        let _ = HELD.try_with(|held| {
            if let Some(last) = held.borrow().last() {
                panic!("foreign code called at {at} while this is held: {last}");
            }
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

    /// What a thread says that panics.
    #[cfg(debug_assertions)]
    fn told(work: impl FnOnce() + Send + 'static) -> String {
        let panic = std::thread::spawn(work).join().unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    }

    #[test]
    #[cfg(debug_assertions)]
    fn falling_order_is_refused_and_both_places_are_told() {
        let first = line!() + 3;
        let told = told(|| {
            let (low, high) = (Mutex::new(LOW, ()), Mutex::new(HIGH, ()));
            let _high = high.lock();
            let _low = low.lock();
        });
        let second = first + 1;
        let file = file!();
        assert!(told.starts_with(&format!("lock order: `low` (1), taken at {file}:{second}:")));
        assert!(told.contains(&format!("held: `high` (2), taken at {file}:{first}:")));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: `low`")]
    fn two_locks_of_one_rank_are_refused() {
        let (one, other) = (Mutex::new(LOW, ()), Mutex::new(LOW, ()));
        let _one = one.lock();
        let _other = other.lock();
    }

    #[test]
    #[cfg(debug_assertions)]
    fn readers_keep_the_order_too() {
        let (low, high) = (RwLock::new(LOW, 1), RwLock::new(HIGH, 2));
        {
            let (mut one, other) = (low.write(), high.read());
            *one += *other;
        }
        assert_eq!((*low.read(), *high.read()), (3, 2), "all are given back");
        let falling = told(|| {
            let (low, high) = (Mutex::new(LOW, ()), RwLock::new(HIGH, ()));
            let _high = high.read();
            let _low = low.lock();
        });
        assert!(falling.contains("`low` (1)") && falling.contains("`high` (2)"));
        let twice = told(|| {
            let low = RwLock::new(LOW, ());
            let _first = low.read();
            let _again = low.read();
        });
        assert!(twice.starts_with("lock order: `low` (1)"), "{twice}");
    }

    #[test]
    #[cfg(debug_assertions)]
    fn foreign_code_is_kept_from_locks_and_the_place_told() {
        let low = Mutex::new(LOW, ());
        assert_none_held();
        drop(low.lock());
        assert_none_held();
        let line = line!() + 4;
        let told = told(|| {
            let low = Mutex::new(LOW, ());
            let _low = low.lock();
            assert_none_held();
        });
        assert!(told.starts_with(&format!("foreign code called at {}:{}:", file!(), line)));
    }
}
