//! A strand: the commands of one queue, the recordings that are points of it, and whose turn it is to execute them.
//!
//! Whoever finds a strand idle may take it and execute: a worker, or a thread that waits for it. So a
//! thread that waits for its own queue does the work itself, and no other thread is involved.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use streampool_device::lock::{Condvar, Guard, Mutex};
use streampool_device::{
    Error, Fault, Handler, HostSlice, Op, OpKind, QueueOptions, Result, Span, Tick,
};

use crate::core::Core;
use crate::cost;
use crate::given_up::GivenUp;
use crate::handlers::Handlers;
use crate::pool::Job;
use crate::program::Replay;
use crate::ranks;

/// So many commands are worth waking a worker for, however small they are.
const MANY_COMMANDS: usize = 32;

/// A list that grew beyond this is not kept when it is empty.
const LARGE_LIST: usize = 1024;

/// Nobody waits.
const NOBODY: Tick = Tick::MAX;

/// One command, small enough to be moved about freely: what is big is behind a pointer.
pub(crate) enum Command {
    /// Nothing, in order.
    Nop,
    /// A kernel.
    Op(Box<Op>),
    /// Bytes taken from the caller, to the start of a span.
    Upload(Span, Box<[u8]>),
    /// A span to the caller's memory.
    Download(Span, HostSlice),
    /// A program.
    Replay(Box<Replay>),
    /// An event to complete.
    Record(Arc<Recording>),
    /// An event to wait for.
    Wait(Arc<Recording>),
    /// A handler to call.
    Handler(Handler),
}

impl Command {
    /// What its faults tell.
    pub(crate) fn kind(&self) -> OpKind {
        match self {
            Command::Op(op) => op.kind(),
            Command::Upload(..) => OpKind::Upload,
            Command::Download(..) => OpKind::Download,
            Command::Replay(_) => OpKind::Replay,
            Command::Nop | Command::Record(_) | Command::Wait(_) | Command::Handler(_) => {
                OpKind::Nop
            }
        }
    }

    /// About how long it takes, in nanoseconds.
    pub(crate) fn cost(&self) -> u64 {
        match self {
            Command::Op(op) => cost::estimate(op),
            Command::Replay(replay) => replay.cost(),
            Command::Upload(span, _) | Command::Download(span, _) => cost::copying(span.bytes),
            _ => 0,
        }
    }
}

/// One in-order lane, on cache lines of its own: threads that each have one do not slow one another.
#[repr(align(128))]
pub(crate) struct Strand {
    pub(crate) core: Arc<Core>,
    pub(crate) options: QueueOptions,
    pub(crate) handlers: Handlers,
    inbox: Mutex<Inbox>,
    /// The tick of the last command appended. Written with the inbox locked.
    appended: AtomicU64,
    /// The tick of the last command that is over. Written by whoever runs the strand.
    completed: AtomicU64,
    /// The lowest tick that a parked thread waits for.
    wanted: AtomicU64,
    parked: Condvar,
    /// What nobody wants any more.
    pub(crate) given_up: Arc<GivenUp>,
    poisoned: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

struct Inbox {
    turn: Turn,
    /// Left over by whoever ran the strand last; comes before `fresh`.
    taken: VecDeque<Command>,
    /// Appended since.
    fresh: VecDeque<Command>,
    /// Nanoseconds of work in `fresh`.
    load: u64,
}

/// Whose turn it is.
enum Turn {
    /// Anybody's.
    Idle,
    /// A worker's, soon; whoever comes first takes it.
    Queued,
    /// Somebody is at it.
    Running,
    /// Nobody's, before this recording is complete. If `helped`, the thread that waits for this strand
    /// takes it then, else the workers do.
    Blocked { on: Arc<Recording>, helped: bool },
}

impl Strand {
    pub(crate) fn new(core: Arc<Core>, options: QueueOptions) -> Arc<Strand> {
        Arc::new(Strand {
            core,
            options,
            handlers: Handlers::new(),
            inbox: Mutex::new(
                ranks::INBOX,
                Inbox {
                    turn: Turn::Idle,
                    taken: VecDeque::new(),
                    fresh: VecDeque::new(),
                    load: 0,
                },
            ),
            appended: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            wanted: AtomicU64::new(NOBODY),
            parked: Condvar::new(),
            given_up: Arc::default(),
            poisoned: AtomicBool::new(false),
            fault: Mutex::new(ranks::FAULT, None),
        })
    }

    /// Whether `tick` is over; then all it did is visible to this thread.
    pub(crate) fn is_over(&self, tick: Tick) -> bool {
        self.completed.load(Ordering::Acquire) >= tick
    }

    /// The last tick that is over.
    pub(crate) fn completed(&self) -> Tick {
        self.completed.load(Ordering::Acquire)
    }

    /// About how long what was appended lately takes, in nanoseconds.
    fn load(&self) -> u64 {
        self.inbox.lock().load
    }

    /// The last tick there is.
    pub(crate) fn appended(&self) -> Tick {
        self.appended.load(Ordering::Acquire)
    }

    /// The fault that poisons it.
    pub(crate) fn fault(&self) -> Option<Fault> {
        if !self.poisoned.load(Ordering::Acquire) {
            return None;
        }
        self.fault.lock().clone()
    }

    /// Poisons it; a fault that is there already stays.
    pub(crate) fn poison(&self, fault: Fault) {
        self.fault.lock().get_or_insert(fault);
        self.poisoned.store(true, Ordering::Release);
    }

    /// Clears the poison.
    pub(crate) fn recover(&self) {
        let _old = self.fault.lock().take();
        self.poisoned.store(false, Ordering::Release);
    }

    /// Appends the command of the next tick. Much work starts by itself, little waits for more.
    pub(crate) fn append(self: &Arc<Self>, command: Command, cost: u64) {
        let mut inbox = self.inbox.lock();
        inbox.fresh.push_back(command);
        inbox.load += cost;
        let tick = self.appended.load(Ordering::Relaxed) + 1;
        self.appended.store(tick, Ordering::Release);
        let enough = inbox.load >= cost::WORTH_WAKING || inbox.fresh.len() >= MANY_COMMANDS;
        if enough && matches!(inbox.turn, Turn::Idle) {
            inbox.turn = Turn::Queued;
            drop(inbox);
            self.core.pool.push(Job::Commands(self.clone()));
        }
    }

    /// Has `handler` called with `outcome`, after those before it.
    pub(crate) fn call_soon(self: &Arc<Self>, handler: Handler, outcome: Result<(), Fault>) {
        if self.handlers.add(handler, outcome) {
            self.core.pool.push(Job::Handlers(self.clone()));
        }
    }

    /// Gives up the commands behind `since`, up to `until`, that are not over.
    pub(crate) fn give_up(&self, since: Tick, until: Tick) {
        let _one_at_a_time = self.inbox.lock();
        self.given_up.add(since, until, self.completed());
    }

    /// Sees to it that what was appended gets executed, whoever waits for it.
    pub(crate) fn start(self: &Arc<Self>) {
        let mut next = self.start_or_blocker();
        while let Some(recording) = next {
            next = recording.strand().start_or_blocker();
        }
    }

    fn start_or_blocker(self: &Arc<Self>) -> Option<Arc<Recording>> {
        let mut inbox = self.inbox.lock();
        match &inbox.turn {
            Turn::Idle if inbox.is_empty() => None,
            Turn::Idle => {
                inbox.turn = Turn::Queued;
                drop(inbox);
                self.core.pool.push(Job::Commands(self.clone()));
                None
            }
            Turn::Blocked { on, .. } => Some(Arc::clone(on)),
            Turn::Queued | Turn::Running => None,
        }
    }

    /// Goes on after `recording`, if that is still what it waits for.
    pub(crate) fn resume(self: &Arc<Self>, recording: &Arc<Recording>) {
        let mut inbox = self.inbox.lock();
        let helped = match &inbox.turn {
            Turn::Blocked { on, helped } if Arc::ptr_eq(on, recording) => *helped,
            _ => return,
        };
        let _recording = std::mem::replace(
            &mut inbox.turn,
            if helped { Turn::Idle } else { Turn::Queued },
        );
        drop(inbox);
        if !helped {
            self.core.pool.push(Job::Commands(self.clone()));
        }
    }

    /// Announces that `tick` is over.
    pub(crate) fn publish(&self, tick: Tick) {
        // Against `park`: either this sees what is wanted, or the one who wants it sees this.
        self.completed.store(tick, Ordering::SeqCst);
        if self.wanted.load(Ordering::SeqCst) <= tick {
            self.wake_parked(self.inbox.lock());
        }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Lets parked threads look again: what they wait for, or whose turn it is, has changed.
    fn wake_parked(&self, inbox: Guard<'_, Inbox>) {
        if self.wanted.load(Ordering::Relaxed) != NOBODY {
            self.wanted.store(NOBODY, Ordering::Relaxed);
            drop(inbox);
            self.parked.notify_all();
        }
    }
}

/// One recording of an event. Each is new, so nothing that belongs to one can reach another.
pub(crate) struct Recording {
    strand: Arc<Strand>,
    tick: Tick,
    timing: bool,
    fault: OnceLock<Fault>,
    at: OnceLock<Instant>,
    /// The strands it holds up; `None` once it has let go of them.
    blocked: Mutex<Option<Vec<Arc<Strand>>>>,
}

impl Recording {
    pub(crate) fn new(strand: Arc<Strand>, tick: Tick, timing: bool) -> Self {
        Recording {
            strand,
            tick,
            timing,
            fault: OnceLock::new(),
            at: OnceLock::new(),
            blocked: Mutex::new(ranks::RECORDING, Some(Vec::new())),
        }
    }

    /// When it came about, if it keeps the time.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.at.get().copied()
    }

    /// The strand it is a point of.
    pub(crate) fn strand(&self) -> &Arc<Strand> {
        &self.strand
    }

    /// The point.
    pub(crate) fn tick(&self) -> Tick {
        self.tick
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.strand.is_over(self.tick)
    }

    /// Notes how and when it came about, before its tick is published.
    pub(crate) fn note(&self, fault: Option<Fault>) {
        if self.timing {
            self.at.get_or_init(Instant::now);
        }
        if let Some(fault) = fault {
            self.fault.get_or_init(|| fault);
        }
    }

    /// Lets go of the strands it holds up, after its tick is published.
    pub(crate) fn release(self: &Arc<Self>) {
        let blocked = self.blocked.lock().take();
        for strand in blocked.into_iter().flatten() {
            strand.resume(self);
        }
    }

    /// Promises to resume `strand`; `false` if it is too late for that.
    pub(crate) fn hold_up(&self, strand: &Arc<Strand>) -> bool {
        match &mut *self.blocked.lock() {
            Some(blocked) => {
                blocked.push(Arc::clone(strand));
                true
            }
            None => false,
        }
    }

    pub(crate) fn outcome(&self) -> Result<()> {
        self.fault
            .get()
            .map_or(Ok(()), |fault| Err(Error::Fault(fault.clone())))
    }

    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        self.strand.reach(self.tick, deadline)?;
        self.outcome()
    }
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.fresh.is_empty()
    }

    /// The commands that come next. Lists are swapped and come back, so that none is allocated anew.
    fn take(&mut self) -> VecDeque<Command> {
        if self.taken.is_empty() {
            std::mem::swap(&mut self.taken, &mut self.fresh);
            self.load = 0;
        }
        std::mem::take(&mut self.taken)
    }

    fn shrink(&mut self) {
        if self.taken.is_empty() && self.taken.capacity() > LARGE_LIST {
            self.taken = VecDeque::new();
        }
    }
}

mod running;
#[cfg(test)]
mod tests;
