//! A queue that fails where it meets a bug.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use streampool_device::lock::Mutex;
use streampool_device::{
    Error, Event, Fault, Flush, Handler, HostSlice, Op, OpKind, Program, Progress, Queue, Result,
    Span, Tick, commands,
};

use crate::bugs::{Bugs, is_strided_copy};
use crate::ranks;

/// A queue of the device that is wrapped. Once it met a bug it is poisoned, as after any other fault.
pub(crate) struct Watched {
    queue: Box<dyn Queue>,
    label: String,
    bugs: Arc<Bugs>,
    progress: Arc<WatchedProgress>,
    /// The last command that was flushed.
    flushed: Tick,
    /// While it captures: whether a strided copy was captured.
    capture: Option<bool>,
}

/// The progress of the queue that is wrapped, and the fault of this one.
struct WatchedProgress {
    progress: Arc<dyn Progress>,
    fault: Mutex<Option<Fault>>,
}

/// A program with strided copies.
struct CopiesStrided(Arc<dyn Program>);

impl Watched {
    pub fn new(queue: Box<dyn Queue>, label: String, bugs: Arc<Bugs>) -> Self {
        let progress = WatchedProgress {
            progress: queue.progress(),
            fault: Mutex::new(ranks::FAULT, None),
        };
        Watched {
            queue,
            label,
            bugs,
            progress: Arc::new(progress),
            flushed: 0,
            capture: None,
        }
    }

    /// The queue that is wrapped, unless this one is poisoned.
    fn sound(&mut self) -> Result<&mut dyn Queue> {
        match self.progress.fault() {
            Some(fault) if self.capture.is_none() => Err(Error::Poisoned(fault)),
            _ => Ok(&mut *self.queue),
        }
    }

    /// Poisons the queue if the command at `tick` met a bug.
    fn judge(&self, tick: Tick, op: OpKind, met: Result<(), String>) {
        if let Err(why) = met {
            let fault = || Fault::new(&self.label, tick, op, why);
            self.progress.fault.lock().get_or_insert_with(fault);
        }
    }
}

impl Queue for Watched {
    fn progress(&self) -> Arc<dyn Progress> {
        self.progress.clone()
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        let strided = is_strided_copy(op);
        if let Some(copies_strided) = &mut self.capture {
            *copies_strided |= strided;
            // SAFETY: the caller's guarantee, handed on.
            return unsafe { self.queue.encode(op) };
        }
        let bugs = self.bugs.clone();
        let queue = self.sound()?;
        // SAFETY: the caller's guarantee, handed on.
        let (tick, mut met) = bugs.encode(op.kind(), || unsafe { queue.encode(op) });
        let tick = tick?;
        if strided {
            met = met.and(bugs.copy_strided(&self.progress.progress, tick));
        }
        self.judge(tick, op.kind(), met);
        Ok(tick)
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.sound()?.upload(dst, bytes) }
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.sound()?.download(src, into) }
    }

    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        self.sound()?.record(event)
    }

    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        self.sound()?.wait(event)
    }

    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        self.sound()?.on_complete(handler)
    }

    fn flush(&mut self, when: Flush) -> Result<Tick> {
        let tick = self.queue.flush(when)?;
        if tick == self.flushed || self.capture.is_some() {
            return Ok(tick);
        }
        self.flushed = tick;
        let met = self.bugs.flushed(&self.progress.progress, tick);
        // What was flushed may be over, and known to be good: another command fails.
        if met.is_err()
            // SAFETY: it names no memory.
            && let Ok(tick) = unsafe { self.queue.encode(&Op::Nop) }
        {
            self.judge(tick, OpKind::Nop, met);
            self.flushed = self.queue.flush(when)?;
        }
        Ok(self.flushed)
    }

    fn begin_capture(&mut self) -> Result<()> {
        self.queue.begin_capture()?;
        self.capture = Some(false);
        Ok(())
    }

    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        let copies_strided = self.capture.take().unwrap_or(false);
        // SAFETY: the caller's guarantee, handed on.
        let program = unsafe { self.queue.end_capture(slots, constants)? };
        Ok(match copies_strided {
            true => Arc::new(CopiesStrided(program)),
            false => program,
        })
    }

    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        let strided = program.as_any().downcast_ref::<CopiesStrided>();
        let inner = strided.map_or(program, |CopiesStrided(program)| program);
        // SAFETY: the caller's guarantee, handed on.
        let tick = unsafe { self.sound()?.replay(inner, slots)? };
        if strided.is_some() {
            let met = self.bugs.copy_strided(&self.progress.progress, tick);
            self.judge(tick, OpKind::Replay, met);
        }
        Ok(tick)
    }

    fn recover(&mut self) -> Result<()> {
        if self.progress.fault.lock().is_some() {
            let last = self.queue.flush(Flush::ForWaiter)?;
            // A fault of the device itself is cleared below.
            let _ = self.progress.progress.wait(last, None);
        }
        self.queue.recover()?;
        *self.progress.fault.lock() = None;
        Ok(())
    }
}

impl Progress for WatchedProgress {
    fn completed(&self) -> Tick {
        self.progress.completed()
    }

    fn fault(&self) -> Option<Fault> {
        self.progress.fault().or_else(|| self.fault.lock().clone())
    }

    fn wait(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        self.progress.wait(tick, deadline)?;
        commands::outcome(tick, self.fault())
    }

    fn give_up(&self, since: Tick, until: Tick) -> bool {
        self.progress.give_up(since, until)
    }

    fn withdraw(&self, tick: Tick) {
        self.progress.withdraw(tick);
    }
}

impl Program for CopiesStrided {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn ops(&self) -> usize {
        self.0.ops()
    }

    fn slots(&self) -> &[usize] {
        self.0.slots()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
