//! Events: an event is a place for recordings, a recording is one point of one lane.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::lock::Mutex;
use streampool_device::{Error, Event, EventStatus, Result, Tick};

use crate::context::Failure;
use crate::core::Core;
use crate::lane::Lane;
use crate::marks::Mark;
use crate::ranks;
use crate::waits;

/// One recording of an event. Each has a mark of its own, so nothing that belongs to one can reach another.
pub(crate) struct Recording {
    lane: Arc<Lane>,
    tick: Tick,
    mark: Arc<Mark>,
}

impl Recording {
    pub fn new(lane: Arc<Lane>, tick: Tick, mark: Arc<Mark>) -> Recording {
        Recording { lane, tick, mark }
    }

    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Whether it is complete, as far as is known without asking the driver.
    pub fn is_known(&self) -> bool {
        self.lane.is_over(self.tick)
    }

    fn look(&self) -> Result<bool> {
        let context = &self.lane.core.context;
        if self.is_known() {
            let alive = context.check_alive();
            return alive.map(|()| true).map_err(|lost| context.error(lost));
        }
        let over = context.bind().and_then(|_bound| self.mark.is_over());
        let over = over.map_err(|failure| context.error(failure))?;
        if over {
            self.lane.passed(self.tick);
        }
        Ok(over)
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        if deadline.is_some() {
            return self.lane.reach(self.tick, deadline);
        }
        if self.look()? {
            return Ok(());
        }
        let context = &self.lane.core.context;
        let wait = |_bound| waits::wait(context, || self.mark.wait(), || self.mark.is_over());
        let waited = context.bind().and_then(wait);
        waited.map_err(|failure| context.error(failure))?;
        self.lane.passed(self.tick);
        Ok(())
    }
}

/// An event of a CUDA device.
pub(crate) struct CudaEvent {
    core: Arc<Core>,
    timing: bool,
    latest: Mutex<Option<Arc<Recording>>>,
}

impl CudaEvent {
    pub fn new(core: Arc<Core>, timing: bool) -> CudaEvent {
        CudaEvent {
            core,
            timing,
            latest: Mutex::new(ranks::EVENT, None),
        }
    }

    /// The CUDA event behind `event`, if it is one of this device.
    pub fn of<'a>(event: &'a dyn Event, core: &Arc<Core>) -> Result<&'a CudaEvent> {
        event
            .as_any()
            .downcast_ref::<CudaEvent>()
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

    pub fn set_latest(&self, recording: Arc<Recording>) {
        // The old one is dropped after the lock is free: it may be the last that holds a lane.
        let _old = self.latest.lock().replace(recording);
    }

    fn recorded(&self) -> Result<Arc<Recording>> {
        self.latest().ok_or(Error::NotRecorded)
    }

    fn failed(&self, failure: Failure) -> Error {
        self.core.context.error(failure)
    }
}

impl Event for CudaEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn query(&self) -> Result<EventStatus> {
        let Some(recording) = self.latest() else {
            return Ok(EventStatus::Unrecorded);
        };
        Ok(match recording.look()? {
            true => EventStatus::Complete,
            false => EventStatus::Pending,
        })
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        self.recorded()?.wait(deadline)
    }

    fn elapsed_since(&self, start: &dyn Event) -> Result<Duration> {
        let start = CudaEvent::of(start, &self.core)?;
        if !self.timing || !start.timing {
            return Err(Error::NoTiming);
        }
        let (begin, end) = (start.recorded()?, self.recorded()?);
        begin.wait(None)?;
        end.wait(None)?;
        let milliseconds = end
            .mark
            .since(&begin.mark)
            .map_err(|failure| self.failed(failure))?;
        Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).map_err(|_| Error::Invalid {
            what: "the start of an elapsed time",
            got: format!("an event recorded {} ms after the end", -milliseconds),
            expected: "one recorded before the end".to_owned(),
        })
    }
}
