//! How far every stream of a pool is: what arenas and orderings ask.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use streampool_device::Progress;

use crate::Result;
use crate::clock::{MAX_STREAMS, Stamp};

/// The progress of each stream made so far.
pub(crate) struct Clocks([OnceLock<Arc<dyn Progress>>; MAX_STREAMS]);

impl Clocks {
    pub fn new() -> Self {
        Clocks([const { OnceLock::new() }; MAX_STREAMS])
    }

    /// Makes a stream's progress known; once for each stream.
    pub fn set(&self, stream: u8, progress: Arc<dyn Progress>) {
        // A stream is made once, under a lock: there is nothing there yet.
        let _ = self.0[usize::from(stream)].set(progress);
    }

    /// The tick up to which a stream is complete.
    #[inline]
    pub fn completed(&self, stream: u8) -> u64 {
        self.0[usize::from(stream)]
            .get()
            .map_or(0, |progress| progress.completed())
    }

    /// Waits until flushed work at `stamp` is over; fails if it could not be waited for. Faults are told to those they
    /// hit.
    pub fn wait(&self, stamp: Stamp, deadline: Option<Instant>) -> Result<()> {
        let Some(progress) = self.0[usize::from(stamp.stream)].get() else {
            return Ok(());
        };
        match progress.wait(stamp.tick, deadline) {
            Err(error) if !self.is_complete(stamp) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether `stamp` is complete.
    #[inline]
    pub fn is_complete(&self, stamp: Stamp) -> bool {
        self.completed(stamp.stream) >= stamp.tick
    }
}
