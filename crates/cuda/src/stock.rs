//! The stock: streams and events of the driver that wait for their next use. Making one holds up all who launch, so
//! several are made at once, and none is destroyed while it may be wanted again.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUevent, CUevent_flags_enum as EventFlags, CUstream, CUstream_flags_enum as StreamFlags,
};
use streampool_device::lock::Mutex;

use crate::context::{Context, Failure};
use crate::ranks;

/// So many streams of the usual priority are made at once: threads come in numbers.
const STREAMS_AT_ONCE: usize = 8;
/// So many events are made at once.
const EVENTS_AT_ONCE: usize = 16;
/// At most so many events wait; what is given back beyond that is destroyed.
const MOST_EVENTS: usize = 4096;
/// At most so many streams wait.
const MOST_STREAMS: usize = 128;

/// The streams and events of one device that nobody uses.
pub(crate) struct Stock {
    context: Arc<Context>,
    spare: Mutex<Spare>,
}

#[derive(Default)]
struct Spare {
    /// With their priorities.
    streams: Vec<(i32, CUstream)>,
    plain: Vec<CUevent>,
    timed: Vec<CUevent>,
}

// SAFETY: the driver's streams and events may be used from any thread.
unsafe impl Send for Spare {}

impl Spare {
    fn events(&mut self, timed: bool) -> &mut Vec<CUevent> {
        match timed {
            true => &mut self.timed,
            false => &mut self.plain,
        }
    }
}

impl Stock {
    pub fn new(context: Arc<Context>) -> Arc<Stock> {
        Arc::new(Stock {
            context,
            spare: Mutex::new(ranks::STOCK, Spare::default()),
        })
    }

    /// A stream that waits for no other, for the caller alone until it gives it [back](Self::give_stream). The context
    /// is bound.
    pub fn stream(&self, priority: i32) -> Result<CUstream, Failure> {
        let mut spare = self.spare.lock();
        let place = spare.streams.iter().position(|(of, _)| *of == priority);
        if let Some(place) = place {
            return Ok(spare.streams.swap_remove(place).1);
        }
        drop(spare);
        let count = match priority {
            0 => STREAMS_AT_ONCE,
            _ => 1,
        };
        let _alone = self.context.alone();
        let first = self.make_stream(priority)?;
        // If there are no more, one is enough.
        let others: Vec<_> = (1..count)
            .map_while(|_| self.make_stream(priority).ok())
            .collect();
        let others = others.into_iter().map(|stream| (priority, stream));
        self.spare.lock().streams.extend(others);
        Ok(first)
    }

    fn make_stream(&self, priority: i32) -> Result<CUstream, Failure> {
        let mut stream = std::ptr::null_mut();
        let flags = StreamFlags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is bound; it writes one handle.
        let result = unsafe { sys::cuStreamCreateWithPriority(&mut stream, flags, priority) };
        self.context.check("cuStreamCreateWithPriority", result)?;
        Ok(stream)
    }

    /// Takes a stream back.
    ///
    /// # Safety
    /// It came from [`stream`](Self::stream) with this priority, all its work is over, it does not capture, and nobody
    /// uses it any more.
    pub unsafe fn give_stream(&self, priority: i32, stream: CUstream) {
        let mut spare = self.spare.lock();
        if spare.streams.len() < MOST_STREAMS {
            return spare.streams.push((priority, stream));
        }
        drop(spare);
        self.destroy([stream], []);
    }

    /// Some events, at least one, for the caller alone until it gives them [back](Self::give_events). The context is
    /// bound.
    pub fn events(&self, timed: bool) -> Result<Vec<CUevent>, Failure> {
        let mut spare = self.spare.lock();
        let events = spare.events(timed);
        if !events.is_empty() {
            let rest = events.len().saturating_sub(EVENTS_AT_ONCE);
            return Ok(events.split_off(rest));
        }
        drop(spare);
        let _alone = self.context.alone();
        let mut events = vec![self.make_event(timed)?];
        events.extend((1..EVENTS_AT_ONCE).map_while(|_| self.make_event(timed).ok()));
        Ok(events)
    }

    fn make_event(&self, timed: bool) -> Result<CUevent, Failure> {
        let flags = match timed {
            true => EventFlags::CU_EVENT_DEFAULT,
            false => EventFlags::CU_EVENT_DISABLE_TIMING,
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is bound; it writes one handle.
        let result = unsafe { sys::cuEventCreate(&mut raw, flags as u32) };
        self.context.check("cuEventCreate", result)?;
        Ok(raw)
    }

    /// Takes events back.
    ///
    /// # Safety
    /// They came from [`events`](Self::events) of this kind, and nobody uses them any more.
    pub unsafe fn give_events(&self, timed: bool, mut events: Vec<CUevent>) {
        let mut spare = self.spare.lock();
        let known = spare.events(timed);
        let room = MOST_EVENTS.saturating_sub(known.len());
        let rest = events.split_off(room.min(events.len()));
        known.append(&mut events);
        drop(spare);
        if !rest.is_empty() {
            self.destroy([], rest);
        }
    }

    fn destroy(
        &self,
        streams: impl IntoIterator<Item = CUstream>,
        events: impl IntoIterator<Item = CUevent>,
    ) {
        if self.context.check_process().is_err() {
            return;
        }
        let Ok(_bound) = self.context.bind() else {
            return;
        };
        let _alone = self.context.alone();
        for stream in streams {
            // SAFETY: it was made here, and whoever gave it back does not use it.
            unsafe { sys::cuStreamDestroy_v2(stream) };
        }
        for event in events {
            // SAFETY: as above.
            unsafe { sys::cuEventDestroy_v2(event) };
        }
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let spare = std::mem::take(self.spare.get_mut());
        let streams = spare.streams.into_iter().map(|(_, stream)| stream);
        self.destroy(streams, spare.plain.into_iter().chain(spare.timed));
    }
}
