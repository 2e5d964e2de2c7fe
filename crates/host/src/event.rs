//! Events: places for recordings.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::lock::Mutex;
use streampool_device::{Error, Event, EventStatus, Result};

use crate::core::Core;
use crate::ranks;
use crate::strand::Recording;

/// An event of the host device.
pub(crate) struct HostEvent {
    core: Arc<Core>,
    timing: bool,
    latest: Mutex<Option<Arc<Recording>>>,
}

impl HostEvent {
    pub(crate) fn new(core: Arc<Core>, timing: bool) -> Self {
        HostEvent {
            core,
            timing,
            latest: Mutex::new(ranks::EVENT, None),
        }
    }

    /// The host event behind `event`, if it is one of this device.
    pub(crate) fn of<'a>(event: &'a dyn Event, core: &Arc<Core>) -> Result<&'a HostEvent> {
        event
            .as_any()
            .downcast_ref::<HostEvent>()
            .filter(|event| Arc::ptr_eq(&event.core, core))
            .ok_or_else(|| Error::Foreign {
                what: "an event",
                device: core.properties.name.clone(),
            })
    }

    pub(crate) fn timing(&self) -> bool {
        self.timing
    }

    pub(crate) fn latest(&self) -> Option<Arc<Recording>> {
        self.latest.lock().clone()
    }

    pub(crate) fn set_latest(&self, recording: Arc<Recording>) {
        // The old one is dropped after the lock is free: it may be the last that holds a strand.
        let _old = self.latest.lock().replace(recording);
    }

    fn recorded(&self) -> Result<Arc<Recording>> {
        self.latest().ok_or(Error::NotRecorded)
    }
}

impl Event for HostEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn query(&self) -> Result<EventStatus> {
        let Some(recording) = self.latest() else {
            return Ok(EventStatus::Unrecorded);
        };
        if !recording.is_complete() {
            recording.strand().start();
            return Ok(EventStatus::Pending);
        }
        recording.outcome().map(|()| EventStatus::Complete)
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        self.recorded()?.wait(deadline)
    }

    fn elapsed_since(&self, start: &dyn Event) -> Result<Duration> {
        let start = HostEvent::of(start, &self.core)?;
        if !self.timing || !start.timing {
            return Err(Error::NoTiming);
        }
        let (begin, end) = (start.recorded()?, self.recorded()?);
        begin.wait(None)?;
        end.wait(None)?;
        let (Some(from), Some(to)) = (begin.at(), end.at()) else {
            return Err(Error::NoTiming);
        };
        to.checked_duration_since(from)
            .ok_or_else(|| Error::Invalid {
                what: "the start of an elapsed time",
                got: format!(
                    "an event recorded {:?} after the end",
                    from.duration_since(to)
                ),
                expected: "one recorded before the end".to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use streampool_device::{Device, Fault, Flush, Op, OpKind};

    use super::*;
    use crate::OpMatcher;
    use crate::testing::{Buffer, device, encode, queue};

    #[test]
    fn one_thread_follows_a_chain_of_queues() {
        let device = device(1);
        let buffers: Vec<_> = (0..20).map(|_| Buffer::new(&device, 4)).collect();
        let mut queues: Vec<_> = (0..20).map(|index| queue(&device, index)).collect();
        let mut before: Option<Box<dyn Event>> = None;
        for (index, queue) in queues.iter_mut().enumerate() {
            if let Some(event) = &before {
                queue.wait(&**event).unwrap();
            }
            match index {
                0 => encode(&mut **queue, &buffers[0].fill(3.0)),
                _ => encode(&mut **queue, &buffers[index].copy_from(&buffers[index - 1])),
            };
            let event = device.create_event(false).unwrap();
            queue.record(&*event).unwrap();
            before = Some(event);
        }
        assert_eq!(buffers[19].read(&mut *queues[19]), [3.0; 4]);
    }

    #[test]
    fn each_recording_stands_for_itself() {
        let device = device(2);
        let event = device.create_event(false).unwrap();
        assert_eq!(event.query(), Ok(EventStatus::Unrecorded));
        let (mut slow, mut fast, mut reader) =
            (queue(&device, 0), queue(&device, 1), queue(&device, 2));
        let a = Buffer::new(&device, 4);
        device.injector().delay_queue(0, Duration::from_millis(30));
        encode(&mut *slow, &a.fill(1.0));
        slow.record(&*event).unwrap();
        reader.wait(&*event).unwrap();
        fast.record(&*event).unwrap();
        // The latest recording is complete, and the reader still waits for the one it was given.
        assert_eq!(event.wait(None), Ok(()));
        assert_eq!(event.query(), Ok(EventStatus::Complete));
        assert_eq!(a.read(&mut *reader), [1.0; 4]);
        assert_eq!(slow.progress().completed(), 2);
    }

    #[test]
    fn a_faulted_recording_releases_and_does_not_spread() {
        let device = device(1);
        let event = device.create_event(true).unwrap();
        let (mut faulty, mut sound) = (queue(&device, 0), queue(&device, 1));
        device
            .injector()
            .fail_op(OpMatcher::any().on_queue(0), 1, "boom");
        encode(&mut *faulty, &Op::Nop);
        faulty.record(&*event).unwrap();
        sound.wait(&*event).unwrap();
        let tick = encode(&mut *sound, &Op::Nop);
        assert_eq!(sound.progress().wait(tick, None), Ok(()));
        let fault = Fault::new("queue 0", 1, OpKind::Nop, "boom");
        assert_eq!(event.wait(None), Err(Error::Fault(fault.clone())));
        assert_eq!(event.query(), Err(Error::Fault(fault.clone())));
        assert_eq!(event.elapsed_since(&*event), Err(Error::Fault(fault)));
    }

    #[test]
    fn elapsed_time_waits_for_its_two_recordings() {
        let (device, other) = (device(1), device(1));
        let delay = Duration::from_millis(10);
        device.injector().delay_queue(0, delay);
        let events: Vec<_> = (0..3).map(|_| device.create_event(true).unwrap()).collect();
        let untimed = device.create_event(false).unwrap();
        let mut queue = queue(&device, 0);
        queue.record(&*events[0]).unwrap();
        encode(&mut *queue, &Op::Nop);
        queue.record(&*events[1]).unwrap();
        queue.record(&*untimed).unwrap();
        assert!(events[1].elapsed_since(&*events[0]).unwrap() >= delay);
        assert!(matches!(
            events[0].elapsed_since(&*events[1]),
            Err(Error::Invalid { .. })
        ));
        assert_eq!(events[1].elapsed_since(&*untimed), Err(Error::NoTiming));
        assert_eq!(untimed.elapsed_since(&*events[0]), Err(Error::NoTiming));
        assert_eq!(
            events[1].elapsed_since(&*events[2]),
            Err(Error::NotRecorded)
        );
        let foreign = other.create_event(true).unwrap();
        assert!(matches!(
            events[1].elapsed_since(&*foreign),
            Err(Error::Foreign { .. })
        ));
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
        let device = device(1);
        let event = device.create_event(false).unwrap();
        let mut queue = queue(&device, 0);
        // Far more than this thread may have to wait for a processor.
        device.injector().delay_queue(0, Duration::from_secs(2));
        encode(&mut *queue, &Op::Nop);
        queue.record(&*event).unwrap();
        queue.flush(Flush::ForWaiter).unwrap();
        let soon = Some(Instant::now() + Duration::from_millis(1));
        assert!(matches!(event.wait(soon), Err(Error::Timeout(_))));
        assert_eq!(event.query(), Ok(EventStatus::Pending));
        let late = Some(Instant::now() + crate::testing::FOREVER);
        assert_eq!(event.wait(late), Ok(()));
    }
}
