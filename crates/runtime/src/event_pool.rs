//! The pool that events come from, and go back to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use streampool_device::{Device, Event as DeviceEvent};

use crate::{Result, os};

/// Idle events kept for the next who needs one, of each kind.
const IDLE_EVENTS: usize = 256;

/// The events of one pool. Making one can cost a driver call, so they are used again.
pub(crate) struct EventPool {
    owner: u64,
    device: Arc<dyn Device>,
    plain: ArrayQueue<Box<dyn DeviceEvent>>,
    timed: ArrayQueue<Box<dyn DeviceEvent>>,
    made: AtomicU64,
    reused: AtomicU64,
}

impl EventPool {
    pub fn new(owner: u64, device: Arc<dyn Device>) -> Self {
        EventPool {
            owner,
            device,
            plain: ArrayQueue::new(IDLE_EVENTS),
            timed: ArrayQueue::new(IDLE_EVENTS),
            made: AtomicU64::new(0),
            reused: AtomicU64::new(0),
        }
    }

    pub fn take(self: &Arc<Self>, timing: bool) -> Result<PooledEvent> {
        let event = match self.idle(timing).pop() {
            Some(event) => {
                self.reused.fetch_add(1, Ordering::Relaxed);
                event
            }
            None => {
                self.made.fetch_add(1, Ordering::Relaxed);
                self.device.create_event(timing)?
            }
        };
        Ok(PooledEvent {
            event: Some(event),
            timing,
            pool: self.clone(),
        })
    }

    fn idle(&self, timing: bool) -> &ArrayQueue<Box<dyn DeviceEvent>> {
        match timing {
            true => &self.timed,
            false => &self.plain,
        }
    }

    /// How many were made, how many were used again, how many are idle.
    pub fn counts(&self) -> (u64, u64, usize) {
        (
            self.made.load(Ordering::Relaxed),
            self.reused.load(Ordering::Relaxed),
            self.plain.len() + self.timed.len(),
        )
    }
}

/// A device's event on loan; it goes back to the pool when dropped. What an earlier borrower recorded on
/// it says nothing to this one.
pub(crate) struct PooledEvent {
    // `None` only inside `drop`.
    event: Option<Box<dyn DeviceEvent>>,
    timing: bool,
    pool: Arc<EventPool>,
}

impl PooledEvent {
    pub fn device_event(&self) -> &dyn DeviceEvent {
        match &self.event {
            Some(event) => &**event,
            None => unreachable!("a pooled event is there until it is dropped"),
        }
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        let Some(event) = self.event.take() else {
            return;
        };
        if os::is_stale(self.pool.owner) {
            std::mem::forget(event);
            return;
        }
        // A full pool drops what is too many.
        let _ = self.pool.idle(self.timing).push(event);
    }
}
