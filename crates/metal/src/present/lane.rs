//! The lane: a queue of Metal's, what is on its way there, and what any thread may know of it.
//!
//! Commands are written on a page. A page that is sealed is committed when the buffer before it is over and all went
//! well, because Metal executes whatever is committed and a queue executes nothing after a fault. So a lane has one
//! buffer at a time on the GPU; what is appended meanwhile adds up on the next page.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::{MTLCommandBuffer, MTLDevice, MTLEvent};
use streampool_device::lock::{Condvar, Guard, Mutex};
use streampool_device::{Error, Fault, Handler, OpKind, QueueOptions, Result, Tick};

use super::commands::Commands;
use super::completion::{End, Flight};
use super::core::Core;
use super::event::Recording;
use super::handlers::Handlers;
use super::objects::{Command, Timeline};
use super::page::{Draft, Held, Maker, Page, Refused, Wait};
use super::pool::pooled;
use super::staging::Blocks;
use super::tracing::{Times, Traced};
use crate::ranks;

/// A page with so many commands, or so many bytes that wait for it, is full.
const FULL: usize = 64;
const FULL_BYTES: usize = 32 << 20;
/// With so many commands it starts while the GPU has nothing else of this lane.
const EARLY: usize = 8;
/// With so many sealed pages, who appends waits. A queue of Metal's has room for more buffers than these.
const MOST_SEALED: usize = 16;
const QUEUE_BUFFERS: usize = 2 * MOST_SEALED;

/// A queue of Metal's, and what any thread may know of it. The one who appends is its queue.
pub(crate) struct Lane {
    pub core: Arc<Core>,
    pub label: String,
    pub index: u32,
    pub blocks: Arc<Blocks>,
    pub handlers: Handlers,
    pub(super) commands: Commands,
    /// Rises to the last tick of each buffer as it ends.
    pub(super) timeline: Timeline,
    appended: AtomicU64,
    /// The last tick that somebody asked to start.
    asked: AtomicU64,
    completed: AtomicU64,
    poisoned: AtomicBool,
    /// Whether it ever was poisoned.
    failed: AtomicBool,
    pub(super) state: Mutex<State>,
    pub(super) over: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub page: Page,
    pub sealed: VecDeque<Sealed>,
    pub flight: Option<Flight>,
    /// Whether it waits for its turn among the buffers in flight.
    pub queued: bool,
    /// Whether the page is to go as soon as it can.
    pub wanted: bool,
    pub fault: Option<Fault>,
    /// The faults it has recovered from, each with the last tick it hit.
    past: Vec<(Fault, Tick)>,
    /// How many threads wait for it.
    pub waiters: usize,
    /// Buffers of other lanes that are over, but for a tick of this one.
    pub late: Vec<(Tick, Late)>,
    /// When the last interval ended that was sent.
    pub traced_until: Option<Instant>,
}

/// A page that nothing is added to any more but ticks without work.
pub(crate) struct Sealed {
    pub command: Command,
    pub number: u64,
    pub last: Tick,
    /// What the timeline rises to at its end.
    pub signal: u64,
    pub blame: (Tick, OpKind),
    pub held: Vec<Held>,
    pub waits: Vec<Wait>,
    pub times: Option<Arc<Times>>,
    pub traced: Option<Traced>,
}

/// What is to be done when the lock of a lane is free again.
#[derive(Default)]
#[must_use]
pub(crate) struct After {
    /// A buffer that is over.
    pub released: Option<Sealed>,
    /// What buffers had that were given up, beside themselves.
    pub given_up: Vec<(Vec<Held>, Vec<Wait>)>,
    /// Whether handlers are due, and nobody is at it.
    pub due: bool,
    /// What other lanes can do now.
    pub next: Vec<Next>,
}

/// What a lane can do now.
pub(crate) enum Next {
    /// Its turn among the buffers in flight has come.
    Turn(Arc<Lane>),
    /// Its buffer is over, and so is what that had waited for.
    Late(Late),
}

/// A buffer that is over on the GPU, of a lane that is told so when what it waited for is known to be over.
pub(crate) struct Late {
    pub lane: Arc<Lane>,
    pub end: End,
}

impl Lane {
    pub fn new(core: Arc<Core>, options: QueueOptions) -> Result<Arc<Lane>> {
        // Seen in Instruments and in Metal's own errors.
        let name = format!("{} {}", core.properties.name, options.label);
        let made = pooled(|| {
            let timeline = core.gpu.newSharedEvent().ok_or(Refused("newSharedEvent"))?;
            timeline.setLabel(Some(&NSString::from_str(&name)));
            Ok((Commands::new(&core, name, QUEUE_BUFFERS)?, timeline))
        });
        let (commands, timeline) =
            made.map_err(|refused: Refused| refused.error(&core.properties.name))?;
        Ok(Arc::new(Lane {
            blocks: Blocks::new(core.gpu.clone()),
            handlers: Handlers::new(),
            label: options.label,
            index: options.index,
            commands,
            timeline,
            appended: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            poisoned: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            state: Mutex::new(ranks::LANE, State::default()),
            over: Condvar::new(),
            core,
        }))
    }

    pub(super) fn maker(&self) -> Maker<'_> {
        Maker {
            commands: &self.commands,
            encoders: &self.core.encoders,
        }
    }

    /// The last tick given out.
    #[inline]
    pub fn appended(&self) -> Tick {
        self.appended.load(Ordering::Acquire)
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

    /// How the work of `tick` ended, which is over: also when the lane has recovered since.
    pub fn outcome_for_ever(&self, tick: Tick) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let state = self.state.lock();
        let now = state.fault.as_ref().filter(|fault| tick >= fault.tick());
        let mut past = state.past.iter();
        let then = past.find(|(fault, last)| (fault.tick()..=*last).contains(&tick));
        match now.or(then.map(|(fault, _)| fault)) {
            Some(fault) => Err(Error::Fault(fault.clone())),
            None => Ok(()),
        }
    }

    /// Poisons it from the tick to blame on, unless it is poisoned from an earlier one on.
    pub(super) fn poison(&self, state: &mut State, blame: (Tick, OpKind), why: String) {
        if !state.spoils(blame.0) {
            state.fault = Some(Fault::new(&self.label, blame.0, blame.1, why));
        }
        self.failed.store(true, Ordering::Release);
        self.poisoned.store(true, Ordering::Release);
    }

    /// Begins anew on a queue of Metal's that no fault hit. Everything appended is over.
    pub fn renew(&self) -> Result<(), Refused> {
        self.commands.renew(&self.core)
    }

    /// Clears the poison. Everything appended is over.
    pub fn cleanse(&self) {
        let mut state = self.state.lock();
        let last = self.appended();
        if let Some(fault) = state.fault.take() {
            state.past.push((fault, last));
        }
        self.poisoned.store(false, Ordering::Release);
    }

    /// Its state, if it takes commands: not while poisoned, not on a lost device.
    fn accepting(&self) -> Result<Guard<'_, State>> {
        self.core.check_alive()?;
        let state = self.state.lock();
        match &state.fault {
            Some(fault) => Err(Error::Poisoned(fault.clone())),
            None => Ok(state),
        }
    }

    /// As [`accepting`](Self::accepting), once there is room for another page.
    fn with_room(&self) -> Result<Guard<'_, State>> {
        let mut state = self.accepting()?;
        while state.sealed.len() >= MOST_SEALED {
            state.waiters += 1;
            state = self.over.wait(state);
            state.waiters -= 1;
        }
        match &state.fault {
            Some(fault) => Err(Error::Poisoned(fault.clone())),
            None => Ok(state),
        }
    }

    /// Appends a command of `bytes` that `encode` writes, and keeps what that returns until it is over.
    pub fn execute(
        self: &Arc<Self>,
        op: OpKind,
        bytes: usize,
        encode: impl FnOnce(&mut Page, &Maker<'_>) -> Result<Vec<Held>, Refused>,
    ) -> Result<Tick> {
        let mut state = self.with_room()?;
        let origin = self.core.tracing.origin();
        if origin.is_some() {
            self.seal(&mut state, None);
        }
        let tick = self.appended() + 1;
        let written = encode(&mut state.page, &self.maker());
        let Some(draft) = state.page.draft() else {
            // Without a page nothing was written. What was sealed goes on.
            self.go_on(state);
            return Err(self.refused(written.err().unwrap_or(Refused("commandBuffer"))));
        };
        draft.last = tick;
        draft.blame.get_or_insert((tick, op));
        draft.commands += 1;
        draft.bytes += bytes;
        let blame = draft.blame.unwrap_or((tick, op));
        let full = draft.commands >= FULL || draft.bytes >= FULL_BYTES;
        match written {
            Ok(held) => draft.held.extend(held),
            // What was written of it cannot be taken back, so nothing of its buffer is executed.
            Err(refused) => self.poison(&mut state, blame, self.refused(refused).to_string()),
        }
        self.appended.store(tick, Ordering::Release);
        let traced = origin.map(|origin| Traced {
            tick,
            op,
            encoded: Instant::now(),
            origin,
        });
        if traced.is_some() || full {
            self.seal(&mut state, traced);
        }
        self.go_on(state);
        Ok(tick)
    }

    fn refused(&self, refused: Refused) -> Error {
        refused.error(&self.core.properties.name)
    }

    /// Appends a tick without work. It is over when what is before it is.
    pub fn pass(self: &Arc<Self>) -> Result<Tick> {
        let mut state = self.accepting()?;
        let tick = self.append_pass(&mut state);
        // It may be the turn of other lanes.
        pooled(|| self.go_on(state));
        Ok(tick)
    }

    /// As [`pass`](Self::pass): the caller has done the work itself, if nothing is before it. `work` is done without
    /// a lock; only the one who appends calls this, so nothing comes before it meanwhile.
    pub fn pass_with(self: &Arc<Self>, work: impl FnOnce()) -> Result<Option<Tick>> {
        let state = self.accepting()?;
        if !state.is_idle() {
            return Ok(None);
        }
        drop(state);
        work();
        self.pass().map(Some)
    }

    fn append_pass(&self, state: &mut State) -> Tick {
        let tick = self.appended() + 1;
        self.appended.store(tick, Ordering::Release);
        if let Some(last) = state.last() {
            *last = tick;
        } else {
            self.publish(tick);
        }
        tick
    }

    /// Has `handler` called when everything before it is over.
    pub fn call_back(self: &Arc<Self>, handler: Handler) -> Result<Tick> {
        let mut state = self.accepting()?;
        // Before the tick can be over.
        self.handlers.push(self.appended() + 1, handler);
        let tick = self.append_pass(&mut state);
        self.go_on(state);
        Ok(tick)
    }

    /// Records an event here. One with timing ends a buffer, whose end is its time; `nop` writes work for a buffer
    /// where there is none.
    pub fn record(
        self: &Arc<Self>,
        timed: bool,
        nop: impl FnOnce(&mut Page, &Maker<'_>) -> Result<(), Refused>,
    ) -> Result<Recording> {
        let mut state = self.with_room()?;
        if timed
            && state.is_idle()
            && let Err(refused) = nop(&mut state.page, &self.maker())
        {
            // A page without a tick would be in the way of the next one.
            drop(state.page.close(&self.maker()));
            return Err(self.refused(refused));
        }
        let tick = self.append_pass(&mut state);
        self.seal(&mut state, None);
        let State { sealed, flight, .. } = &mut *state;
        let behind = sealed
            .back_mut()
            .or_else(|| flight.as_mut().map(|flight| &mut flight.sealed));
        let (signal, times) = match behind {
            Some(buffer) => (buffer.signal, Some(buffer.times().clone())),
            None => (0, None),
        };
        self.go_on(state);
        Ok(Recording {
            lane: self.clone(),
            tick,
            signal,
            times,
        })
    }

    /// Makes what follows wait for a recording. What is before it does not.
    pub fn wait_for(self: &Arc<Self>, recording: &Recording) -> Result<Tick> {
        if Arc::ptr_eq(&recording.lane, self) || recording.is_over() {
            return self.pass();
        }
        let mut state = self.with_room()?;
        if state.page.draft().is_some_and(|draft| draft.commands > 0) {
            self.seal(&mut state, None);
        }
        let tick = self.appended() + 1;
        let maker = self.maker();
        let draft = match state.page.buffer(&maker) {
            Ok(draft) => draft,
            Err(refused) => {
                self.go_on(state);
                return Err(self.refused(refused));
            }
        };
        let event = ProtocolObject::from_ref(&*recording.lane.timeline);
        draft
            .command
            .encodeWaitForEvent_value(event, recording.signal);
        draft.waits.push(Wait {
            lane: recording.lane.clone(),
            value: recording.signal,
            times: recording.times.clone(),
        });
        draft.last = tick;
        self.appended.store(tick, Ordering::Release);
        self.go_on(state);
        Ok(tick)
    }

    /// Seals the page, if anything is on it: the encoder ends, and the timeline rises when it is over.
    fn seal(&self, state: &mut State, traced: Option<Traced>) {
        state.wanted = false;
        let Some(draft) = state.page.close(&self.maker()) else {
            return;
        };
        let Draft {
            command,
            last,
            blame,
            held,
            waits,
            ..
        } = draft;
        let event = ProtocolObject::from_ref(&*self.timeline);
        command.encodeSignalEvent_value(event, last);
        state.sealed.push_back(Sealed {
            command,
            number: self.core.in_flight.number(),
            last,
            signal: last,
            blame: blame.unwrap_or((last, OpKind::Nop)),
            held,
            waits,
            times: traced.map(|_| Arc::new(Times::new())),
            traced,
        });
    }

    /// Makes everything appended so far start as soon as it can.
    #[inline]
    pub fn ask(self: &Arc<Self>) {
        let appended = self.appended();
        if self.asked.load(Ordering::Acquire) >= appended || self.is_over(appended) {
            return;
        }
        pooled(|| {
            let mut state = self.state.lock();
            self.asked.fetch_max(appended, Ordering::AcqRel);
            // It is sealed when what is before it is over, with what comes until then.
            state.wanted = !matches!(state.page, Page::Idle);
            self.go_on(state);
        });
    }

    /// Commits what can be, releases the lock, and does what is left.
    pub(super) fn go_on(self: &Arc<Self>, mut state: Guard<'_, State>) {
        let mut after = After::default();
        self.advance(&mut state, &mut after);
        self.release(state, &mut after);
        self.finish(after);
    }

    /// Commits what can be, and seals the page where it is to go and nothing is before it any more.
    pub(super) fn advance(self: &Arc<Self>, state: &mut State, after: &mut After) {
        self.start(state, after);
        if state.is_quiet() && state.is_due() {
            self.seal(state, None);
            self.start(state, after);
        }
    }

    /// Sees which handlers are due, releases the lock, and wakes who waits.
    pub(super) fn release(&self, mut state: Guard<'_, State>, after: &mut After) {
        let completed = self.completed();
        let over = state.late.extract_if(.., |(tick, _)| *tick <= completed);
        after.next.extend(over.map(|(_, late)| Next::Late(late)));
        after.due |= self.handlers.settle(self.completed(), state.fault.as_ref());
        let waited = state.waiters > 0;
        drop(state);
        if waited {
            self.over.notify_all();
        }
    }

    /// Does what is left, and what that leaves to other lanes. No lock is held.
    pub(super) fn finish(self: &Arc<Self>, after: After) {
        let mut all = self.finish_own(after);
        while let Some(next) = all.pop() {
            all.extend(match next {
                Next::Turn(lane) => lane.take_turn(),
                Next::Late(Late { lane, end }) => lane.conclude(end),
            });
        }
    }

    /// As [`finish`](Self::finish), but for what other lanes can do.
    pub(super) fn finish_own(self: &Arc<Self>, after: After) -> Vec<Next> {
        if after.released.is_some() || !after.given_up.is_empty() {
            pooled(|| drop((after.released, after.given_up)));
        }
        if after.due {
            self.core.callers.hand_over(self.clone());
        }
        after.next
    }

    /// `tick` is over. The caller holds the lane's lock, and ticks end in their order. So a store will do; the greater of two,
    /// taken at once, the thread sanitizer would not see.
    pub(super) fn publish(&self, tick: Tick) {
        debug_assert!(self.completed.load(Ordering::Relaxed) <= tick);
        self.completed.store(tick, Ordering::Release);
    }

    /// Waits until `tick` is over.
    pub fn reach(self: &Arc<Self>, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        if !self.is_over(tick) {
            self.ask();
            self.sleep(tick, deadline)?;
        }
        self.core.check_alive()
    }

    fn sleep(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        let begun = Instant::now();
        let mut state = self.state.lock();
        while !self.is_over(tick) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::Timeout(begun.elapsed()));
            }
            state.waiters += 1;
            state = match left {
                Some(left) => self.over.wait_timeout(state, left),
                None => self.over.wait(state),
            };
            state.waiters -= 1;
        }
        Ok(())
    }
}

impl State {
    /// Whether a fault is at this tick or before it. What is before the fault is executed.
    pub fn spoils(&self, tick: Tick) -> bool {
        self.fault
            .as_ref()
            .is_some_and(|fault| tick >= fault.tick())
    }

    /// Whether nothing of it is sealed or on the GPU.
    pub fn is_quiet(&self) -> bool {
        self.sealed.is_empty() && self.flight.is_none()
    }

    /// Whether the page is to go as soon as nothing is before it.
    fn is_due(&mut self) -> bool {
        let early = |draft: &mut Draft| draft.commands >= EARLY;
        self.wanted || self.page.draft().is_some_and(early)
    }

    /// Whether everything appended is over.
    fn is_idle(&self) -> bool {
        self.is_quiet() && matches!(self.page, Page::Idle)
    }

    /// The last tick of what was appended last and is not over.
    fn last(&mut self) -> Option<&mut Tick> {
        if let Some(draft) = self.page.draft() {
            return Some(&mut draft.last);
        }
        match self.sealed.back_mut() {
            Some(sealed) => Some(&mut sealed.last),
            None => self.flight.as_mut().map(|flight| &mut flight.sealed.last),
        }
    }
}

impl Sealed {
    /// When the last of what it waited for was over, which is known. It was over after that by all that anybody can tell; but
    /// the GPU signals an event before the buffer ends that signals it, and says when that ended.
    pub(super) fn latest_wait(&self) -> f64 {
        let times = self.waits.iter().filter_map(|wait| wait.times.as_ref());
        let ends = times.filter_map(|times| times.get()).map(|(_, end)| *end);
        ends.fold(0.0, f64::max)
    }

    /// Where its times will be.
    fn times(&mut self) -> &Arc<Times> {
        self.times.get_or_insert_default()
    }
}
