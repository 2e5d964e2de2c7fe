//! The lane: a queue of Metal's, what is on its way there, and what any thread may know of it.
//!
//! Commands are written on a page. A page that is sealed is committed when the buffer before it is over and all went
//! well, because Metal executes whatever is committed and a queue executes nothing after a fault. So a lane has one
//! buffer at a time on the GPU; what is appended meanwhile adds up on the next page.
//!
//! What a page waits for on other lanes is over before it is committed, too. The GPU itself waits for no event: Metal gives
//! that up after some seconds, and such a wait and a hazard that Metal tracks may hold each other up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use streampool_device::lock::{Condvar, Guard, Mutex};
use streampool_device::{Error, Fault, OpKind, QueueOptions, Result, Tick};

use super::commands::Commands;
use super::core::Core;
use super::errors::Refused;
use super::handlers::Handlers;
use super::page::{Maker, Page};
use super::peer::{Next, Peer};
use super::pool::pooled;
use super::staging::Blocks;
use super::state::{After, MOST_SEALED, State};
use crate::ranks;

/// A queue of Metal's has room for more buffers than are sealed.
const QUEUE_BUFFERS: usize = 2 * MOST_SEALED;

/// A queue of Metal's, and what any thread may know of it. The one who appends is its queue.
pub(crate) struct Lane {
    pub core: Arc<Core>,
    pub label: String,
    pub index: u32,
    pub blocks: Arc<Blocks>,
    pub handlers: Handlers,
    pub(super) commands: Commands,
    pub(super) appended: AtomicU64,
    /// The last tick that somebody asked to start.
    asked: AtomicU64,
    completed: AtomicU64,
    poisoned: AtomicBool,
    /// Whether it ever was poisoned.
    failed: AtomicBool,
    pub(super) state: Mutex<State>,
    pub(super) over: Condvar,
    /// Lanes that are told when a tick of this one is over.
    pub(super) told: Mutex<Vec<(Tick, Arc<dyn Peer>)>>,
}

impl Lane {
    pub fn new(core: Arc<Core>, options: QueueOptions) -> Result<Arc<Lane>> {
        // Seen in Instruments and in Metal's own errors.
        let name = format!("{} {}", core.properties.name, options.label);
        let made = pooled(|| Commands::new(&core.gpu, &core.ledger, name, QUEUE_BUFFERS));
        let commands = made.map_err(|refused: Refused| refused.error(&core.properties.name))?;
        Ok(Arc::new(Lane {
            blocks: Blocks::new(core.gpu.clone(), core.own.clone()),
            handlers: Handlers::new(),
            label: options.label,
            index: options.index,
            commands,
            appended: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            poisoned: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            state: Mutex::new(ranks::LANE, State::default()),
            over: Condvar::new(),
            told: Mutex::new(ranks::TOLD, Vec::new()),
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
        self.commands.renew(&self.core.gpu, &self.core.ledger)
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
    pub(super) fn release(&self, state: Guard<'_, State>, after: &mut After) {
        let completed = self.completed();
        let mut told = self.told.lock();
        let over = told.extract_if(.., |(tick, _)| *tick <= completed);
        after.next.extend(over.map(|(_, lane)| Next::Ready(lane)));
        drop(told);
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
                Next::Ready(lane) => lane.proceed(),
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
