//! The queue of a trace: what is appended is over at once, and listed.

#![expect(unsafe_code, reason = "implements the contract of a queue")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use streampool_device::lock::Mutex;
use streampool_device::{
    Error, Event, Fault, Flush, Handler, HostSlice, Op, Program, Progress, Queue, Result, Span,
    Tick,
};

use super::listing::{Memory, Source};
use super::log::Log;

pub struct TraceQueue {
    log: Arc<Mutex<Log>>,
    ticks: Arc<Ticks>,
}

/// The tick of the last command; all are complete.
#[derive(Default)]
struct Ticks(AtomicU64);

impl TraceQueue {
    pub fn new(log: Arc<Mutex<Log>>) -> TraceQueue {
        TraceQueue {
            log,
            ticks: Arc::default(),
        }
    }

    fn appended(&self) -> Result<Tick> {
        Ok(self.ticks.0.fetch_add(1, Ordering::AcqRel) + 1)
    }
}

fn not_here<T>(what: &str) -> Result<T> {
    Err(Error::Unavailable {
        device: "trace".to_owned(),
        why: format!("{what} is not possible while a model is traced"),
    })
}

impl Queue for TraceQueue {
    fn progress(&self) -> Arc<dyn Progress> {
        self.ticks.clone()
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        op.validate()?;
        self.log.lock().push(op)?;
        self.appended()
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        self.log.lock().source(dst, Source::Bytes(bytes.into()));
        self.appended()
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        if into.bytes == 0 {
            return self.appended();
        }
        self.log.lock().asked.get_or_insert(Memory::of(src));
        not_here("reading values")
    }

    fn record(&mut self, _event: &dyn Event) -> Result<Tick> {
        not_here("recording an event")
    }

    fn wait(&mut self, _event: &dyn Event) -> Result<Tick> {
        not_here("waiting for an event")
    }

    fn on_complete(&mut self, _handler: Handler) -> Result<Tick> {
        not_here("a handler")
    }

    fn flush(&mut self, _when: Flush) -> Result<Tick> {
        Ok(self.ticks.completed())
    }

    fn begin_capture(&mut self) -> Result<()> {
        not_here("a capture")
    }

    unsafe fn end_capture(
        &mut self,
        _slots: &[Span],
        _constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        not_here("a capture")
    }

    unsafe fn replay(&mut self, _program: &Arc<dyn Program>, _slots: &[Span]) -> Result<Tick> {
        not_here("a replay")
    }

    fn recover(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Progress for Ticks {
    fn completed(&self) -> Tick {
        self.0.load(Ordering::Acquire)
    }

    fn fault(&self) -> Option<Fault> {
        None
    }

    fn wait(&self, _tick: Tick, _deadline: Option<Instant>) -> Result<()> {
        Ok(())
    }
}
