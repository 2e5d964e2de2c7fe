//! A strand: the commands of one queue, and whose turn it is to execute them.
//!
//! Whoever finds a strand idle may take it and execute: a worker, or a thread that waits for it. So a
//! thread that waits for its own queue does the work itself, and no other thread is involved.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use streampool_device::lock::{Condvar, Guard, Mutex};
use streampool_device::{Error, Fault, QueueOptions, Result, Tick};

use crate::command::Command;
use crate::core::Core;
use crate::cost;
use crate::event::Recording;
use crate::given_up::GivenUp;
use crate::handlers::Handlers;
use crate::pool::Job;
use crate::ranks;

/// So many commands are worth waking a worker for, however small they are.
const MANY_COMMANDS: usize = 32;

/// A list that grew beyond this is not kept when it is empty.
const LARGE_LIST: usize = 1024;

/// Nobody waits.
const NOBODY: Tick = Tick::MAX;

/// How long the workers have to take what somebody with a deadline waits for.
const CHANCE: Duration = Duration::from_millis(2);

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

/// How far a thread that wants to run a strand should go.
#[derive(Clone, Copy)]
struct Goal {
    /// It leaves when this tick is over.
    tick: Tick,
    /// It leaves, between two commands, when this has passed.
    deadline: Option<Instant>,
}

/// What came of running a strand.
enum Ran {
    /// It came as far as wanted, or to the end.
    Through,
    /// Another thread is at it.
    Elsewhere,
    /// What comes next takes longer than there is time.
    TooLong,
    /// It needs this recording first.
    Blocked(Arc<Recording>),
}

/// The deadline has passed.
struct TimedOut;

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
            self.core.pool.push(Job::Strand(Arc::clone(self)));
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
                self.core.pool.push(Job::Strand(Arc::clone(self)));
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
            self.core.pool.push(Job::Strand(Arc::clone(self)));
        }
    }

    /// Executes what a worker was asked to execute, if nobody else did.
    pub(crate) fn run_queued(self: &Arc<Self>) {
        let inbox = self.inbox.lock();
        if !matches!(inbox.turn, Turn::Queued) {
            return;
        }
        if let Ran::Blocked(recording) = self.run(inbox, None) {
            recording.strand().start();
        }
    }

    /// Returns when `tick`, which was appended, is over.
    ///
    /// The calling thread executes the work, and the work that this work waits for. With a deadline it does not begin what
    /// takes longer: that it leaves to the workers. And it gives them the chance to take what is not over soon; if they do
    /// not, they are busy, or all inside handlers that wait for this very work.
    pub(crate) fn reach(self: &Arc<Self>, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        if self.is_over(tick) {
            return Ok(());
        }
        // There, nobody may ever do it: workers are not forked, and whoever was at it is not there.
        self.core.pool.check_process()?;
        let Some(deadline) = deadline else {
            return self
                .help(tick, None)
                .map_err(|TimedOut| Error::Timeout(Duration::ZERO));
        };
        let begun = Instant::now();
        let left = deadline.saturating_duration_since(begun);
        let is_soon = !self.core.injector.is_active() && self.load() < left.as_nanos() as u64 / 4;
        if !is_soon && !self.core.pool.is_worker() {
            self.start();
            let chance = Some(deadline.min(begun + CHANCE));
            if self
                .park(
                    Goal {
                        tick,
                        deadline: chance,
                    },
                    |_| true,
                )
                .is_ok()
            {
                return Ok(());
            }
        }
        self.help(tick, Some(deadline))
            .map_err(|TimedOut| Error::Timeout(begun.elapsed()))
    }

    fn help(self: &Arc<Self>, tick: Tick, deadline: Option<Instant>) -> Result<(), TimedOut> {
        let mut blocker: Option<Arc<Recording>> = None;
        while !self.is_over(tick) {
            let (strand, tick) = match &blocker {
                None => (self, tick),
                Some(recording) => (recording.strand(), recording.tick()),
            };
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                strand.start();
                return Err(TimedOut);
            }
            let goal = Goal { tick, deadline };
            blocker = match strand.run(strand.inbox.lock(), Some(goal)) {
                Ran::Through => None,
                Ran::Elsewhere => {
                    strand.park(goal, |turn| matches!(turn, Turn::Running))?;
                    None
                }
                Ran::TooLong => {
                    // Whoever of the workers is free takes it.
                    strand.park(goal, |_| true)?;
                    None
                }
                Ran::Blocked(recording) => Some(recording),
            };
        }
        Ok(())
    }

    /// Waits until the goal's tick is over, or as long as `patient` says so of the turn.
    fn park(&self, goal: Goal, patient: impl Fn(&Turn) -> bool) -> Result<(), TimedOut> {
        let mut inbox = self.inbox.lock();
        loop {
            self.wanted.fetch_min(goal.tick, Ordering::SeqCst);
            if self.completed.load(Ordering::SeqCst) >= goal.tick || !patient(&inbox.turn) {
                return Ok(());
            }
            inbox = match goal.deadline {
                None => self.parked.wait(inbox),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(TimedOut);
                    }
                    self.parked.wait_timeout(inbox, left)
                }
            };
        }
    }

    /// Executes commands until the goal, the end, or an event that is not complete.
    fn run<'a>(self: &'a Arc<Self>, mut inbox: Guard<'a, Inbox>, goal: Option<Goal>) -> Ran {
        match &inbox.turn {
            Turn::Running => return Ran::Elsewhere,
            Turn::Blocked { on, .. } if !on.is_complete() => return Ran::Blocked(Arc::clone(on)),
            _ => {}
        }
        let mut tick = self.completed.load(Ordering::Relaxed);
        let mut too_long = false;
        loop {
            let _recording = std::mem::replace(&mut inbox.turn, Turn::Running);
            let mut batch = inbox.take();
            drop(inbox);
            while let Some(command) = batch.pop_front() {
                let command = match command {
                    Command::Wait(on) if !on.is_complete() => {
                        batch.push_front(Command::Wait(Arc::clone(&on)));
                        let helped = goal.is_some_and(|goal| goal.deadline.is_none());
                        self.block(batch, &on, helped);
                        if on.hold_up(self) {
                            return Ran::Blocked(on);
                        }
                        // It completed meanwhile and did not know of this strand.
                        self.resume(&on);
                        return Ran::Through;
                    }
                    command if goal.is_some_and(|goal| goal.is_too_short_for(&command)) => {
                        batch.push_front(command);
                        too_long = true;
                        break;
                    }
                    command => command,
                };
                tick += 1;
                self.execute(command, tick);
                if goal.is_some_and(|goal| goal.is_met(tick)) {
                    break;
                }
            }
            inbox = self.inbox.lock();
            let left = !batch.is_empty();
            inbox.taken = batch;
            let through = match too_long {
                true => Ran::TooLong,
                false => Ran::Through,
            };
            inbox.shrink();
            if inbox.is_empty() {
                inbox.turn = Turn::Idle;
                self.wake_parked(inbox);
                return Ran::Through;
            }
            if left || goal.is_some_and(|goal| goal.is_met(tick)) || !self.core.pool.is_quiet() {
                // Others take it from here: this thread has what it wanted, or there are strands that
                // waited longer.
                inbox.turn = Turn::Queued;
                self.wake_parked(inbox);
                self.core.pool.push(Job::Strand(Arc::clone(self)));
                return through;
            }
        }
    }

    fn block(&self, batch: VecDeque<Command>, on: &Arc<Recording>, helped: bool) {
        let mut inbox = self.inbox.lock();
        inbox.taken = batch;
        inbox.turn = Turn::Blocked {
            on: Arc::clone(on),
            helped,
        };
        self.wake_parked(inbox);
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

impl Goal {
    /// Whether a command takes longer than is left, several times over: about how long it takes is all that is known.
    fn is_too_short_for(&self, command: &Command) -> bool {
        const UNSURE: u64 = 4;
        self.deadline.is_some_and(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            u128::from(command.cost() / UNSURE) > left.as_nanos()
        })
    }

    fn is_met(&self, tick: Tick) -> bool {
        tick >= self.tick
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
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

#[cfg(test)]
mod tests;
