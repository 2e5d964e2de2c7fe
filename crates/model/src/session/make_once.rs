//! What one thread makes while others wait for it, as long as they have time.

use std::sync::Arc;
use std::time::Instant;

use streampool_device::lock::{Condvar, Mutex};
use streampool_runtime::Budget;

use crate::error::{Error, Result};
use crate::ranks;

/// A place for a `T` that is made once.
pub struct MakeOnce<T> {
    state: Mutex<State<T>>,
    over: Condvar,
}

enum State<T> {
    /// Nobody makes it.
    Free,
    /// Somebody does.
    UnderWay,
    Made(Arc<T>),
}

impl<T> MakeOnce<T> {
    /// Nothing so far.
    pub fn new() -> MakeOnce<T> {
        MakeOnce {
            state: Mutex::new(ranks::PLAN, State::Free),
            over: Condvar::new(),
        }
    }

    /// It, if it is there.
    pub fn get(&self) -> Option<Arc<T>> {
        match &*self.state.lock() {
            State::Made(made) => Some(made.clone()),
            _ => None,
        }
    }

    /// It, and whether it was made now: by this thread, if nobody else makes it. Who waits does so until the deadline of
    /// its budget. If it could not be made, each finds out by itself why.
    pub fn get_or_make(&self, make: impl FnOnce() -> Result<T>) -> Result<(Arc<T>, bool)> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Made(made) => return Ok((made.clone(), false)),
                State::Free => break,
                State::UnderWay => {}
            }
            let Some(deadline) = Budget::current_deadline() else {
                state = self.over.wait(state);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Deadline);
            }
            state = self.over.wait_timeout(state, left);
        }
        *state = State::UnderWay;
        drop(state);
        let mut end = End {
            making: self,
            state: State::Free,
        };
        let made = Arc::new(make()?);
        end.state = State::Made(made.clone());
        Ok((made, true))
    }
}

/// Says at the end, a panic's too, what came of it.
struct End<'a, T> {
    making: &'a MakeOnce<T>,
    state: State<T>,
}

impl<T> Drop for End<'_, T> {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Free);
        *self.making.state.lock() = state;
        self.making.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    fn within<R>(milliseconds: u64, work: impl FnOnce() -> R) -> R {
        let deadline = Instant::now().checked_add(Duration::from_millis(milliseconds));
        let budget = Budget {
            deadline,
            ..Budget::UNLIMITED
        };
        budget.spend(work)
    }

    #[test]
    fn one_makes_it_and_who_waits_has_a_deadline() {
        let making = MakeOnce::new();
        let (begun, late) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let made = making.get_or_make(|| {
                    begun.wait();
                    late.wait();
                    Ok(7)
                });
                assert_eq!(made.unwrap(), (Arc::new(7), true));
            });
            begun.wait();
            let waited = within(20, || making.get_or_make(|| panic!("it is made")));
            assert!(matches!(waited, Err(Error::Deadline)));
            assert_eq!(making.get(), None);
            late.wait();
            let waited = making.get_or_make(|| panic!("it is made"));
            assert_eq!(waited.unwrap(), (Arc::new(7), false));
        });
        assert_eq!(making.get(), Some(Arc::new(7)));
    }

    #[test]
    fn after_an_error_or_a_panic_the_next_tries() {
        let making = MakeOnce::new();
        assert!(making.get_or_make(|| Err(Error::Deadline)).is_err());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(making.get_or_make(|| panic!("while it is made")));
        }));
        assert!(panicked.is_err());
        assert_eq!(making.get_or_make(|| Ok(1)).unwrap(), (Arc::new(1), true));
    }
}
