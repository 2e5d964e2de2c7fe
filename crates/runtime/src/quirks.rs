//! The one table of driver calls that are not safe under threads, and how each is worked around.

#![expect(unsafe_code, reason = "passes on what `encode.rs` vouches for")]

use std::sync::Arc;
use std::time::Instant;

use streampool_device::lock::{Guard, Mutex};
use streampool_device::{Expr, Flush, Op, Program, Queue, Quirk, Result, Span, Tick, View};

use crate::clock::Stamp;
use crate::clocks::Clocks;
use crate::lane::{Flushed, Lane};
use crate::ranks;
use crate::settings::Mitigations;

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

/// The workarounds in force. Without quirks every call goes straight through.
pub(crate) struct Mitigation {
    serialise_matmul: bool,
    serialise_all: bool,
    capture_norm: bool,
    substitute_copy: bool,
    in_flight: Option<InFlight>,
    driver: Mutex<()>,
}

struct InFlight {
    limit: usize,
    buffers: Mutex<Vec<Stamp>>,
}

impl Mitigation {
    pub fn new(quirks: &[Quirk], chosen: &Mitigations) -> Self {
        let mut mitigation = Mitigation {
            serialise_matmul: false,
            serialise_all: false,
            capture_norm: false,
            substitute_copy: false,
            in_flight: None,
            driver: Mutex::new(ranks::DRIVER, ()),
        };
        for &quirk in quirks.iter().filter(|&&quirk| chosen.covers(quirk)) {
            match quirk {
                Quirk::SharedMatMulState => mitigation.serialise_matmul = true,
                Quirk::EncoderFreedInUse => mitigation.serialise_all = true,
                Quirk::NormBoundToThread => mitigation.capture_norm = true,
                Quirk::StridedCopyRace => mitigation.substitute_copy = true,
                Quirk::BuffersInFlight(limit) => {
                    mitigation.in_flight = Some(InFlight {
                        limit: limit.max(1),
                        buffers: Mutex::new(ranks::IN_FLIGHT, Vec::new()),
                    });
                }
            }
        }
        mitigation
    }

    /// Appends an op.
    ///
    /// # Safety
    /// As for [`Queue::encode`].
    #[inline]
    pub unsafe fn encode(&self, queue: &mut dyn Queue, op: &Op) -> Result<Tick> {
        match op {
            Op::Norm(_) if self.capture_norm => {
                // SAFETY: there are no constants.
                let program = unsafe { self.capture(queue, std::slice::from_ref(op), &[], &[])? };
                // SAFETY: the program is this op alone, for which the caller answers.
                unsafe { queue.replay(&program, &[]) }
            }
            // SAFETY: the caller's guarantee, handed on.
            _ => unsafe { self.encode_one(queue, op) },
        }
    }

    /// Appends an op, to the queue or to the program it captures: one such call at a time where that is
    /// needed, and in a form that the driver bears.
    ///
    /// # Safety
    /// As for [`Queue::encode`].
    #[inline]
    unsafe fn encode_one(&self, queue: &mut dyn Queue, op: &Op) -> Result<Tick> {
        let _driver = self.serialise(self.serialise_matmul && matches!(op, Op::MatMul(_)));
        match op {
            Op::Copy { src, dst }
                if self.substitute_copy
                    && !(src.layout().is_contiguous() && dst.layout().is_contiguous()) =>
            {
                op.validate()?;
                // SAFETY: it touches the same memory in the same way.
                unsafe { queue.encode(&copy_by_map(src, dst)?) }
            }
            // SAFETY: the caller's guarantee, handed on.
            _ => unsafe { queue.encode(op) },
        }
    }

    /// Captures ops into a program. Nothing is executed.
    ///
    /// # Safety
    /// As for [`Queue::end_capture`].
    pub unsafe fn capture(
        &self,
        queue: &mut dyn Queue,
        ops: &[Op],
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        queue.begin_capture()?;
        let encoded = ops.iter().try_for_each(|op| {
            // SAFETY: while it captures, the queue executes nothing, so no memory is touched.
            unsafe { self.encode_one(queue, op) }.map(drop)
        });
        // A capture that failed half way has to end all the same.
        // SAFETY: the caller's guarantee, handed on.
        let program = unsafe { queue.end_capture(slots, constants) };
        encoded.and(program)
    }

    /// Hands over what `lane` has encoded, once as few buffers are in flight as must be.
    #[inline]
    pub fn flush(
        &self,
        lane: &Lane,
        clocks: &Clocks,
        when: Flush,
        deadline: Option<Instant>,
    ) -> crate::Result<Flushed> {
        let Some(in_flight) = &self.in_flight else {
            return self.flush_now(lane, when, deadline);
        };
        loop {
            let mut buffers = in_flight.buffers.lock();
            buffers.retain(|&buffer| !clocks.is_complete(buffer));
            if buffers.len() < in_flight.limit {
                let flushed = self.flush_now(lane, when, deadline)?;
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

    #[inline]
    fn flush_now(
        &self,
        lane: &Lane,
        when: Flush,
        deadline: Option<Instant>,
    ) -> crate::Result<Flushed> {
        let mut encoder = lane.lock_by(deadline)?;
        let tick = {
            let queue = encoder.queue()?;
            let _driver = self.any_call();
            queue.flush(when)?
        };
        encoder.counts.flushes += 1;
        Ok(Flushed {
            tick,
            unsettled: !encoder.consumed.is_empty(),
        })
    }

    /// To be held during a driver call that appends something else than an op.
    #[inline]
    pub fn any_call(&self) -> Option<Guard<'_, ()>> {
        self.serialise(false)
    }

    #[inline]
    fn serialise(&self, this_call: bool) -> Option<Guard<'_, ()>> {
        (this_call || self.serialise_all).then(|| self.driver.lock())
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
