//! Events: an event is a place for recordings, a recording is one point of one lane.
//!
//! What other queues wait for is a tick of the lane, and ticks only ever rise. So a recording that was overtaken still
//! means what it meant.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::lock::Mutex;
use streampool_device::{Error, Event, EventStatus, Result, Tick};

use super::core::Core;
use super::lane::Lane;
use super::tracing::Times;
use crate::ranks;

/// One recording of an event.
pub(crate) struct Recording {
    pub lane: Arc<Lane>,
    pub tick: Tick,
    /// Of an event with timing, the times of the buffer at whose end it is.
    pub times: Option<Arc<Times>>,
}

impl Recording {
    pub fn is_over(&self) -> bool {
        self.lane.is_over(self.tick)
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        self.lane.reach(self.tick, deadline)?;
        self.lane.outcome_for_ever(self.tick)
    }

    /// When it was, in seconds of the GPU's clock, once it is over.
    fn time(&self) -> Result<f64> {
        let times = self.times.as_ref().and_then(|times| times.get());
        times.map(|(_, end)| *end).ok_or(Error::NoTiming)
    }
}

/// An event of a Metal device.
pub(crate) struct MetalEvent {
    core: Arc<Core>,
    timing: bool,
    latest: Mutex<Option<Arc<Recording>>>,
}

impl MetalEvent {
    pub fn new(core: Arc<Core>, timing: bool) -> MetalEvent {
        MetalEvent {
            core,
            timing,
            latest: Mutex::new(ranks::EVENT, None),
        }
    }

    /// The Metal event behind `event`, if it is one of this device.
    pub fn of<'a>(event: &'a dyn Event, core: &Arc<Core>) -> Result<&'a MetalEvent> {
        event
            .as_any()
            .downcast_ref::<MetalEvent>()
            .filter(|event| Arc::ptr_eq(&event.core, core))
            .ok_or_else(|| Error::Foreign {
                what: "an event",
                device: core.properties.name.clone(),
            })
    }

    pub fn timing(&self) -> bool {
        self.timing
    }

    pub fn latest(&self) -> Option<Arc<Recording>> {
        self.latest.lock().clone()
    }

    pub fn set_latest(&self, recording: Recording) {
        // The old one is dropped after the lock is free: it may be the last that holds a lane.
        let _old = self.latest.lock().replace(Arc::new(recording));
    }

    fn recorded(&self) -> Result<Arc<Recording>> {
        self.latest().ok_or(Error::NotRecorded)
    }

    /// When its latest recording was, in seconds of the GPU's clock, after waiting for it.
    pub fn time(&self) -> Result<f64> {
        let recording = self.recorded()?;
        recording.wait(None)?;
        recording.time()
    }
}

impl Event for MetalEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn query(&self) -> Result<EventStatus> {
        let Some(recording) = self.latest() else {
            return Ok(EventStatus::Unrecorded);
        };
        if !recording.is_over() {
            // To record has sealed what is before it, so there is nothing to start.
            return Ok(EventStatus::Pending);
        }
        self.core.check_alive()?;
        recording
            .lane
            .outcome_for_ever(recording.tick)
            .map(|()| EventStatus::Complete)
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        self.recorded()?.wait(deadline)
    }

    fn elapsed_since(&self, start: &dyn Event) -> Result<Duration> {
        let start = MetalEvent::of(start, &self.core)?;
        if !self.timing || !start.timing {
            return Err(Error::NoTiming);
        }
        let (begin, end) = (start.recorded()?, self.recorded()?);
        begin.wait(None)?;
        end.wait(None)?;
        let seconds = end.time()? - begin.time()?;
        Duration::try_from_secs_f64(seconds).map_err(|_| Error::Invalid {
            what: "the start of an elapsed time",
            got: format!("an event recorded {} s after the end", -seconds),
            expected: "one recorded before the end".to_owned(),
        })
    }
}
