//! The event: a point of a queue that others can see.

use std::any::Any;
use std::time::{Duration, Instant};

use crate::Result;

/// What is known of an event without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventStatus {
    /// Never recorded.
    Unrecorded,
    /// Recorded; its queue is not there yet.
    Pending,
    /// Everything before its latest recording is complete.
    Complete,
}

/// A point of a queue. Recorded by [`Queue::record`](crate::Queue::record), again and again if wanted;
/// queries and waits concern the latest recording at the time of the call.
pub trait Event: Send + Sync {
    /// For the device to find its own type again.
    fn as_any(&self) -> &dyn Any;

    /// Where it stands; the fault if its recording completed with one. Never blocks. Polling it makes the
    /// work before it start.
    fn query(&self) -> Result<EventStatus>;

    /// Waits on the host. Fails with the fault its recording completed with, with
    /// [`NotRecorded`](crate::Error::NotRecorded) at once if there is no recording, and with
    /// [`Timeout`](crate::Error::Timeout) at the deadline.
    fn wait(&self, deadline: Option<Instant>) -> Result<()>;

    /// The time from `start`'s recording to this one's, after waiting for these two and nothing else.
    /// Fails without timing, without a recording, on a fault, and if `start` is the later one.
    fn elapsed_since(&self, start: &dyn Event) -> Result<Duration>;
}
