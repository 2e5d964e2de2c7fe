//! The lane: a stream of the driver, and what any thread may know of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUresult, CUstream};
use streampool_device::lock::{self, Mutex};
use streampool_device::{
    Error, Fault, HostSlice, OpKind, Priority, QueueOptions, Result, Tick, foreign,
};

use crate::context::Failure;
use crate::core::Core;
use crate::handlers::Handlers;
use crate::marks::{Mark, Shelf};
use crate::memory::DeviceBlock;
use crate::pinned::{Block, Blocks};
use crate::ranks;
use crate::tracing::Timed;
use crate::waits;
use crate::watcher::Watched;

/// A stream of the driver, and what any thread may know of it. The one who appends is its queue.
///
/// The driver tells only whether a stream has passed a mark or everything. So the lane remembers which tick
/// each mark stands for; what is known to be over is the highest such tick that was seen passed.
pub(crate) struct Lane {
    pub core: Arc<Core>,
    pub label: String,
    pub index: u32,
    pub stream: CUstream,
    priority: Priority,
    pub shelf: Arc<Shelf>,
    pub blocks: Arc<Blocks>,
    pub handlers: Handlers,
    appended: AtomicU64,
    completed: AtomicU64,
    poisoned: AtomicBool,
    state: Mutex<State>,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for Lane {}
// SAFETY: as above; the rest is atomics and locks.
unsafe impl Sync for Lane {}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    marks: VecDeque<(Tick, Arc<Mark>)>,
    /// What has to stay until a tick is over, and what is to be done then.
    held: VecDeque<(Tick, Held)>,
    timed: VecDeque<Timed>,
}

/// What commands under way need.
pub(crate) enum Held {
    /// Bytes on their way to the device.
    Upload(#[allow(dead_code, reason = "kept alive, never read")] Block),
    /// Bytes on their way to the host, and where they go at last, unless that was withdrawn.
    Download(Block, Option<HostSlice>),
    /// Bytes that the driver copies to host memory by itself.
    Direct,
    /// Scratch memory that was replaced by a larger one.
    Scratch(#[allow(dead_code, reason = "kept alive, never read")] Arc<DeviceBlock>),
    /// Points that a graph sets.
    Marks(#[allow(dead_code, reason = "kept alive, never read")] Vec<Arc<Mark>>),
}

impl Lane {
    pub fn new(core: Arc<Core>, options: QueueOptions) -> Result<Arc<Lane>, Failure> {
        let _bound = core.context.bind()?;
        let stream = core.stock.stream(options.priority)?;
        Ok(Arc::new(Lane {
            shelf: Shelf::new(core.context.clone(), core.stock.clone()),
            blocks: Blocks::new(core.pinned.clone()),
            priority: options.priority,
            handlers: Handlers::new(),
            label: options.label,
            index: options.index,
            stream,
            appended: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            poisoned: AtomicBool::new(false),
            state: Mutex::new(ranks::LANE, State::default()),
            core,
        }))
    }

    /// The last tick given out.
    #[inline]
    pub fn appended(&self) -> Tick {
        self.appended.load(Ordering::Acquire)
    }

    /// Gives out a tick. Only the queue does so, after the driver has the command.
    #[inline]
    pub fn publish(&self, tick: Tick) {
        self.appended.store(tick, Ordering::Release);
    }

    #[inline]
    pub fn completed(&self) -> Tick {
        self.completed.load(Ordering::Acquire)
    }

    #[inline]
    pub fn is_over(&self, tick: Tick) -> bool {
        self.completed() >= tick
    }

    /// The fault that poisons it now.
    #[inline]
    pub fn fault(&self) -> Option<Fault> {
        match self.poisoned.load(Ordering::Acquire) {
            true => self.state.lock().fault.clone(),
            false => None,
        }
    }

    /// Poisons it.
    pub fn poison(&self, tick: Tick, op: OpKind, why: impl Into<String>) {
        let fault = Fault::new(&self.label, tick, op, why);
        self.state.lock().fault.get_or_insert(fault);
        self.poisoned.store(true, Ordering::Release);
    }

    /// Clears the poison.
    pub fn cleanse(&self) {
        self.state.lock().fault = None;
        self.poisoned.store(false, Ordering::Release);
    }

    /// Remembers that `mark` stands for `tick`.
    pub fn remember(&self, tick: Tick, mark: Arc<Mark>) {
        self.state.lock().marks.push_back((tick, mark));
    }

    /// Has the mark of `tick` stand for `later` as well: the device does nothing between them. `false` if the
    /// mark is gone already.
    pub fn retick(&self, tick: Tick, later: Tick) -> bool {
        match self.state.lock().marks.back_mut() {
            Some((at, _)) if *at == tick => {
                *at = later;
                true
            }
            _ => false,
        }
    }

    /// Keeps `held` until `tick` is over.
    pub fn hold(&self, tick: Tick, held: Held) {
        self.state.lock().held.push_back((tick, held));
    }

    /// Reports an op when it is over.
    pub fn report(&self, timed: Timed) {
        self.state.lock().timed.push_back(timed);
    }

    /// Whether something has to be done when what was appended is over.
    pub fn owes(&self) -> bool {
        let state = self.state.lock();
        !state.held.is_empty() || !state.timed.is_empty() || !self.handlers.is_empty()
    }

    /// Notes that the stream has passed `tick`: lands what was on its way to the host, lets go of what was
    /// held, and only then says so.
    pub fn passed(&self, tick: Tick) {
        if !self.is_over(tick) {
            self.settle(tick);
        }
    }

    /// As [`passed`](Self::passed), for what came to be held only after that.
    pub fn settle(&self, tick: Tick) {
        // What is let go of may wait for the GPU: not with the lock held.
        let mut done = Vec::new();
        let mut state = self.state.lock();
        while state.marks.front().is_some_and(|(at, _)| *at <= tick) {
            state.marks.pop_front();
        }
        while state.held.front().is_some_and(|(at, _)| *at <= tick) {
            let Some((_, held)) = state.held.pop_front() else {
                break;
            };
            if let Held::Download(block, Some(into)) = &held {
                // SAFETY: the device has written the block, which is at least as long; the caller of
                // `download` vouches for `into` until this tick is over, which nobody knows yet.
                unsafe {
                    block
                        .pointer()
                        .copy_to_nonoverlapping(into.pointer, into.bytes);
                }
            }
            done.push(held);
        }
        self.completed.fetch_max(tick, Ordering::AcqRel);
        drop(state);
        drop(done);
        if !self.handlers.is_empty() {
            self.core.watcher.look();
        }
    }

    /// Reports the ops that are over. Only who holds no lock does so: a wait, or the watcher.
    pub fn report_due(&self) {
        let mut state = self.state.lock();
        let completed = self.completed();
        let due = state.timed.partition_point(|timed| timed.tick <= completed);
        if due == 0 {
            return;
        }
        let timed: Vec<Timed> = state.timed.drain(..due).collect();
        let _delivery = self.core.tracing.begin_delivery();
        drop(state);
        let Ok(_bound) = self.core.context.bind() else {
            return;
        };
        for timed in timed {
            if let Some(trace) = self.core.tracing.trace() {
                lock::assert_none_held();
                // The panic hook has reported it; the others are still told.
                let _ = foreign::call(|| timed.tell(self.index, &*trace));
            }
        }
    }

    /// Has downloads up to `tick` write nothing any more on the host. What the driver copies by itself is waited for.
    pub fn withdraw(&self, tick: Tick) {
        const RETRY: Duration = Duration::from_millis(1);
        loop {
            let mut state = self.state.lock();
            let mut is_left = false;
            for (at, held) in state.held.iter_mut().take_while(|(at, _)| *at <= tick) {
                match held {
                    Held::Download(_, into) => *into = None,
                    Held::Direct => is_left |= *at > self.completed(),
                    Held::Upload(_) | Held::Scratch(_) | Held::Marks(_) => {}
                }
            }
            drop(state);
            if !is_left || self.poll() >= tick {
                return;
            }
            if self.wait_for(tick).is_err() {
                std::thread::sleep(RETRY);
            }
        }
    }

    /// Asks the driver how far the stream is, and returns the highest tick known to be over. On a device
    /// that is lost everything is over.
    pub fn poll(&self) -> Tick {
        let appended = self.appended();
        let completed = self.completed();
        if completed >= appended {
            return completed;
        }
        match self.ask(appended) {
            Ok(Some(tick)) => self.passed(tick),
            Ok(None) => {}
            Err(_) if self.core.context.is_lost() => self.abandon(appended),
            Err(_) => {}
        }
        self.completed()
    }

    fn ask(&self, appended: Tick) -> Result<Option<Tick>, Failure> {
        let _bound = self.core.context.bind()?;
        if self.is_drained()? {
            return Ok(Some(appended));
        }
        let mut passed = None;
        while let Some((tick, mark)) = self.mark_at(passed.unwrap_or(0) + 1) {
            if !mark.is_over()? {
                break;
            }
            passed = Some(tick);
        }
        Ok(passed)
    }

    /// Whether the stream has done all that it was given. The context is bound.
    fn is_drained(&self) -> Result<bool, Failure> {
        let context = &self.core.context;
        match context.query(self.stream) {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => context.check("cuStreamQuery", other).map(|()| true),
        }
    }

    /// On a lost device: nothing will run any more, so nothing is waited for.
    fn abandon(&self, tick: Tick) {
        let mut state = self.state.lock();
        state.marks.clear();
        state.timed.clear();
        // The device may still write there; what it holds is gone with the process.
        state.held.drain(..).for_each(std::mem::forget);
        self.completed.fetch_max(tick, Ordering::AcqRel);
        drop(state);
        self.core.watcher.look();
    }

    /// Waits until `tick` is over.
    pub fn reach(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        let reached = self.go_to(tick, deadline);
        if self.core.tracing.is_on() {
            self.report_due();
        }
        reached
    }

    fn go_to(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        if self.is_over(tick) {
            return self.alive();
        }
        match deadline {
            None => self.wait_for(tick).map_err(|failure| {
                if self.core.context.is_lost() {
                    self.abandon(self.appended());
                }
                self.core.context.error(failure)
            })?,
            Some(deadline) => self.wait_until(tick, deadline)?,
        }
        self.alive()
    }

    fn alive(&self) -> Result<()> {
        let context = &self.core.context;
        context
            .check_alive()
            .map_err(|failure| context.error(failure))
    }

    fn wait_for(&self, tick: Tick) -> Result<(), Failure> {
        let context = &self.core.context;
        let _bound = context.bind()?;
        let appended = self.appended();
        let mark = match tick < appended {
            true => self.mark_at(tick),
            false => None,
        };
        if let Some((at, mark)) = mark {
            waits::wait(context, || mark.wait(), || mark.is_over())?;
            self.passed(at);
            return Ok(());
        }
        let spin = || {
            let _exempt = context.exempt();
            // SAFETY: the stream lives as long as this.
            let result = unsafe { sys::cuStreamSynchronize(self.stream) };
            context.check("cuStreamSynchronize", result)
        };
        waits::wait(context, spin, || self.is_drained())?;
        self.passed(appended);
        Ok(())
    }

    /// The first mark at or after `tick`.
    fn mark_at(&self, tick: Tick) -> Option<(Tick, Arc<Mark>)> {
        let state = self.state.lock();
        let found = state.marks.partition_point(|(at, _)| *at < tick);
        state.marks.get(found).map(|(at, mark)| (*at, mark.clone()))
    }

    fn wait_until(&self, tick: Tick, deadline: Instant) -> Result<()> {
        let begun = Instant::now();
        let mut rounds = 0u32;
        loop {
            if self.poll() >= tick {
                return Ok(());
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(Error::Timeout(now - begun));
            }
            rounds += 1;
            match rounds {
                0..200 => std::hint::spin_loop(),
                200..400 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50).min(deadline - now)),
            }
        }
    }
}

impl Watched for Lane {
    fn look(&self) -> (bool, bool) {
        let before = self.completed();
        let completed = self.poll();
        self.settle(completed);
        self.report_due();
        (completed > before, self.handlers.take(completed))
    }

    fn is_settled(&self) -> bool {
        self.is_over(self.appended()) && !self.owes()
    }

    fn call_handlers(&self) {
        while let Some((tick, handler)) = self.handlers.next(self.completed()) {
            let outcome = match self.core.context.check_alive() {
                Ok(()) => Ok(()),
                Err(lost) => Err(Fault::new(&self.label, tick, OpKind::Nop, lost.to_string())),
            };
            lock::assert_none_held();
            // The panic hook has reported it, and what follows does not depend on it.
            let _ = foreign::call(|| handler(outcome));
            self.handlers.was_called();
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let context = &self.core.context;
        let Ok(_bound) = context.bind() else {
            return;
        };
        if !self.is_over(self.appended()) && self.wait_for(self.appended()).is_err() {
            return;
        }
        // SAFETY: it was taken by `new`, its work is over, and whoever would use it is gone.
        unsafe { self.core.stock.give_stream(self.priority, self.stream) };
        self.core.programs.sweep();
    }
}
