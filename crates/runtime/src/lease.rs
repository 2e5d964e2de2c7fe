//! Leases: a stream that belongs to one holder, until it is dropped.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use crate::core::Core;
use crate::settings::WhenExhausted;
use crate::waiters::Waited;
use crate::{Error, Result, Stream, os};

/// A stream that nobody else is given meanwhile, unless it [is shared](Self::is_shared). Dropping it waits for its work and
/// returns the stream; one that is shared it just leaves.
///
/// While it lives the pool's streams do, too; so it keeps no pool from shutting down, and ends with it.
#[derive(Debug)]
pub struct Lease {
    stream: Stream,
    is_shared: bool,
}

impl Lease {
    pub(crate) fn new(stream: Stream) -> Self {
        Lease {
            stream,
            is_shared: false,
        }
    }

    pub(crate) fn shared(stream: Stream) -> Self {
        Lease {
            stream,
            is_shared: true,
        }
    }

    /// Whether others use the stream, too: all were leased, and the policy is [`Share`](WhenExhausted::Share).
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(crate) fn index(&self) -> u8 {
        self.stream.index()
    }
}

impl std::ops::Deref for Lease {
    type Target = Stream;
    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_shared || os::is_stale(self.stream.pool_id()) {
            return;
        }
        self.stream.vacate();
        self.stream.core().slots.release(self.index());
    }
}

/// Ends the lease that a thread had on a stream.
pub(crate) fn end(core: Arc<Core>, index: u8) {
    if let Ok(lane) = core.lane(index) {
        let lane = lane.clone();
        drop(Lease::new(Stream::new(core, lane)));
    }
}

/// Claims a slot for a task, which waits for one whatever the policy is, behind those that wait already.
pub(crate) async fn claim_in_turn(core: &Core) -> Result<u8> {
    let limit = core.settings.streams - 1;
    // Without workers nobody ever returns one.
    if limit == 0 {
        return Err(Error::NoFreeStream { limit });
    }
    let mut turn = core.slots.turn();
    match poll_fn(|context| turn.poll(context)).await {
        Waited::Slot(index) => Ok(index),
        Waited::Closed | Waited::Late | Waited::Stuck => Err(Error::ShutDown),
    }
}

/// How a slot was come by.
pub(crate) enum Slot {
    /// It is the caller's alone.
    Claimed(u8),
    /// Others have it too.
    Shared(u8),
}

/// Claims a slot, or does what the policy says.
pub(crate) fn claim(core: &Arc<Core>) -> Result<Slot> {
    if let Some(index) = core.slots.try_claim() {
        return Ok(Slot::Claimed(index));
    }
    let limit = core.settings.streams - 1;
    match core.settings.exhaustion {
        // Without workers nobody ever returns one.
        WhenExhausted::Wait(_) if limit == 0 => Err(Error::NoFreeStream { limit }),
        WhenExhausted::Share => Ok(Slot::Shared(core.next_shared())),
        WhenExhausted::Fail => Err(Error::NoFreeStream { limit }),
        WhenExhausted::Wait(timeout) => {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            match core.slots.claim_wait(deadline, None) {
                Waited::Slot(index) => Ok(Slot::Claimed(index)),
                Waited::Closed => Err(Error::ShutDown),
                Waited::Late | Waited::Stuck => Err(Error::WaitTimedOut {
                    limit,
                    waited: timeout.unwrap_or_default(),
                }),
            }
        }
    }
}
