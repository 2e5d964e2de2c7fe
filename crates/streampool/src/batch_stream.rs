//! The streams on which a queue's batches run: its own, and further ones while there are any.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use streampool_runtime::{Lease, Pool, Result, Stream};

/// A queue's own stream, and who waits for it.
pub struct OwnStream {
    lease: Lease,
    /// A number for each batch, rising: that of who has it in front, and behind it those who wait.
    line: Mutex<VecDeque<u64>>,
    moved: Condvar,
}

/// The stream of one batch.
pub enum BatchStream<'a> {
    /// The queue's own.
    Own(&'a OwnStream),
    /// Another one, for as long as the batch runs.
    Further(Lease),
}

impl OwnStream {
    /// A stream that nobody else uses: one that others use would be recovered under their hands.
    pub fn new(pool: &Pool) -> Result<OwnStream> {
        Ok(OwnStream {
            lease: pool.lease_alone()?,
            line: Mutex::default(),
            moved: Condvar::new(),
        })
    }

    /// It or a further one; none if both are in use until the deadline.
    pub fn for_batch(&self, pool: &Pool, deadline: Option<Instant>) -> Option<BatchStream<'_>> {
        let mut line = self.line();
        if line.is_empty() {
            line.push_back(0);
            return Some(BatchStream::Own(self));
        }
        drop(line);
        // If a further one cannot be made, the queue still has its own.
        if let Ok(Some(further)) = pool.try_lease() {
            return Some(BatchStream::Further(further));
        }
        let mut line = self.line();
        let place = line.back().map_or(0, |last| last + 1);
        line.push_back(place);
        while line.front() != Some(&place) {
            line = match deadline {
                None => self
                    .moved
                    .wait(line)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        line.retain(|&other| other != place);
                        return None;
                    }
                    let woken = self.moved.wait_timeout(line, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Some(BatchStream::Own(self))
    }

    fn line(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for BatchStream<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        match self {
            BatchStream::Own(own) => &own.lease,
            BatchStream::Further(further) => further,
        }
    }
}

impl Drop for BatchStream<'_> {
    fn drop(&mut self) {
        if let BatchStream::Own(own) = self {
            own.line().pop_front();
            own.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use streampool_host::{HostDevice, HostOptions};
    use streampool_runtime::Settings;

    use super::*;

    /// A pool with streams for one queue and for `others`.
    fn pool(others: usize) -> Pool {
        let device = HostDevice::new(HostOptions::default()).unwrap();
        let settings = Settings::builder().streams(2 + others).build().unwrap();
        Pool::with_settings(device, settings).unwrap()
    }

    #[test]
    fn batches_take_the_queues_own_stream_first_and_then_free_ones() {
        let pool = pool(1);
        let own = OwnStream::new(&pool).unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(20));
        let first = own.for_batch(&pool, None).unwrap();
        let second = own.for_batch(&pool, None).unwrap();
        assert!(matches!(first, BatchStream::Own(_)));
        assert!(matches!(second, BatchStream::Further(_)));
        assert_ne!(first.index(), second.index());
        assert!(own.for_batch(&pool, soon()).is_none(), "both are in use");
        drop(second);
        assert!(own.for_batch(&pool, soon()).is_some());
        drop(first);
        assert!(matches!(
            own.for_batch(&pool, None),
            Some(BatchStream::Own(_))
        ));
    }

    #[test]
    fn those_who_wait_are_served_in_order() {
        let pool = pool(0);
        let own = OwnStream::new(&pool).unwrap();
        let order = Mutex::new(Vec::new());
        let held = own.for_batch(&pool, None).unwrap();
        std::thread::scope(|scope| {
            for place in 0..8 {
                let (own, pool, order) = (&own, &pool, &order);
                scope.spawn(move || {
                    let _stream = own.for_batch(pool, None).unwrap();
                    order.lock().unwrap().push(place);
                });
                while own.line().len() <= place + 1 {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>());
    }
}
