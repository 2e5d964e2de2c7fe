//! What callers bring into the engine, and what they are told about it.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::outcome::{Outcome, Waiter};
use crate::schedule::{Entry, Ids, Priority};

/// What is to be done for a part of a request.
pub trait Job: Send {
    /// It will not be done. Returns who waits for it.
    fn refuse(self, why: Rejected) -> Option<Waiter>;

    /// Whether what becomes of this part decides what becomes of the request: true once for each request.
    fn settles(&self) -> bool;
}

/// The parts of a request; nearly always it is one.
pub type Parts<J> = SmallVec<[Entry<J>; 1]>;

/// A request of one part.
pub fn one<J>(part: Entry<J>) -> Parts<J> {
    std::iter::once(part).collect()
}

/// What the parts take in memory.
pub fn bytes<J>(parts: &Parts<J>) -> usize {
    parts.iter().map(|part| part.bytes).sum()
}

/// What the parts come before: all have one priority.
pub fn priority<J>(parts: &Parts<J>) -> Priority {
    let first = parts.first();
    first.map_or(Priority::default(), |part| part.priority)
}

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// Requests.
    pub requests: usize,
    /// Bytes of their arrays.
    pub bytes: usize,
    /// Requests of each priority.
    pub of_priority: [usize; Priority::COUNT],
}

/// What is done with a request for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It is not taken.
    Refuse,
    /// It waits outside, and comes in when there is room.
    Hold,
}

/// Where a request is that was taken.
pub enum Admission {
    /// In the queue.
    Queued(Ids),
    /// Outside: it will be told where in the queue it is, once it is there, or that it will not be.
    Held(Arc<Place>),
}

/// Where the parts of a request that is held outside come to be; nowhere, if it is turned away.
pub type Place = Outcome<Option<Ids>>;

/// Why a request was not taken, or not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// There is no room.
    Full {
        /// How many requests wait; of a priority that is full, its own.
        requests: usize,
        /// How many bytes these have.
        bytes: usize,
        /// Which limit is reached.
        setting: &'static str,
        /// When there may be room.
        retry_after: Duration,
    },
    /// It is larger than all the room there is.
    TooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many there is room for.
        capacity: usize,
    },
    /// The queue is closed.
    Closed,
    /// Its deadline passed before it was its turn.
    Expired,
}
