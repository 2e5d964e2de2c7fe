//! Events: points of streams that can be queried, waited for and timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use streampool_device::lock::Mutex;
use streampool_device::{Event as DeviceEvent, EventStatus};

use crate::clock::Stamp;
use crate::core::Core;
use crate::event_pool::PooledEvent;
use crate::faults::Verdict;
use crate::{Error, Result, faults, ranks};

/// A point of a stream. [`Stream::record`](crate::Stream::record) it, as often as wanted; queries and
/// waits concern the latest recording.
pub struct Event {
    pooled: PooledEvent,
    core: Arc<Core>,
    /// The latest recording's stamp, packed; 0 if this owner of the device's event never recorded it.
    recorded: AtomicU64,
    /// Held while that or the device's event changes, so that the two always agree.
    recording: Mutex<()>,
}

impl Event {
    pub(crate) fn new(core: &Arc<Core>, timing: bool) -> Result<Self> {
        Ok(Event {
            pooled: core.events.take(timing)?,
            core: core.clone(),
            recorded: AtomicU64::new(0),
            recording: Mutex::new(ranks::RECORDING, ()),
        })
    }

    /// Where it stands. Never blocks. Fails with the fault if the work before it failed, or used what
    /// failed elsewhere.
    pub fn query(&self) -> Result<EventStatus> {
        let Some(stamp) = self.recorded() else {
            return Ok(EventStatus::Unrecorded);
        };
        let status = self.device_event().query()?;
        match status {
            EventStatus::Complete => self.judge(stamp, None).map(|()| status),
            _ => Ok(status),
        }
    }

    /// Waits until everything before its latest recording is complete. An event that was never recorded is
    /// an error, not a wait for ever. Fails as [`query`](Self::query) does.
    pub fn wait(&self) -> Result<()> {
        self.wait_by(None)
    }

    /// Waits for at most `timeout`; then fails with [`Timeout`](streampool_device::Error::Timeout).
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_by(Instant::now().checked_add(timeout))
    }

    fn wait_by(&self, deadline: Option<Instant>) -> Result<()> {
        let stamp = self.require_recorded()?;
        self.device_event().wait(deadline)?;
        self.judge(stamp, deadline)
    }

    /// Whether what came before `stamp`, which is complete, used only what is good.
    fn judge(&self, stamp: Stamp, deadline: Option<Instant>) -> Result<()> {
        match faults::verdict(&self.core, stamp, deadline)? {
            Verdict::Hit(fault) => Err(Error::Dependency(fault)),
            Verdict::Clean { .. } => Ok(()),
        }
    }

    /// The time from `start` to this event. It waits for the two recordings and for nothing else; an event
    /// without timing or never recorded is an error.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration> {
        start.require_recorded()?;
        self.require_recorded()?;
        if start.core.id != self.core.id {
            return Err(Error::ForeignEvent);
        }
        Ok(self.device_event().elapsed_since(start.device_event())?)
    }

    pub(crate) fn device_event(&self) -> &dyn DeviceEvent {
        self.pooled.device_event()
    }

    pub(crate) fn belongs_to(&self, pool: u64) -> Result<()> {
        match self.core.id == pool {
            true => Ok(()),
            false => Err(Error::ForeignEvent),
        }
    }

    /// Records it with `record`, which says where. The device's event and the stamp change together.
    pub(crate) fn record(
        &self,
        record: impl FnOnce(&dyn DeviceEvent) -> Result<Stamp>,
    ) -> Result<Stamp> {
        let _recording = self.recording.lock();
        let stamp = record(self.device_event())?;
        self.recorded.store(stamp.pack(), Ordering::Release);
        Ok(stamp)
    }

    /// The latest recording, and what `wait` says, which sees that same recording.
    pub(crate) fn with_recording<T>(
        &self,
        wait: impl FnOnce(&dyn DeviceEvent) -> Result<T>,
    ) -> Result<(Stamp, T)> {
        let _recording = self.recording.lock();
        let stamp = self.require_recorded()?;
        Ok((stamp, wait(self.device_event())?))
    }

    pub(crate) fn recorded(&self) -> Option<Stamp> {
        Stamp::unpack(self.recorded.load(Ordering::Acquire))
    }

    pub(crate) fn require_recorded(&self) -> Result<Stamp> {
        self.recorded()
            .ok_or(Error::Device(streampool_device::Error::NotRecorded))
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.recorded() {
            Some(stamp) => write!(f, "Event(stream {} at tick {})", stamp.stream, stamp.tick),
            None => f.write_str("Event(never recorded)"),
        }
    }
}
