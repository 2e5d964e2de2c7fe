//! The one table of driver calls that are not safe under threads, and how each is worked around.
//!
//! Queues of a device with quirks are wrapped, so nothing is looked up on the way to those of other devices.

#![expect(unsafe_code, reason = "passes on what `encode.rs` vouches for")]

use std::sync::Arc;
use std::time::Instant;

use streampool_device::lock::{Guard, Mutex};
use streampool_device::{
    Event, Expr, Flush, Handler, HostSlice, Mitigations, Op, Program, Progress, Queue, Quirk,
    Result, Span, Tick, View,
};

use crate::clock::Stamp;
use crate::clocks::Clocks;
use crate::lane::{Flushed, Lane};
use crate::ranks;

/// How a quirk is worked around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workaround {
    /// One such call at a time on the whole device.
    Serialise,
    /// The op is captured into a program and the program replayed.
    Capture,
    /// Another op that does the same.
    Substitute,
    /// No more than the limit at a time: who comes next waits for the oldest.
    Throttle,
}

/// What is done about a quirk.
pub const fn workaround(quirk: Quirk) -> Workaround {
    match quirk {
        Quirk::SharedMatMulState | Quirk::EncoderFreedInUse => Workaround::Serialise,
        Quirk::NormBoundToThread => Workaround::Capture,
        Quirk::StridedCopyRace => Workaround::Substitute,
        Quirk::BuffersInFlight(_) => Workaround::Throttle,
    }
}

/// The workarounds in force of one device.
#[derive(Debug, Default)]
pub(crate) struct Workarounds {
    serialise_matmul: bool,
    serialise_all: bool,
    capture_norm: bool,
    substitute_copy: bool,
    in_flight: Option<usize>,
}

impl Workarounds {
    pub fn new(quirks: &[Quirk], chosen: &Mitigations) -> Self {
        let mut workarounds = Workarounds::default();
        for &quirk in quirks.iter().filter(|&&quirk| chosen.covers(quirk)) {
            match quirk {
                Quirk::SharedMatMulState => workarounds.serialise_matmul = true,
                Quirk::EncoderFreedInUse => workarounds.serialise_all = true,
                Quirk::NormBoundToThread => workarounds.capture_norm = true,
                Quirk::StridedCopyRace => workarounds.substitute_copy = true,
                Quirk::BuffersInFlight(limit) => workarounds.in_flight = Some(limit.max(1)),
            }
        }
        workarounds
    }

    /// What keeps few buffers in flight, where there must not be many.
    pub fn throttle(&self) -> Option<Throttle> {
        self.in_flight.map(|limit| Throttle {
            limit,
            buffers: Mutex::new(ranks::IN_FLIGHT, Vec::new()),
        })
    }

    /// What all queues of the device are wrapped in, if they need it.
    pub fn driver(self) -> Option<Arc<Driver>> {
        let needed = self.serialise_matmul
            || self.serialise_all
            || self.capture_norm
            || self.substitute_copy;
        needed.then(|| {
            Arc::new(Driver {
                workarounds: self,
                calls: Mutex::new(ranks::DRIVER, ()),
            })
        })
    }
}

/// Bounds how many flushed buffers are not over.
pub(crate) struct Throttle {
    limit: usize,
    buffers: Mutex<Vec<Stamp>>,
}

impl Throttle {
    /// Hands over what `lane` has encoded, once as few buffers are in flight as must be.
    pub fn flush(
        &self,
        lane: &Lane,
        clocks: &Clocks,
        when: Flush,
        deadline: Option<Instant>,
    ) -> crate::Result<Flushed> {
        loop {
            let mut buffers = self.buffers.lock();
            buffers.retain(|&buffer| !clocks.is_complete(buffer));
            if buffers.len() < self.limit {
                let flushed = lane.flush(when, deadline)?;
                buffers.push(Stamp {
                    stream: lane.index,
                    tick: flushed.tick,
                });
                return Ok(flushed);
            }
            let oldest = buffers[0];
            drop(buffers);
            clocks.wait(oldest, deadline)?;
        }
    }
}

/// A driver whose calls are not all safe under threads.
pub(crate) struct Driver {
    workarounds: Workarounds,
    /// Held during calls that must come one at a time.
    calls: Mutex<()>,
}

impl Driver {
    /// A queue of this driver with the workarounds.
    pub fn wrap(self: &Arc<Self>, queue: Box<dyn Queue>) -> Box<dyn Queue> {
        Box::new(Mitigated {
            queue,
            driver: self.clone(),
            capturing: false,
        })
    }
}

/// A queue that is only used in ways that its driver bears.
struct Mitigated {
    queue: Box<dyn Queue>,
    driver: Arc<Driver>,
    capturing: bool,
}

impl Mitigated {
    /// The queue, for one call; alone, where `alone` or every call has to be.
    fn call(&mut self, alone: bool) -> (Option<Guard<'_, ()>>, &mut dyn Queue) {
        let alone = alone || self.driver.workarounds.serialise_all;
        (alone.then(|| self.driver.calls.lock()), &mut *self.queue)
    }
}

impl Queue for Mitigated {
    fn progress(&self) -> Arc<dyn Progress> {
        self.queue.progress()
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        let workarounds = &self.driver.workarounds;
        match op {
            Op::Norm(_) if workarounds.capture_norm && !self.capturing => {
                self.begin_capture()?;
                // SAFETY: while it captures, the queue executes nothing, so no memory is touched.
                let encoded = unsafe { self.encode(op) };
                // A capture that failed has to end all the same.
                // SAFETY: there are no constants.
                let program = unsafe { self.end_capture(&[], &[]) };
                encoded?;
                // SAFETY: the program is this op alone, for which the caller answers.
                unsafe { self.replay(&program?, &[]) }
            }
            Op::Copy { src, dst }
                if workarounds.substitute_copy
                    && !(src.layout().is_contiguous() && dst.layout().is_contiguous()) =>
            {
                op.validate()?;
                let (_alone, queue) = self.call(false);
                // SAFETY: it touches the same memory in the same way.
                unsafe { queue.encode(&copy_by_map(src, dst)?) }
            }
            _ => {
                let alone = workarounds.serialise_matmul && matches!(op, Op::MatMul(_));
                let (_alone, queue) = self.call(alone);
                // SAFETY: the caller's guarantee, handed on.
                unsafe { queue.encode(op) }
            }
        }
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        let (_alone, queue) = self.call(false);
        // SAFETY: the caller's guarantee, handed on.
        unsafe { queue.upload(dst, bytes) }
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        let (_alone, queue) = self.call(false);
        // SAFETY: the caller's guarantee, handed on.
        unsafe { queue.download(src, into) }
    }

    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        let (_alone, queue) = self.call(false);
        queue.record(event)
    }

    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        let (_alone, queue) = self.call(false);
        queue.wait(event)
    }

    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        let (_alone, queue) = self.call(false);
        queue.on_complete(handler)
    }

    fn flush(&mut self, when: Flush) -> Result<Tick> {
        let (_alone, queue) = self.call(false);
        queue.flush(when)
    }

    fn begin_capture(&mut self) -> Result<()> {
        self.queue.begin_capture()?;
        self.capturing = true;
        Ok(())
    }

    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        self.capturing = false;
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.queue.end_capture(slots, constants) }
    }

    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        let (_alone, queue) = self.call(false);
        // SAFETY: the caller's guarantee, handed on.
        unsafe { queue.replay(program, slots) }
    }

    /// Waits, so it is never alone.
    fn recover(&mut self) -> Result<()> {
        self.queue.recover()
    }
}

/// The elementwise op that does what a copy does.
fn copy_by_map(src: &View, dst: &View) -> Result<Op> {
    let mut expr = Expr::builder();
    let value = expr.input(src.dtype())?;
    let value = expr.cast(value, dst.dtype())?;
    Ok(Op::Map {
        expr: Arc::new(expr.finish(&[value])?),
        inputs: vec![*src],
        outputs: vec![*dst],
    })
}
