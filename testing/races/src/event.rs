//! Events that know what comes before their recording.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use streampool_device::{Error, Event, EventStatus, Result};

use crate::clock::Clock;
use crate::order::Order;

/// An event of the device that is wrapped.
pub(crate) struct Watched {
    pub event: Box<dyn Event>,
    order: Arc<Order>,
    latest: Mutex<Latest>,
}

/// The latest recording.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    pub clock: Clock,
    /// How many there were.
    pub count: u64,
}

impl Watched {
    pub fn new(event: Box<dyn Event>, order: Arc<Order>) -> Self {
        Watched {
            event,
            order,
            latest: Mutex::default(),
        }
    }

    /// One of ours, if it is.
    pub fn of(event: &dyn Event) -> Option<&Watched> {
        event.as_any().downcast_ref()
    }

    /// The latest recording, which stays the latest as long as it is locked.
    pub fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits by `wait` on the host. What is over then is not known if the event was recorded meanwhile.
    fn wait_by<T>(&self, wait: impl FnOnce() -> Result<T>) -> Result<T> {
        let count = self.latest().count;
        let waited = wait();
        let latest = self.latest();
        if matches!(waited, Ok(_) | Err(Error::Fault(_))) && latest.count == count {
            self.order.all_over(&latest.clock);
        }
        waited
    }
}

impl Event for Watched {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn query(&self) -> Result<EventStatus> {
        let latest = self.latest();
        let status = self.event.query();
        if matches!(status, Ok(EventStatus::Complete) | Err(Error::Fault(_))) {
            self.order.all_over(&latest.clock);
        }
        status
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        self.wait_by(|| self.event.wait(deadline))
    }

    fn elapsed_since(&self, start: &dyn Event) -> Result<Duration> {
        let Some(watched) = Watched::of(start) else {
            return self.event.elapsed_since(start);
        };
        self.wait_by(|| watched.wait_by(|| self.event.elapsed_since(&*watched.event)))
    }
}
