//! Queues that tell what they are given.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use streampool_device::{
    Access, Error, Event, Fault, Flush, Handler, HostSlice, Op, OpKind, Prepared, Program,
    Progress, Queue, Result, Slots, Span, Tick,
};

use crate::access::Touch;
use crate::event::Watched;
use crate::order::{Name, Order};
use crate::planted::Planted;
use crate::program::Captured;

/// A queue of the device that is wrapped.
pub(crate) struct Lane {
    queue: Box<dyn Queue>,
    name: Name,
    alignment: usize,
    order: Arc<Order>,
    progress: Arc<Seen>,
    planted: Option<Planted>,
    /// What was captured so far.
    capture: Option<Vec<Op>>,
}

/// The progress of the queue that is wrapped: what is told of it, the host knows.
struct Seen {
    progress: Arc<dyn Progress>,
    queue: usize,
    order: Arc<Order>,
    /// What is known already, so that polling costs little.
    over: AtomicU64,
    /// The last command.
    last: AtomicU64,
    planted: Option<Planted>,
}

impl Lane {
    pub fn new(
        queue: Box<dyn Queue>,
        label: String,
        alignment: usize,
        order: Arc<Order>,
        planted: Option<Planted>,
    ) -> Self {
        let name = order.add_queue(label);
        let progress = Seen {
            progress: queue.progress(),
            queue: name.queue,
            order: order.clone(),
            over: AtomicU64::new(0),
            last: AtomicU64::new(0),
            planted,
        };
        Lane {
            queue,
            name,
            alignment,
            order,
            progress: Arc::new(progress),
            planted,
            capture: None,
        }
    }

    fn appended(
        &mut self,
        tick: Result<Tick>,
        touched: impl FnOnce() -> Vec<Touch>,
    ) -> Result<Tick> {
        let tick = tick?;
        self.progress.last.store(tick, Ordering::SeqCst);
        if let Err(race) = self.order.appended(&self.name, tick, touched()) {
            // The caller does not know that it was appended, and may let go of what it touches.
            let _ = self.queue.flush(Flush::ForWaiter);
            let _ = self.progress.progress.wait(tick, None);
            panic!("race: {race}");
        }
        Ok(tick)
    }

    fn encoded(&mut self, op: &Op, tick: Result<Tick>) -> Result<Tick> {
        match &mut self.capture {
            Some(ops) if tick.is_ok() => {
                ops.push(op.clone());
                tick
            }
            _ => self.appended(tick, || {
                let mut touched = Vec::new();
                Touch::all_of(op, &mut touched);
                touched
            }),
        }
    }
}

/// What a copy from or to the host touches.
fn copied(op: OpKind, access: Access, span: Span, bytes: usize) -> Vec<Touch> {
    let (operand, span) = match access {
        Access::Read => ("src", span),
        Access::Write => ("dst", Span { bytes, ..span }),
    };
    vec![Touch {
        op,
        operand,
        access,
        span,
    }]
}

impl Queue for Lane {
    fn progress(&self) -> Arc<dyn Progress> {
        self.progress.clone()
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        let tick = unsafe { self.queue.encode(op) };
        self.encoded(op, tick)
    }

    unsafe fn encode_ready(&mut self, op: &Op, prepared: Option<Prepared>) -> Result<Option<Tick>> {
        // SAFETY: the caller's guarantee, handed on.
        match unsafe { self.queue.encode_ready(op, prepared)? } {
            Some(tick) => self.encoded(op, Ok(tick)).map(Some),
            None => Ok(None),
        }
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        let tick = unsafe { self.queue.upload(dst, bytes) };
        self.appended(tick, || {
            copied(OpKind::Upload, Access::Write, dst, bytes.len())
        })
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        let tick = unsafe { self.queue.download(src, into) };
        self.appended(tick, || {
            copied(OpKind::Download, Access::Read, src, src.bytes)
        })
    }

    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        let Some(event) = Watched::of(event) else {
            return self.queue.record(event);
        };
        let mut latest = event.latest();
        let tick = self.queue.record(&*event.event)?;
        latest.clock = self.order.recorded(&self.name, tick);
        latest.count += 1;
        self.progress.last.store(tick, Ordering::SeqCst);
        Ok(tick)
    }

    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        let Some(event) = Watched::of(event) else {
            return self.queue.wait(event);
        };
        if self.planted == Some(Planted::LostWaits) {
            // SAFETY: it names no memory.
            return unsafe { self.encode(&Op::Nop) };
        }
        let latest = event.latest();
        let tick = self.queue.wait(&*event.event)?;
        self.order.waits(&self.name, tick, &latest.clock);
        self.progress.last.store(tick, Ordering::SeqCst);
        Ok(tick)
    }

    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        let (progress, before) = (
            self.progress.clone(),
            self.progress.last.load(Ordering::SeqCst),
        );
        let tick = self.queue.on_complete(Box::new(move |outcome| {
            progress.is_over(before);
            handler(outcome);
        }));
        self.appended(tick, Vec::new)
    }

    fn flush(&mut self, when: Flush) -> Result<Tick> {
        self.queue.flush(when)
    }

    fn begin_capture(&mut self) -> Result<()> {
        self.queue.begin_capture()?;
        self.capture = Some(Vec::new());
        Ok(())
    }

    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        let ops = self.capture.take().unwrap_or_default();
        // SAFETY: the caller's guarantee, handed on.
        let program = unsafe { self.queue.end_capture(slots, constants)? };
        Ok(Arc::new(Captured {
            program,
            ops,
            slots: Slots::new(slots, self.alignment),
        }))
    }

    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        let Some(captured) = Captured::of(program) else {
            // SAFETY: the caller's guarantee, handed on.
            return unsafe { self.queue.replay(program, slots) };
        };
        // SAFETY: the caller's guarantee, handed on.
        let tick = unsafe { self.queue.replay(&captured.program, slots) };
        self.appended(tick, || captured.touched(slots))
    }

    unsafe fn wait_for_external(&mut self, external: u64) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        let tick = unsafe { self.queue.wait_for_external(external) };
        self.appended(tick, Vec::new)
    }

    unsafe fn hold_external(&mut self, external: u64) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        let tick = unsafe { self.queue.hold_external(external) };
        self.appended(tick, Vec::new)
    }

    unsafe fn replay_on(
        &mut self,
        external: u64,
        program: &Arc<dyn Program>,
        slots: &[Span],
    ) -> Result<Tick> {
        let Some(captured) = Captured::of(program) else {
            // SAFETY: the caller's guarantees, handed on.
            return unsafe { self.queue.replay_on(external, program, slots) };
        };
        // SAFETY: the caller's guarantees, handed on.
        let tick = unsafe { self.queue.replay_on(external, &captured.program, slots) };
        self.appended(tick, || captured.touched(slots))
    }

    fn recover(&mut self) -> Result<()> {
        self.queue.recover()?;
        self.progress.completed();
        Ok(())
    }
}

impl Seen {
    fn is_over(&self, tick: Tick) {
        if self.over.load(Ordering::SeqCst) < tick {
            self.order.over(self.queue, tick);
            self.over.fetch_max(tick, Ordering::SeqCst);
        }
    }
}

impl Progress for Seen {
    fn completed(&self) -> Tick {
        if self.planted == Some(Planted::EarlyCompletion) {
            return self.last.load(Ordering::SeqCst);
        }
        let tick = self.progress.completed();
        self.is_over(tick);
        tick
    }

    fn fault(&self) -> Option<Fault> {
        self.progress.fault()
    }

    fn wait(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        let waited = self.progress.wait(tick, deadline);
        if matches!(waited, Ok(()) | Err(Error::Fault(_))) {
            self.is_over(tick);
        }
        waited
    }

    fn give_up(&self, since: Tick, until: Tick) -> bool {
        self.progress.give_up(since, until)
    }

    fn withdraw(&self, tick: Tick) {
        self.progress.withdraw(tick);
    }
}
