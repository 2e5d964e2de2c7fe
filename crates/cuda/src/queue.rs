//! The queue: the one who appends to a lane.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys;
use streampool_device::{
    Error, Event, Flush, Handler, HostSlice, Op, OpKind, Prepared, Program, Progress, Queue,
    QueueOptions, Result, Span, Tick, commands,
};
use streampool_kernels::{Missing, with_room_to_grow};

use crate::context::{Bound, Failure};
use crate::core::Core;
use crate::event::{CudaEvent, Recording};
use crate::external::External;
use crate::lane::{Held, Lane};
use crate::marks::Mark;
use crate::memory::DeviceBlock;
use crate::pinned::{self, Block};
use crate::place::{Moved, Place, address};
use crate::program::CudaProgram;
use crate::progress::CudaProgress;
use crate::step::{NoSteps, Steps};
use crate::tracing::{Origin, Piece, Timed};

/// A mark is set at the latest after so many commands, so that what is over is known by and by.
const MARK_EVERY: Tick = 64;

/// Only one of so many uploads waits at the gate: the constants of a model come several at a time.
const UPLOADS_AT_ONCE: u8 = 8;

/// When a command began: the origin of its time, when it was encoded, and where it begins.
type Timing = (Arc<Origin>, Instant, Mark);

/// A queue of a CUDA device.
pub(crate) struct CudaQueue {
    lane: Arc<Lane>,
    last: Tick,
    /// The last tick that a mark stands for.
    marked: Tick,
    scratch: Option<Arc<DeviceBlock>>,
    capture: Option<Vec<(Box<Op>, Steps)>>,
    /// A stream of others that is ordered after everything here up to a tick.
    led: Option<(External, Tick)>,
    /// What the command is made of that is submitted now, if each of that is timed.
    pieces: Vec<Piece>,
    /// Uploads so far.
    uploads: u8,
}

impl CudaQueue {
    pub fn new(core: Arc<Core>, options: QueueOptions) -> Result<CudaQueue> {
        core.context.check_process()?;
        let lane =
            Lane::new(core.clone(), options).map_err(|failure| core.context.error(failure))?;
        Ok(CudaQueue {
            lane,
            last: 0,
            marked: 0,
            scratch: None,
            capture: None,
            led: None,
            pieces: Vec::new(),
            uploads: 0,
        })
    }

    fn core(&self) -> &Core {
        &self.lane.core
    }

    fn failed(&self, failure: Failure) -> Error {
        self.core().context.error(failure)
    }

    /// Whether a command may be appended: not while capturing, not while poisoned, not on a lost device. It may be a launch.
    #[inline]
    fn accepts(&self, what: &'static str) -> Result<Bound> {
        self.is_open(what)?;
        self.core().context.pass();
        self.bind()
    }

    #[inline]
    fn is_open(&self, what: &'static str) -> Result<()> {
        if self.capture.is_some() {
            return Err(Error::Capturing(what));
        }
        if let Some(fault) = self.lane.fault() {
            return Err(Error::Poisoned(fault));
        }
        Ok(())
    }

    #[inline]
    fn bind(&self) -> Result<Bound> {
        let bound = self.core().context.bind();
        bound.map_err(|failure| self.failed(failure))
    }

    /// A block of the lane's pinned memory through which so many bytes pass.
    fn staging(&self, bytes: usize) -> Result<Block, Failure> {
        let block = self.lane.blocks.take(bytes);
        self.core().ledger.prepared(bytes, block)
    }

    /// Gives out the next tick: the driver has its command.
    #[inline]
    fn append(&mut self) -> Tick {
        self.last += 1;
        self.lane.publish(self.last);
        self.last
    }

    /// Sets a mark if there has been none for long. It is only a help to see progress: without it, work is
    /// seen to be over a little later.
    #[inline]
    fn mark_now_and_then(&mut self) {
        if self.last - self.marked >= MARK_EVERY {
            self.mark_what_is_before();
            // If nobody looks, what is over would be kept for ever.
            self.lane.poll();
        }
    }

    fn mark_what_is_before(&mut self) {
        if self.marked < self.last
            && let Ok(mark) = self.lane.shelf.mark(self.lane.stream, false)
        {
            self.marked = self.last;
            self.lane.remember(self.last, Arc::new(mark));
        }
    }

    /// Appends what `submit` tells the driver to do, and keeps what it returns until that is over. A launch
    /// that the driver refuses is a fault of this queue.
    fn command(
        &mut self,
        op: OpKind,
        submit: impl FnOnce(&mut CudaQueue) -> Result<Option<Held>, Failure>,
    ) -> Result<Tick> {
        let timing = self.begin_timing()?;
        let submitted = match self.core().injector.strikes(self.lane.index) {
            true => self.core().refused_launch(self.lane.stream).map(|()| None),
            false => submit(self),
        };
        let tick = self.last + 1;
        let pieces = std::mem::take(&mut self.pieces);
        match submitted {
            Ok(held) => {
                // Before the tick is given out: who sees it over finds everything here.
                if let Some(held) = held {
                    self.lane.hold(tick, held);
                }
                if let Some(timing) = timing {
                    self.end_timing(tick, op, timing, pieces);
                }
            }
            Err(failure @ (Failure::Unprepared(_) | Failure::Lost(_))) => {
                return Err(self.failed(failure));
            }
            Err(refused) => self.lane.poison(tick, op, refused.to_string()),
        }
        self.append();
        self.mark_now_and_then();
        Ok(tick)
    }

    /// When a command began, if somebody wants to know.
    fn begin_timing(&self) -> Result<Option<Timing>> {
        let Some(origin) = self.core().tracing.origin() else {
            return Ok(None);
        };
        self.core().watcher.start()?;
        let encoded = Instant::now();
        Ok(Some((origin, encoded, self.time_mark()?)))
    }

    /// The driver has the command already: if it cannot be timed, only its interval is lost.
    fn end_timing(&self, tick: Tick, op: OpKind, timing: Timing, mut pieces: Vec<Piece>) {
        let (origin, encoded, begin) = timing;
        if pieces.is_empty()
            && let Ok(end) = self.time_mark()
        {
            pieces.push(Piece {
                op,
                kernel: None,
                begin: Arc::new(begin),
                end: Arc::new(end),
            });
        }
        for piece in pieces {
            self.lane.report(Timed {
                tick,
                piece,
                encoded,
                origin: origin.clone(),
            });
        }
        self.core().watcher.watch(&self.lane);
    }

    fn time_mark(&self) -> Result<Mark> {
        let mark = self.lane.shelf.mark(self.lane.stream, true);
        mark.map_err(|failure| self.failed(failure))
    }

    /// The address of at least `bytes` of scratch memory, which belong to this queue.
    fn scratch(&mut self, bytes: usize) -> Result<Option<Arc<DeviceBlock>>, Failure> {
        if bytes == 0 {
            return Ok(None);
        }
        if self
            .scratch
            .as_ref()
            .is_none_or(|block| block.bytes() < bytes)
        {
            let bytes = with_room_to_grow(bytes);
            let larger = self.core().ledger.own(bytes);
            let larger = self.core().ledger.prepared(bytes, larger)?;
            if let Some(smaller) = self.scratch.replace(Arc::new(larger)) {
                // The next command is the first that does without it.
                self.lane.hold(self.last + 1, Held::Scratch(smaller));
            }
        }
        Ok(self.scratch.clone())
    }

    /// The context, if an op may be appended or captured.
    #[inline]
    fn takes_ops(&self) -> Result<Bound> {
        match self.capture {
            Some(_) => self.bind(),
            None => self.accepts("encode"),
        }
    }

    /// Appends the steps of an op, or captures them.
    ///
    /// # Safety
    /// As for [`Queue::encode`].
    unsafe fn take(&mut self, op: &Op, steps: Steps) -> Result<Tick> {
        if let Some(captured) = &mut self.capture {
            captured.push((Box::new(op.clone()), steps));
            return Ok(self.last);
        }
        // SAFETY: the caller's guarantee, handed on.
        self.command(op.kind(), |queue| unsafe {
            queue.submit(&steps, &[]).map(|()| None)
        })
    }

    /// Submits the steps of one op.
    ///
    /// # Safety
    /// As for [`Queue::encode`], for what the steps name where it was `moved` to.
    unsafe fn submit(&mut self, steps: &Steps, moved: &[Moved]) -> Result<(), Failure> {
        let scratch = self.scratch(steps.scratch)?;
        let place = Place {
            scratch: scratch.map_or(0, |block| block.address()),
            moved,
        };
        for step in steps.list(false) {
            // SAFETY: the caller vouches for the op's memory; scratch memory belongs to this queue and is
            // kept until the first command that does without it is over.
            unsafe { step.submit(&self.lane.core.context, self.lane.stream, &place)? };
        }
        Ok(())
    }
}

/// What works beside streams of others.
impl CudaQueue {
    /// Submits a replay.
    ///
    /// # Safety
    /// As for [`Queue::replay`].
    unsafe fn launch(&mut self, program: &CudaProgram, slots: &[Span]) -> Result<(), Failure> {
        if self.core().tracing.is_on() {
            self.core().context.pass();
            let scratch = self.scratch(program.scratch())?;
            let scratch = scratch.map_or(0, |block| block.address());
            // SAFETY: the caller's guarantee, handed on; scratch memory belongs to this queue and is kept until the first
            // command that does without it is over.
            match unsafe { program.launch_timed(&self.lane, scratch, slots) } {
                Ok(pieces) => {
                    self.pieces = pieces;
                    return Ok(());
                }
                // Then the whole is timed.
                Err(Failure::Call(..)) => {}
                Err(failure) => return Err(failure),
            }
        }
        // SAFETY: the caller's guarantee, handed on.
        if unsafe { program.launch(&self.lane, self.lane.stream, slots)? } {
            return Ok(());
        }
        self.core().context.pass();
        // All that can be refused is, before the first is submitted.
        self.scratch(program.scratch())?;
        let bound = program.bound(slots);
        for steps in program.steps() {
            // SAFETY: as above.
            unsafe { self.submit(steps, &bound)? };
        }
        Ok(())
    }

    /// Submits a replay to `external` itself, which costs less than to have two streams wait for one another. What is appended
    /// here next is ordered after it.
    ///
    /// # Safety
    /// As for [`Queue::replay_on`].
    unsafe fn launch_on(
        &mut self,
        external: External,
        program: &CudaProgram,
        slots: &[Span],
    ) -> Result<(), Failure> {
        // Who times commands does so on this queue's own stream.
        if !self.core().tracing.is_on() {
            if self.led != Some((external, self.last)) {
                self.lead(external)?;
            }
            // SAFETY: the caller's guarantee, handed on.
            if unsafe { program.launch(&self.lane, external.stream(), slots)? } {
                return self.wait_for(&external);
            }
        }
        self.wait_for(&external)?;
        // SAFETY: as above.
        unsafe { self.launch(program, slots)? };
        self.lead(external)
    }

    /// Makes what is submitted here next wait for what `external` has.
    fn wait_for(&self, external: &External) -> Result<(), Failure> {
        let mark = self.lane.shelf.mark(external.stream(), false)?;
        mark.hold(self.lane.stream)
    }

    /// Makes what `external` is given next wait for what was submitted here.
    fn lead(&mut self, external: External) -> Result<(), Failure> {
        let mark = self.lane.shelf.mark(self.lane.stream, false)?;
        mark.hold(external.stream())?;
        self.led = Some((external, self.last));
        Ok(())
    }
}

impl Queue for CudaQueue {
    fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(CudaProgress(self.lane.clone()))
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        op.validate()?;
        let _bound = self.takes_ops()?;
        let steps = self.core().prepared(op, self.capture.is_some())?;
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.take(op, steps) }
    }

    unsafe fn encode_ready(&mut self, op: &Op, prepared: Option<Prepared>) -> Result<Option<Tick>> {
        op.validate()?;
        let _bound = self.takes_ops()?;
        let steps = match prepared.map(|prepared| prepared.downcast::<Steps>()) {
            Some(Ok(steps)) => *steps,
            _ => match self.core().steps(op, self.capture.is_some(), Missing::Tell) {
                Ok(steps) => steps,
                Err(NoSteps::Missing) => return Ok(None),
                Err(NoSteps::Failed(error)) => return Err(error),
            },
        };
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.take(op, steps) }.map(Some)
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        self.is_open("upload")?;
        if self.uploads.is_multiple_of(UPLOADS_AT_ONCE) {
            self.core().context.pass();
        }
        self.uploads = self.uploads.wrapping_add(1);
        let _bound = self.bind()?;
        commands::check_upload(dst, bytes.len())?;
        if bytes.is_empty() {
            return Ok(self.append());
        }
        self.command(OpKind::Upload, |queue| {
            let (lane, context) = (&queue.lane, &queue.lane.core.context);
            let is_long = bytes.len() > pinned::LARGEST;
            let (mut source, mut held) = (bytes.as_ptr(), None);
            if !is_long {
                let block = queue.staging(bytes.len())?;
                // SAFETY: the block is at least as long, and nobody else has it.
                unsafe {
                    block
                        .pointer()
                        .copy_from_nonoverlapping(source, bytes.len())
                };
                source = block.pointer();
                held = Some(Held::Upload(block));
            }
            // SAFETY: the caller vouches for `dst`; the source is a block that is held until the copy is
            // over, or the caller's bytes, which are waited for below.
            let result = unsafe {
                sys::cuMemcpyHtoDAsync_v2(address(&dst), source.cast(), bytes.len(), lane.stream)
            };
            context.check("cuMemcpyHtoDAsync", result)?;
            if is_long {
                let _exempt = context.exempt();
                // SAFETY: the stream is alive.
                let result = unsafe { sys::cuStreamSynchronize(lane.stream) };
                context.check("cuStreamSynchronize", result)?;
            }
            Ok(held)
        })
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        let _bound = self.accepts("download")?;
        commands::check_download(src, &into)?;
        if src.bytes == 0 {
            return Ok(self.append());
        }
        self.command(OpKind::Download, |queue| {
            let lane = &queue.lane;
            let (mut target, mut held) = (into.pointer, Held::Direct);
            if src.bytes <= pinned::LARGEST {
                let block = queue.staging(src.bytes)?;
                target = block.pointer();
                held = Held::Download(block, Some(into));
            }
            // SAFETY: the caller vouches for `src` and, until the copy is over, for `into`; a block is held
            // as long.
            let result = unsafe {
                sys::cuMemcpyDtoHAsync_v2(target.cast(), address(&src), src.bytes, lane.stream)
            };
            lane.core.context.check("cuMemcpyDtoHAsync", result)?;
            Ok(Some(held))
        })
    }

    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        let _bound = self.accepts("record")?;
        let event = CudaEvent::of(event, &self.lane.core)?;
        let mark = self.lane.shelf.mark(self.lane.stream, event.timing());
        let mark = Arc::new(mark.map_err(|failure| self.failed(failure))?);
        let tick = self.append();
        self.marked = tick;
        self.lane.remember(tick, mark.clone());
        event.set_latest(Arc::new(Recording::new(self.lane.clone(), tick, mark)));
        Ok(tick)
    }

    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        let _bound = self.accepts("wait")?;
        let recording = CudaEvent::of(event, &self.lane.core)?
            .latest()
            .ok_or(Error::NotRecorded)?;
        if !Arc::ptr_eq(recording.lane(), &self.lane) && !recording.is_known() {
            // What was before is not to seem as late as what is waited for.
            self.mark_what_is_before();
            let held = recording.mark().hold(self.lane.stream);
            held.map_err(|failure| self.failed(failure))?;
        }
        Ok(self.append())
    }

    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        let _bound = self.accepts("on_complete")?;
        self.core().watcher.start()?;
        self.mark_what_is_before();
        let tick = self.append();
        // Nothing is between the mark and this tick.
        if self.marked + 1 == tick && self.lane.retick(self.marked, tick) {
            self.marked = tick;
        } else {
            self.mark_what_is_before();
        }
        self.lane.handlers.push(tick, handler);
        self.core().watcher.watch(&self.lane);
        Ok(tick)
    }

    fn flush(&mut self, _when: Flush) -> Result<Tick> {
        // The driver starts work as soon as it is told of it.
        Ok(self.last)
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
        let _bound = self.bind()?;
        Ok(Arc::new(CudaProgram::new(
            self.lane.core.clone(),
            ops,
            slots,
        )?))
    }

    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        self.is_open("replay")?;
        // Who has to make a graph does not wait for the gate twice.
        let _bound = self.bind()?;
        let program = CudaProgram::of(&**program, &self.lane.core)?;
        program.check(slots)?;
        self.command(OpKind::Replay, |queue| {
            // SAFETY: the caller vouches for the memory of the program's ops with these slots.
            unsafe { queue.launch(program, slots) }.map(|()| None)
        })
    }

    unsafe fn wait_for_external(&mut self, external: u64) -> Result<Tick> {
        let _bound = self.accepts("wait_for_external")?;
        // SAFETY: the caller vouches for the handle.
        let external = unsafe { External::of(&self.core().context, external) };
        let external = external.map_err(|failure| self.failed(failure))?;
        // What was before is not to seem as late as what is waited for.
        self.mark_what_is_before();
        let waited = self.wait_for(&external);
        waited.map_err(|failure| self.failed(failure))?;
        Ok(self.append())
    }

    unsafe fn hold_external(&mut self, external: u64) -> Result<Tick> {
        let _bound = self.accepts("hold_external")?;
        // SAFETY: the caller vouches for the handle.
        let external = unsafe { External::of(&self.core().context, external) };
        let held = external.and_then(|external| self.lead(external));
        held.map_err(|failure| self.failed(failure))?;
        Ok(self.last)
    }

    unsafe fn replay_on(
        &mut self,
        external: u64,
        program: &Arc<dyn Program>,
        slots: &[Span],
    ) -> Result<Tick> {
        let _bound = self.accepts("replay_on")?;
        let program = CudaProgram::of(&**program, &self.lane.core)?;
        program.check(slots)?;
        // SAFETY: the caller vouches for the handle.
        let external = unsafe { External::of(&self.core().context, external) };
        let external = external.map_err(|failure| self.failed(failure))?;
        let tick = self.command(OpKind::Replay, |queue| {
            // SAFETY: the caller vouches for the memory of the program's ops with these slots, and for the order of what is on
            // `external`.
            unsafe { queue.launch_on(external, program, slots) }.map(|()| None)
        })?;
        if self.lane.fault().is_none() {
            self.led = Some((external, tick));
        }
        Ok(tick)
    }

    fn recover(&mut self) -> Result<()> {
        if self.lane.fault().is_some() {
            self.lane.reach(self.last, None)?;
            self.lane.cleanse();
        }
        Ok(())
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            self.lane.hold(self.last + 1, Held::Scratch(scratch));
            self.append();
        }
        if !self.lane.is_over(self.last) || self.lane.owes() {
            // The watcher keeps all that is needed until the work is over. Without it, dropping the lane waits.
            if self.core().watcher.start().is_ok() {
                self.core().watcher.watch(&self.lane);
            }
        }
    }
}
