//! Running a strand: who executes its commands, how far, and who waits meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use streampool_device::lock::Guard;
use streampool_device::{Error, Result, Tick, foreign, lock};

use super::{Command, Inbox, Recording, Strand, Turn};
use crate::pool::{Job, Work};

/// How long the workers have to take what somebody with a deadline waits for.
const CHANCE: Duration = Duration::from_millis(2);

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

impl Work for Strand {
    fn run_queued(self: Arc<Self>) {
        let inbox = self.inbox.lock();
        if !matches!(inbox.turn, Turn::Queued) {
            return;
        }
        if let Ran::Blocked(recording) = self.run(inbox, None) {
            recording.strand().start();
        }
    }

    fn run_handlers(&self) {
        while let Some((handler, outcome)) = self.handlers.next() {
            lock::assert_none_held();
            // The panic hook has reported it, and what follows does not depend on it.
            let _ = foreign::call(|| handler(outcome));
        }
    }
}

impl Strand {
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
                self.core.pool.push(Job::Commands(self.clone()));
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
