//! A device that checks each op it executes against the reference.

#![expect(unsafe_code, reason = "passes on what its caller vouches for")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::{
    CacheReport, Device, Error, Event, Flush, Handler, HostSlice, Memory, MemoryUse, Op, OpKind,
    Overhead, Prepared, Program, Progress, Properties, Queue, QueueOptions, Quirk, Result, Space,
    Span, Tick, Trace,
};

use crate::case::Case;

/// A device, each of whose ops is compared with the reference once it was executed: one that is wrong is an error where it
/// is encoded. Ops too large for the reference, captured ones and replays are not looked at.
#[derive(Debug)]
pub struct Witness(Arc<dyn Device>);

impl Witness {
    /// The device under a witness.
    pub fn of(device: Arc<dyn Device>) -> Arc<Witness> {
        Arc::new(Witness(device))
    }
}

impl Device for Witness {
    fn properties(&self) -> &Properties {
        self.0.properties()
    }

    fn supports(&self, op: OpKind) -> bool {
        self.0.supports(op)
    }

    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        self.0.allocate(bytes, space)
    }

    unsafe fn free(&self, memory: Memory) {
        // SAFETY: the caller keeps what this trait asks for, and nothing of a check is under way.
        unsafe { self.0.free(memory) }
    }

    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        self.0.host_address(memory)
    }

    fn memory_use(&self) -> MemoryUse {
        self.0.memory_use()
    }

    fn overhead(&self) -> Overhead {
        self.0.overhead()
    }

    fn prepare(&self, op: &Op) -> Result<Option<Prepared>> {
        self.0.prepare(op)
    }

    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Watched {
            queue: self.0.create_queue(options)?,
            captures: false,
        }))
    }

    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>> {
        self.0.create_event(timing)
    }

    fn quirks(&self) -> Vec<Quirk> {
        self.0.quirks()
    }

    fn caches(&self) -> Vec<CacheReport> {
        self.0.caches()
    }

    fn set_trace(&self, trace: Option<Arc<dyn Trace>>) {
        self.0.set_trace(trace);
    }
}

/// What was appended before and takes longer is not waited for, and what follows it not looked at.
const PATIENCE: Duration = Duration::from_millis(20);

struct Watched {
    queue: Box<dyn Queue>,
    captures: bool,
}

impl Watched {
    /// Whether all that was appended is over, and no fault keeps the rest from being executed.
    fn is_idle(&mut self) -> bool {
        let Ok(last) = self.queue.flush(Flush::ForWaiter) else {
            return false;
        };
        let deadline = Some(Instant::now() + PATIENCE);
        self.queue.progress().wait(last, deadline).is_ok()
    }

    /// What lies in these bytes.
    ///
    /// # Safety
    /// As for [`Queue::download`].
    unsafe fn read(&mut self, span: Span) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; span.bytes];
        let into = HostSlice {
            pointer: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        // SAFETY: the caller answers for the span. The bytes are used no sooner than the wait without a deadline is over.
        let tick = unsafe { self.queue.download(span, into) }?;
        self.queue.flush(Flush::ForWaiter)?;
        self.queue.progress().wait(tick, None)?;
        Ok(bytes)
    }
}

impl Queue for Watched {
    fn progress(&self) -> Arc<dyn Progress> {
        self.queue.progress()
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        let is_seen = !self.captures
            && op.kind() != OpKind::Nop
            && op.validate().is_ok()
            && Case::is_small(op)
            && self.is_idle();
        if !is_seen {
            // SAFETY: the caller keeps what this trait asks for.
            return unsafe { self.queue.encode(op) };
        }
        let mut unread = Ok(());
        // SAFETY: the op's spans may be read, as the caller answers for the op.
        let mut read = |queue: &mut Watched, span| match unsafe { queue.read(span) } {
            Ok(bytes) => bytes,
            Err(error) => {
                unread = Err(error);
                vec![0; span.bytes]
            }
        };
        let case = Case::of(op, |span| read(self, span));
        // SAFETY: as above.
        let tick = unsafe { self.queue.encode(op) }?;
        self.queue.flush(Flush::ForWaiter)?;
        if self.queue.progress().wait(tick, None).is_err() {
            // Whoever waits for it learns of it.
            return Ok(tick);
        }
        let checked = case.check(|span| read(self, span));
        unread?;
        match checked {
            Ok(()) => Ok(tick),
            Err(why) => Err(Error::Driver {
                device: "witness".to_owned(),
                call: "encode",
                message: why,
            }),
        }
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        // SAFETY: the caller keeps what this trait asks for.
        unsafe { self.queue.upload(dst, bytes) }
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        // SAFETY: the caller keeps what this trait asks for.
        unsafe { self.queue.download(src, into) }
    }

    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        self.queue.record(event)
    }

    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        self.queue.wait(event)
    }

    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        self.queue.on_complete(handler)
    }

    fn flush(&mut self, when: Flush) -> Result<Tick> {
        self.queue.flush(when)
    }

    fn begin_capture(&mut self) -> Result<()> {
        self.queue.begin_capture()?;
        self.captures = true;
        Ok(())
    }

    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        self.captures = false;
        // SAFETY: the caller keeps what this trait asks for.
        unsafe { self.queue.end_capture(slots, constants) }
    }

    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        // SAFETY: the caller keeps what this trait asks for.
        unsafe { self.queue.replay(program, slots) }
    }

    fn recover(&mut self) -> Result<()> {
        self.queue.recover()
    }
}
