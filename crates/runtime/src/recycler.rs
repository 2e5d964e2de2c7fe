//! A bounded pool of idle objects: any thread puts one in or takes one out, without a lock.

#![expect(unsafe_code, reason = "a lock-free store of values")]

use std::mem::MaybeUninit;

use crate::slots::SlotSet;
use crate::sync::UnsafeCell;

/// How many cells one shard has: as many as a [`SlotSet`] has numbers.
const SHARD_CELLS: usize = 63;

/// Idle objects, at most as many as its capacity.
///
/// A cell is reached by who claimed its number, in the set of the empty cells to fill it or in the set of the
/// full ones to empty it. So no cell has two users, and no number can stand for an older one.
#[derive(Debug)]
pub(crate) struct Recycler<T> {
    shards: Box<[Shard<T>]>,
}

// SAFETY: a value is touched only by who claimed its cell, and claiming orders that after the last user's
// touch; so sharing the pool only moves values between threads.
unsafe impl<T: Send> Sync for Recycler<T> {}

/// Own cache lines, so that shards do not slow one another.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<T> {
    full: SlotSet,
    empty: SlotSet,
    // The cell of number n is cells[n - 1]. It is initialised if n is in `full`.
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

impl<T> Recycler<T> {
    /// An empty pool.
    pub(crate) fn new(capacity: usize) -> Self {
        let shards = (0..capacity).step_by(SHARD_CELLS);
        Recycler {
            shards: shards
                .map(|first| Shard::new(SHARD_CELLS.min(capacity - first)))
                .collect(),
        }
    }

    /// Puts an object in; gives it back if the pool is full.
    pub(crate) fn put(&self, mut value: T) -> Result<(), T> {
        for shard in &self.shards {
            match shard.put(value) {
                Ok(()) => return Ok(()),
                Err(back) => value = back,
            }
        }
        Err(value)
    }

    /// Takes an object out, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        self.shards.iter().find_map(Shard::take)
    }

    /// How many objects were in it a moment ago.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.full.free() as usize).sum()
    }
}

impl<T> Shard<T> {
    fn new(cells: usize) -> Self {
        Shard {
            full: SlotSet::new(0),
            // The numbers from 1 to `cells`, at most 63.
            empty: SlotSet::new(u64::MAX >> (SHARD_CELLS - cells)),
            cells: (0..cells)
                .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
                .collect(),
        }
    }

    fn put(&self, value: T) -> Result<(), T> {
        let Some(number) = self.empty.claim() else {
            return Err(value);
        };
        self.cells[usize::from(number) - 1].with_mut(|cell| {
            // SAFETY: the number was claimed and is in neither set now, so the cell is ours until `release`;
            // the claim acquired what its last user released, so that user is done with it.
            unsafe { (*cell).write(value) };
        });
        self.full.release(number);
        Ok(())
    }

    fn take(&self) -> Option<T> {
        let number = self.full.claim()?;
        let value = self.cells[usize::from(number) - 1].with_mut(|cell| {
            // SAFETY: the number was in `full`, so the cell is initialised, and the claim acquired the write;
            // it is in neither set now, so nobody else reads it, and it counts as empty from here on.
            unsafe { (*cell).assume_init_read() }
        });
        self.empty.release(number);
        Some(value)
    }
}

impl<T> Drop for Recycler<T> {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn holds_its_capacity_and_no_more() {
        for capacity in [0, 1, 2, 62, 63, 64, 126, 127, 256] {
            let pool = Recycler::new(capacity);
            for value in 0..capacity {
                assert_eq!(pool.put(value), Ok(()));
            }
            assert_eq!(pool.len(), capacity);
            assert_eq!(pool.put(capacity), Err(capacity));
            let mut taken: Vec<usize> = std::iter::from_fn(|| pool.take()).collect();
            taken.sort_unstable();
            assert_eq!(taken, (0..capacity).collect::<Vec<_>>());
            assert_eq!(pool.len(), 0);
            assert_eq!(pool.take(), None);
        }
    }

    #[test]
    fn drops_what_is_left_once() {
        let owned = Arc::new(());
        let pool = Recycler::new(100);
        for _ in 0..80 {
            assert!(pool.put(owned.clone()).is_ok());
        }
        drop(pool.take());
        assert_eq!(Arc::strong_count(&owned), 80);
        drop(pool);
        assert_eq!(Arc::strong_count(&owned), 1);
    }

    #[test]
    fn no_object_is_lost_or_has_two_holders_while_threads_take_and_put() {
        const OBJECTS: usize = 5;
        let pool = Recycler::new(OBJECTS);
        let holders: [AtomicUsize; OBJECTS] = Default::default();
        for object in 0..OBJECTS {
            assert_eq!(pool.put(object), Ok(()));
        }
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let Some(object) = pool.take() else {
                            std::thread::yield_now();
                            continue;
                        };
                        assert_eq!(holders[object].fetch_add(1, Ordering::Relaxed), 0);
                        holders[object].fetch_sub(1, Ordering::Relaxed);
                        assert_eq!(pool.put(object), Ok(()));
                    }
                });
            }
        });
        assert_eq!(pool.len(), OBJECTS);
    }
}
