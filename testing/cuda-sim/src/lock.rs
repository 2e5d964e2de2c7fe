//! The lock of the driver's context: shared by who launches, held alone by who makes or frees something.
//!
//! It prefers those who share it, as the driver's does (a read-write lock of glibc in its usual kind): who comes to share
//! it waits only for one who has it alone already, never for one who waits to have it alone. So where somebody always shares
//! it, nobody ever gets it alone.
//!
//! ```
//! let lock = streampool_cuda_sim::lock::Lock::new();
//! let launching = lock.share();
//! assert!(lock.try_alone().is_none());
//! let another = lock.share();
//! drop((launching, another));
//! assert!(lock.try_alone().is_some());
//! ```

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A lock that prefers those who share it.
#[derive(Debug, Default)]
pub struct Lock {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    sharing: usize,
    alone: bool,
}

impl Lock {
    /// One that nobody holds.
    pub const fn new() -> Lock {
        Lock {
            state: Mutex::new(State {
                sharing: 0,
                alone: false,
            }),
            left: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        while_so: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waited = self.left.wait_while(state, while_so);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Shares it, as soon as nobody has it alone. Who waits for that is passed.
    pub fn share(&self) -> Held<'_> {
        let mut state = self.wait(self.state(), |state| state.alone);
        state.sharing += 1;
        Held(self)
    }

    /// Has it alone, as soon as nobody else holds it.
    pub fn alone(&self) -> Held<'_> {
        let mut state = self.wait(self.state(), |state| state.alone || state.sharing > 0);
        state.alone = true;
        Held(self)
    }

    /// Has it alone if nobody else holds it now.
    pub fn try_alone(&self) -> Option<Held<'_>> {
        let mut state = self.state();
        let free = !state.alone && state.sharing == 0;
        state.alone |= free;
        drop(state);
        free.then(|| Held(self))
    }
}

/// The lock is held until this is dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a Lock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        match state.sharing {
            0 => state.alone = false,
            _ => state.sharing -= 1,
        }
        let free = state.sharing == 0;
        drop(state);
        if free {
            self.0.left.notify_all();
        }
    }
}
