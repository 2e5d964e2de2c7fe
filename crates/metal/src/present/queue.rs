//! The queue: the one who appends to a lane.

use std::sync::Arc;
use std::time::Instant;

use streampool_device::{
    Error, Event, Fault, Flush, Handler, HostSlice, Op, OpKind, Prepared, Program, Progress, Queue,
    QueueOptions, Result, Span, Tick, commands,
};
use streampool_kernels::{Missing, with_room_to_grow};

use super::core::Core;
use super::event::MetalEvent;
use super::lane::Lane;
use super::memory::Allocation;
use super::own::Scratch;
use super::page::Held;
use super::pool::pooled;
use super::program::MetalProgram;
use super::staging::Block;
use super::step::{NoSteps, Place, Steps};

/// A queue of a Metal device.
pub(crate) struct MetalQueue {
    lane: Arc<Lane>,
    scratch: Option<Arc<Scratch>>,
    capture: Option<Vec<Op>>,
}

/// A lane, seen from outside.
struct MetalProgress(Arc<Lane>);

impl MetalQueue {
    pub fn new(core: Arc<Core>, options: QueueOptions) -> Result<MetalQueue> {
        core.check_alive()?;
        Ok(MetalQueue {
            lane: Lane::new(core, options)?,
            scratch: None,
            capture: None,
        })
    }

    fn core(&self) -> &Arc<Core> {
        &self.lane.core
    }

    /// Whether a command may be appended: not while capturing, not while poisoned, not on a lost device.
    #[inline]
    fn accepts(&self, what: &'static str) -> Result<()> {
        if self.capture.is_some() {
            return Err(Error::Capturing(what));
        }
        self.core().check_alive()?;
        match self.lane.fault() {
            Some(fault) => Err(Error::Poisoned(fault)),
            None => Ok(()),
        }
    }

    /// A block through which so many bytes pass.
    fn staging(&self, bytes: usize) -> Result<Block> {
        let block = self.lane.blocks.take(bytes);
        block.ok_or_else(|| self.core().ledger.out_of_memory(bytes))
    }

    /// Scratch memory of at least `bytes`, which belongs to this queue.
    fn scratch(&mut self, bytes: usize) -> Result<Option<Arc<Scratch>>> {
        if bytes == 0 {
            return Ok(None);
        }
        let enough = |scratch: &&Arc<Scratch>| scratch.bytes() >= bytes;
        if let Some(scratch) = self.scratch.as_ref().filter(enough) {
            return Ok(Some(scratch.clone()));
        }
        let bytes = with_room_to_grow(bytes);
        let scratch = Scratch::new(&self.core().gpu, &self.core().own, bytes);
        let scratch = Arc::new(scratch.ok_or_else(|| self.core().ledger.out_of_memory(bytes))?);
        self.scratch = Some(scratch.clone());
        Ok(Some(scratch))
    }

    /// Whether an op may be appended or captured.
    #[inline]
    fn takes_ops(&self) -> Result<()> {
        match self.capture {
            Some(_) => Ok(()),
            None => self.accepts("encode"),
        }
    }

    /// Appends the steps of an op, or captures it: what cannot be executed is refused before the capture ends.
    ///
    /// # Safety
    /// As for [`Queue::encode`].
    unsafe fn take(&mut self, op: &Op, steps: &Steps) -> Result<Tick> {
        if let Some(captured) = &mut self.capture {
            captured.push(op.clone());
            return Ok(self.lane.appended());
        }
        if steps.list.is_empty() {
            return self.lane.pass();
        }
        // SAFETY: the caller vouches for the op's memory.
        unsafe { self.submit(op.kind(), 0, steps, None) }
    }

    /// Appends steps, with `bytes` that wait for them, and keeps `held` until they are over.
    ///
    /// # Safety
    /// As for [`Queue::encode`]: the memory that the steps name is allocated or `held`.
    unsafe fn submit(
        &mut self,
        op: OpKind,
        bytes: usize,
        steps: &Steps,
        held: impl Into<Option<Held>>,
    ) -> Result<Tick> {
        let scratch = self.scratch(steps.scratch)?;
        let params = steps
            .long_params(&self.lane.blocks)
            .map_err(|bytes| self.core().ledger.out_of_memory(bytes))?;
        let place = Place {
            rebase: |span: &Span| *span,
            scratch: scratch.as_ref().map(|scratch| scratch.buffer()),
        };
        pooled(|| {
            self.lane.execute(op, bytes, steps.cost(), |writer| {
                // SAFETY: the caller vouches for the op's memory; the rest is held.
                let written = unsafe { steps.encode(writer, &place, &params) };
                let scratch = scratch.clone().map(Held::Scratch);
                let params = params.into_iter().map(Held::Block);
                (written, params.chain(scratch).chain(held.into()).collect())
            })
        })
    }

    /// The time it takes is nobody's, and who traces wants to see each command.
    fn may_do_itself(&self) -> bool {
        self.core().tracing.origin().is_none()
    }
}

impl Queue for MetalQueue {
    fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(MetalProgress(self.lane.clone()))
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        op.validate()?;
        self.takes_ops()?;
        let steps = self.core().prepared(op)?;
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.take(op, &steps) }
    }

    unsafe fn encode_ready(&mut self, op: &Op, prepared: Option<Prepared>) -> Result<Option<Tick>> {
        op.validate()?;
        self.takes_ops()?;
        let steps = match prepared.map(|prepared| prepared.downcast::<Steps>()) {
            Some(Ok(steps)) => *steps,
            _ => match self.core().steps(op, Missing::Tell) {
                Ok(steps) => steps,
                Err(NoSteps::Missing) => return Ok(None),
                Err(NoSteps::Failed(error)) => return Err(error),
            },
        };
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.take(op, &steps) }.map(Some)
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        self.accepts("upload")?;
        commands::check_upload(dst, bytes.len())?;
        if bytes.is_empty() {
            return self.lane.pass();
        }
        // SAFETY: the caller vouches that it is allocated.
        let allocation = unsafe { Allocation::of(&dst) };
        if let Some(host) = allocation.host()
            && self.may_do_itself()
        {
            let done = self.lane.pass_with(|| {
                // SAFETY: nothing of this queue is under way, all that is ordered before it is over, and `dst` is
                // within its allocation.
                unsafe {
                    let target = host.as_ptr().add(dst.offset);
                    target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                }
            })?;
            if let Some(tick) = done {
                return Ok(tick);
            }
        }
        let block = self.staging(bytes.len())?;
        // SAFETY: the block is at least as long, and nobody else has it.
        unsafe {
            let target = block.pointer().as_ptr();
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        let steps = self
            .core()
            .copying(block.span(bytes.len()), dst.part(0, bytes.len())?)?;
        // SAFETY: the caller vouches for `dst`; the block is held.
        unsafe { self.submit(OpKind::Upload, bytes.len(), &steps, Held::Block(block)) }
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        self.accepts("download")?;
        commands::check_download(src, &into)?;
        if src.bytes == 0 {
            return self.lane.pass();
        }
        // SAFETY: the caller vouches that it is allocated.
        let allocation = unsafe { Allocation::of(&src) };
        if let Some(host) = allocation.host()
            && self.may_do_itself()
        {
            let done = self.lane.pass_with(|| {
                // SAFETY: as in `upload`, and the caller vouches for `into`.
                unsafe {
                    let source = host.as_ptr().add(src.offset);
                    source.copy_to_nonoverlapping(into.pointer, src.bytes);
                }
            })?;
            if let Some(tick) = done {
                return Ok(tick);
            }
        }
        let block = self.staging(src.bytes)?;
        let steps = self.core().copying(src, block.span(src.bytes))?;
        // SAFETY: the caller vouches for `src`; the block is held.
        unsafe {
            self.submit(
                OpKind::Download,
                src.bytes,
                &steps,
                Held::Landing(block, into),
            )
        }
    }

    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        self.accepts("record")?;
        let event = MetalEvent::of(event, self.core())?;
        let nop = match event.timing() {
            true => Some(self.core().nop()?),
            false => None,
        };
        let place = Place {
            rebase: |span: &Span| *span,
            scratch: None,
        };
        let recording = pooled(|| {
            self.lane.record(event.timing(), |writer| match &nop {
                // SAFETY: it touches no memory.
                Some(nop) => unsafe { nop.encode(writer, &place, &[]) },
                None => Ok(()),
            })
        })?;
        let tick = recording.tick;
        event.set_latest(recording);
        Ok(tick)
    }

    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        self.accepts("wait")?;
        let recording = MetalEvent::of(event, self.core())?
            .latest()
            .ok_or(Error::NotRecorded)?;
        pooled(|| self.lane.wait_for(&recording))
    }

    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        self.accepts("on_complete")?;
        pooled(|| self.lane.call_back(handler))
    }

    fn flush(&mut self, _when: Flush) -> Result<Tick> {
        self.lane.ask();
        Ok(self.lane.appended())
    }

    fn begin_capture(&mut self) -> Result<()> {
        match self.capture {
            Some(_) => Err(Error::Capturing("begin_capture")),
            None => {
                self.capture = Some(Vec::new());
                Ok(())
            }
        }
    }

    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        _constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        let ops = self.capture.take().ok_or(Error::NotCapturing)?;
        let program = MetalProgram::new(self.core().clone(), &ops, slots)?;
        Ok(Arc::new(program))
    }

    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        self.accepts("replay")?;
        let program = MetalProgram::of(&**program, self.core())?;
        program.check(slots)?;
        if program.is_empty() {
            return self.lane.pass();
        }
        let scratch = self.scratch(program.scratch)?;
        let params = program
            .long_params(&self.lane.blocks)
            .map_err(|bytes| self.core().ledger.out_of_memory(bytes))?;
        pooled(|| {
            self.lane
                .execute(OpKind::Replay, 0, program.cost, |writer| {
                    let memory = scratch.as_ref().map(|scratch| scratch.buffer());
                    // SAFETY: the caller vouches for the memory of the program's ops with these slots.
                    let written = unsafe { program.encode(writer, slots, memory, &params) };
                    let params = params.into_iter().flatten().map(Held::Block);
                    let held = params.chain(scratch.clone().map(Held::Scratch)).collect();
                    (written, held)
                })
        })
    }

    fn recover(&mut self) -> Result<()> {
        if self.lane.fault().is_some() {
            self.lane.reach(self.lane.appended(), None)?;
            let renewed = self.lane.renew();
            renewed.map_err(|refused| refused.error(&self.core().properties.name))?;
            self.lane.cleanse();
        }
        Ok(())
    }
}

impl Drop for MetalQueue {
    fn drop(&mut self) {
        // What is under way keeps the lane until it is over.
        self.lane.ask();
    }
}

impl Progress for MetalProgress {
    fn completed(&self) -> Tick {
        self.0.ask();
        self.0.completed()
    }

    fn fault(&self) -> Option<Fault> {
        self.0.fault()
    }

    fn wait(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        commands::check_wait(tick, self.0.appended())?;
        self.0.reach(tick, deadline)?;
        commands::outcome(tick, self.0.fault())
    }
}
