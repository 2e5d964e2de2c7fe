//! The stock: streams and events of the driver that wait for their next use. Making one holds up all who launch, so
//! several are made at once, and none is destroyed while it may be wanted again.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUevent, CUevent_flags_enum as EventFlags, CUstream, CUstream_flags_enum as StreamFlags,
};
use streampool_device::Priority;
use streampool_device::lock::Mutex;

use crate::context::{Context, Failure};
use crate::ranks;
use crate::retired::Object;

/// So many streams of normal priority are made when the device is opened: as many as a pool has by default.
const STREAMS_AT_FIRST: usize = 32;
/// So many more are made at once: threads come in numbers.
const STREAMS_AT_ONCE: usize = 8;
/// So many events are made at once, and for each stream when the device is opened.
const EVENTS_AT_ONCE: usize = 16;
/// At most so many events wait; what is given back beyond that is destroyed.
const MOST_EVENTS: usize = 4096;
/// At most so many streams wait.
const MOST_STREAMS: usize = 128;

/// The streams and events of one device that nobody uses.
pub(crate) struct Stock {
    context: Arc<Context>,
    /// The driver's numbers of the lowest and of the highest priority: its default is 0, its lowest, and higher ones are
    /// negative.
    lowest: i32,
    highest: i32,
    spare: Mutex<Spare>,
}

#[derive(Default)]
struct Spare {
    /// With their priorities.
    streams: Vec<(Priority, CUstream)>,
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
    /// With streams and events for a pool. The context is bound.
    pub fn new(context: Arc<Context>) -> Result<Stock, Failure> {
        let (mut lowest, mut highest) = (0, 0);
        // SAFETY: the context is bound; it writes two integers.
        let result = unsafe { sys::cuCtxGetStreamPriorityRange(&mut lowest, &mut highest) };
        context.check("cuCtxGetStreamPriorityRange", result)?;
        let stock = Stock {
            context,
            lowest,
            highest,
            spare: Mutex::new(ranks::STOCK, Spare::default()),
        };
        stock.add_streams(Priority::Normal, STREAMS_AT_FIRST)?;
        stock.add_events(false, STREAMS_AT_FIRST * EVENTS_AT_ONCE)?;
        Ok(stock)
    }

    /// A stream that waits for no other, for the caller alone until it gives it [back](Self::give_stream). The context
    /// is bound.
    pub fn stream(&self, priority: Priority) -> Result<CUstream, Failure> {
        let count = match priority {
            Priority::Normal => STREAMS_AT_ONCE,
            Priority::Low | Priority::High => 1,
        };
        loop {
            let mut spare = self.spare.lock();
            let place = spare.streams.iter().position(|(of, _)| *of == priority);
            if let Some(place) = place {
                let (_, stream) = spare.streams.swap_remove(place);
                drop(spare);
                // Of a GPU that another device in this process has lost, the driver tells when it is asked.
                let state = self.context.query(stream);
                self.context.check("cuStreamQuery", state)?;
                return Ok(stream);
            }
            drop(spare);
            self.add_streams(priority, count)?;
        }
    }

    /// Makes so many more, or at least one.
    fn add_streams(&self, priority: Priority, count: usize) -> Result<(), Failure> {
        let _alone = self.context.alone();
        self.context.destroy_some();
        let made = at_least_one(count, || self.make_stream(priority))?;
        let made = made.into_iter().map(|stream| (priority, stream));
        self.spare.lock().streams.extend(made);
        Ok(())
    }

    fn make_stream(&self, priority: Priority) -> Result<CUstream, Failure> {
        let mut stream = std::ptr::null_mut();
        let priority = match priority {
            Priority::Low => self.lowest,
            Priority::Normal => (self.lowest + self.highest) / 2,
            Priority::High => self.highest,
        };
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
    pub unsafe fn give_stream(&self, priority: Priority, stream: CUstream) {
        let mut spare = self.spare.lock();
        if spare.streams.len() < MOST_STREAMS {
            return spare.streams.push((priority, stream));
        }
        drop(spare);
        self.destroy([Object::Stream(stream)]);
    }

    /// Some events, at least one, for the caller alone until it gives them [back](Self::give_events). The context is
    /// bound.
    pub fn events(&self, timed: bool) -> Result<Vec<CUevent>, Failure> {
        loop {
            let mut spare = self.spare.lock();
            let events = spare.events(timed);
            if !events.is_empty() {
                let rest = events.len().saturating_sub(EVENTS_AT_ONCE);
                return Ok(events.split_off(rest));
            }
            drop(spare);
            self.add_events(timed, EVENTS_AT_ONCE)?;
        }
    }

    /// Makes so many more, or at least one.
    fn add_events(&self, timed: bool, count: usize) -> Result<(), Failure> {
        let _alone = self.context.alone();
        self.context.destroy_some();
        let made = at_least_one(count, || self.make_event(timed))?;
        self.spare.lock().events(timed).extend(made);
        Ok(())
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
            self.destroy(rest.into_iter().map(Object::Event));
        }
    }

    fn destroy(&self, objects: impl IntoIterator<Item = Object>) {
        if self.context.check_process().is_ok()
            && let Ok(_bound) = self.context.bind()
        {
            // SAFETY: they were made here, and whoever gave them back does not use them.
            unsafe { self.context.destroy(objects) };
        }
    }
}

/// So many, or as many as can be had. If there is not even one, it is an error.
fn at_least_one<T>(
    count: usize,
    mut make: impl FnMut() -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut made = vec![make()?];
    made.extend((1..count).map_while(|_| make().ok()));
    Ok(made)
}

impl Drop for Stock {
    fn drop(&mut self) {
        let spare = std::mem::take(self.spare.get_mut());
        let streams = spare.streams.into_iter();
        let events = spare.plain.into_iter().chain(spare.timed);
        let streams = streams.map(|(_, stream)| Object::Stream(stream));
        self.destroy(streams.chain(events.map(Object::Event)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_streams_are_made_ahead_and_several_at_a_time() {
        let context = match Context::open(0) {
            Ok(context) => context,
            Err(why) => {
                assert!(std::env::var_os("REQUIRE_CUDA").is_none(), "{why}");
                return eprintln!("skipped: {why}");
            }
        };
        let _bound = context.bind().unwrap();
        let stock = Stock::new(context.clone()).unwrap();
        let left = || stock.spare.lock().streams.len();
        assert_eq!(left(), STREAMS_AT_FIRST);
        let taken: Vec<_> = (0..=STREAMS_AT_FIRST)
            .map(|_| stock.stream(Priority::Normal).unwrap())
            .collect();
        assert_eq!(left(), STREAMS_AT_ONCE - 1);
        let urgent = stock.stream(Priority::High).unwrap();
        assert_eq!(left(), STREAMS_AT_ONCE - 1);
        // SAFETY: each was taken with this priority, and nothing ran on it.
        unsafe {
            stock.give_stream(Priority::High, urgent);
            for stream in taken {
                stock.give_stream(Priority::Normal, stream);
            }
        }
        assert_eq!(left(), STREAMS_AT_FIRST + STREAMS_AT_ONCE + 1);
    }
}
