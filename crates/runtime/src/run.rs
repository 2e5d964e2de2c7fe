//! The stream of one run: which it is, how long the run waits for it, and where it goes afterwards.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::binding::{self, Binding};
use crate::core::Core;
use crate::settings::WhenExhausted;
use crate::waiters::Waited;
use crate::{Error, Result, Stream, os};

/// Under [`WhenExhausted::Share`] a run waits so long while no stream goes from one thread to another. Then it shares one.
const PATIENCE: Duration = Duration::from_millis(100);

/// So long after that, runs that find no stream share one at once.
const IMPATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    /// The stream of this thread's last run. It is likely to be free, and to hold programs and memory for the next.
    static LAST: Cell<Binding> = const { Cell::new(binding::NOTHING) };
}

/// How a run came by its stream.
pub(crate) enum Hold {
    /// The thread is on a stream anyway: a scope or a task put it there, or it is the main thread.
    Given,
    /// The thread has leased this one.
    Leased(u8),
    /// This one was claimed for the run.
    Claimed(u8),
    /// Others have this one, too.
    Shared(u8),
}

/// The stream of a run of this thread, after waiting for one if need be.
#[inline]
pub(crate) fn begin(core: &Core, deadline: Option<Instant>) -> Result<Hold> {
    if binding::is_put(core.id) {
        return Ok(Hold::Given);
    }
    if let Some(index) = binding::leased(core.id) {
        return Ok(Hold::Leased(index));
    }
    let last = LAST.get();
    let own = (last.pool == core.id).then_some(last.stream);
    // The main thread has no run of its own to remember.
    if own.is_none() && os::is_main_thread() {
        return Ok(Hold::Given);
    }
    let used = core.preferred.load(Ordering::Relaxed);
    match core.slots.try_claim_preferring(own, used) {
        Some(index) => Ok(Hold::Claimed(index)),
        None => wait(core, deadline),
    }
}

#[cold]
fn wait(core: &Core, deadline: Option<Instant>) -> Result<Hold> {
    let limit = core.settings.streams - 1;
    let now = Instant::now();
    let (timeout, patience) = match core.settings.exhaustion {
        WhenExhausted::Fail => return Err(Error::NoFreeStream { limit }),
        // Without workers nobody ever returns one.
        WhenExhausted::Wait(_) if limit == 0 => return Err(Error::NoFreeStream { limit }),
        WhenExhausted::Wait(timeout) => (timeout, None),
        WhenExhausted::Share if limit == 0 || core.is_impatient(now) => {
            return Ok(Hold::Shared(core.next_shared()));
        }
        WhenExhausted::Share => (None, Some(PATIENCE)),
    };
    let until = timeout.and_then(|timeout| now.checked_add(timeout));
    let until = until.into_iter().chain(deadline).min();
    match core.slots.claim_wait(until, patience) {
        Waited::Slot(index) => Ok(Hold::Claimed(index)),
        Waited::Closed => Err(Error::ShutDown),
        Waited::Stuck => {
            core.lose_patience(now + IMPATIENCE);
            Ok(Hold::Shared(core.next_shared()))
        }
        Waited::Late if until == deadline => Err(Error::Deadline),
        Waited::Late => Err(Error::WaitTimedOut {
            limit,
            waited: timeout.unwrap_or_default(),
        }),
    }
}

/// A run on a stream. Dropping it ends the run, by a panic too.
pub(crate) struct Running<'a> {
    pub core: &'a Arc<Core>,
    pub stream: &'a Stream,
    pub hold: Hold,
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        let core = self.core;
        // The run may have forked the process, and this is the child.
        if os::is_stale(core.id) {
            return;
        }
        match self.hold {
            Hold::Given | Hold::Shared(_) => {}
            // A lease goes to who waits for one. The thread's next use takes another.
            Hold::Leased(_) => {
                if core.slots.is_wanted() && !core.is_shut() {
                    drop(binding::take(core.id));
                }
            }
            Hold::Claimed(index) => {
                // Nobody else recovers what is nobody's.
                if self.stream.fault().is_some() {
                    let _ = self.stream.recover();
                }
                LAST.set(Binding {
                    pool: core.id,
                    stream: index,
                });
                let own = 1 << index;
                if core.preferred.load(Ordering::Relaxed) & own == 0 {
                    core.preferred.fetch_or(own, Ordering::Relaxed);
                }
                core.slots.release(index);
            }
        }
    }
}
