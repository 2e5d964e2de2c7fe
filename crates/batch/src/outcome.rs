//! What becomes of one request: put once by whoever ran or refused it, taken once by whoever asked.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

use crate::sync::{Mutex, Thread, current, lock, park};

/// The place where the two meet.
pub struct Outcome<R>(Mutex<Stage<R>>);

enum Stage<R> {
    /// Nothing yet; who waits is to be woken.
    Open(Option<Waiter>),
    /// There, and not taken.
    Put(R),
    /// Taken, or nobody wants it.
    Over,
}

/// Who waits.
pub enum Waiter {
    /// A thread that sleeps.
    Thread(Thread),
    /// A task of an executor.
    Task(Waker),
}

impl Waiter {
    /// Wakes them. A waker that panics is an executor's concern: whoever wakes has others to wake, too.
    pub fn wake(self) {
        match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                    discard(panic);
                }
            }
        }
    }
}

/// Wakes all these.
pub fn wake(waiters: impl IntoIterator<Item = Waiter>) {
    waiters.into_iter().for_each(Waiter::wake);
}

/// Drops what a panic has left, which may panic in turn, and so may what that leaves.
pub fn discard(mut panic: Box<dyn Any + Send>) {
    while let Err(next) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        panic = next;
    }
}

/// What putting came to.
pub enum Accepted {
    /// It is theirs; whoever waits has to be woken.
    By(Option<Waiter>),
    /// Nobody wants it, or it has been put before.
    Not,
}

impl<R> Outcome<R> {
    /// Nothing yet.
    pub fn new() -> Self {
        Outcome(Mutex::new(Stage::Open(None)))
    }

    /// Puts what became of it, if that is not known yet and somebody wants it.
    pub fn put(&self, result: R) -> Accepted {
        let mut stage = lock(&self.0);
        let waiter = match &mut *stage {
            Stage::Open(waiter) => waiter.take(),
            Stage::Put(_) | Stage::Over => return Accepted::Not,
        };
        if cfg!(planted) {
            drop(stage);
            stage = lock(&self.0);
        }
        *stage = Stage::Put(result);
        Accepted::By(waiter)
    }

    /// Gives it up: what is put from now on is dropped. Says whether nothing had been put.
    pub fn abandon(&self) -> bool {
        let old = std::mem::replace(&mut *lock(&self.0), Stage::Over);
        matches!(old, Stage::Open(_))
    }

    /// Whether it is there.
    pub fn is_put(&self) -> bool {
        !matches!(*lock(&self.0), Stage::Open(_))
    }

    /// Takes it, or leaves word who is to be woken once it is there.
    pub fn poll(&self, waker: &Waker) -> Poll<R> {
        self.take_or_leave(|known| match known {
            Some(Waiter::Task(task)) if task.will_wake(waker) => None,
            known => known.replace(Waiter::Task(waker.clone())),
        })
    }

    /// Takes it, after sleeping until it is there.
    pub fn wait(&self) -> R {
        loop {
            match self.poll_by_thread() {
                Poll::Ready(result) => return result,
                Poll::Pending => park(),
            }
        }
    }

    /// Takes it, after sleeping until it is there; nothing, if it is not there at that time.
    #[cfg(not(loom))]
    pub fn wait_until(&self, until: std::time::Instant) -> Option<R> {
        loop {
            if let Poll::Ready(result) = self.poll_by_thread() {
                return Some(result);
            }
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                // Who stops waiting is not to be woken.
                let at_last = self.take_or_leave(Option::take);
                return match at_last {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                };
            }
            std::thread::park_timeout(left);
        }
    }

    fn poll_by_thread(&self) -> Poll<R> {
        self.take_or_leave(|known| known.replace(Waiter::Thread(current())))
    }

    /// Takes it, or leaves word. Who is not to be woken any more is dropped when the lock is free: with them may go a task, and
    /// whatever that has.
    fn take_or_leave(
        &self,
        leave_word: impl FnOnce(&mut Option<Waiter>) -> Option<Waiter>,
    ) -> Poll<R> {
        let mut stage = lock(&self.0);
        if let Stage::Open(known) = &mut *stage {
            let before = leave_word(known);
            drop(stage);
            drop(before);
            return Poll::Pending;
        }
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Put(result) => Poll::Ready(result),
            Stage::Open(_) | Stage::Over => panic!("what became of a request is taken once"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_is_put_once_and_taken_once() {
        let outcome = Outcome::new();
        assert!(!outcome.is_put());
        assert!(matches!(outcome.put(1), Accepted::By(None)));
        assert!(matches!(outcome.put(2), Accepted::Not));
        assert!(outcome.is_put());
        assert_eq!(outcome.wait(), 1);
    }

    #[test]
    fn who_sleeps_is_woken() {
        let outcome = Arc::new(Outcome::new());
        let other = outcome.clone();
        let sleeper = std::thread::spawn(move || other.wait());
        std::thread::sleep(Duration::from_millis(5));
        if let Accepted::By(Some(waiter)) = outcome.put(3) {
            waiter.wake();
        }
        assert_eq!(sleeper.join().unwrap(), 3);
    }

    #[test]
    fn time_ends_a_wait_and_it_can_be_waited_for_again() {
        let outcome = Outcome::new();
        let soon = Instant::now() + Duration::from_millis(2);
        assert_eq!(outcome.wait_until(soon), None);
        // Who stopped waiting is not woken.
        assert!(matches!(outcome.put(4), Accepted::By(None)));
        assert_eq!(outcome.wait_until(soon), Some(4));
    }

    #[test]
    fn what_is_abandoned_is_dropped() {
        let outcome = Outcome::new();
        assert!(outcome.abandon());
        assert!(matches!(outcome.put(5), Accepted::Not));
        let outcome = Outcome::new();
        outcome.put(6);
        assert!(!outcome.abandon(), "it was there before");
    }
}
