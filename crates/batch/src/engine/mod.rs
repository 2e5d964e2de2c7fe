//! The queue as threads see it: one short lock round the schedule, lanes on which batches run, workers that run them,
//! callers that run their own while nothing else waits, and a keeper of time. As long as nothing waits at all, callers come to the
//! lanes by a door, without the lock; and else they leave what they ask for to whoever has it next.
//!
//! Whenever the lock is given up while a batch can go and a lane is free, somebody is on the way to take it: a worker
//! that was called, or the very thread that gave the lock up. A call is never lost, because it is counted.

mod admission;
mod closing;
mod direct;
mod door;
mod inbox;

#[cfg(all(test, not(loom)))]
mod tests;

use std::hash::Hash;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::alarm::Alarm;
use crate::figures::{BatchFigures, Fate, Figures};
use crate::outcome::Waiter;
use crate::schedule::{Entry, Group, Id, Schedule, TenantId};
use crate::sync::{
    AtomicBool, Condvar, Mutex, MutexGuard, Ordering, lock, look_out, wait, wait_until,
};

use admission::Held;
pub use admission::{Admission, Capacity, Full, Place, Rejected};
pub use closing::Close;
use closing::Phase;
use direct::Lane;
use door::Door;
use inbox::{Inbox, Left};

/// What is to be done for a part of a request.
pub trait Job: Send {
    /// It will not be done. Returns who waits for it.
    fn refuse(self, why: Rejected) -> Option<Waiter>;

    /// Whether what becomes of this part decides what becomes of the request: true once for each request.
    fn settles(&self) -> bool;
}

/// The parts of a request; nearly always it is one.
pub type Parts<J> = SmallVec<[Entry<J>; 1]>;

fn one<J>(part: Entry<J>) -> Parts<J> {
    std::iter::once(part).collect()
}

fn refuse<J: Job>(requests: Vec<Parts<J>>, why: Rejected) {
    let jobs = requests.into_iter().flatten().map(|part| part.job);
    wake(jobs.filter_map(|job| job.refuse(why)));
}

/// What became of a batch.
#[derive(Default)]
pub struct Done {
    /// What became of each request.
    pub fates: Vec<(TenantId, Fate)>,
    /// Who waits for them.
    pub waiters: Vec<Waiter>,
    /// How long it took, if that says anything about others.
    pub took: Option<Duration>,
    /// How often it was run again, in parts.
    pub retries: u64,
}

/// A batch that its holder has to run, and the lane that is its own meanwhile.
pub struct Turn<J> {
    group: Group<J>,
    lane: usize,
    begun: Instant,
}

/// A queue of requests of kinds `K`.
pub struct Engine<K, J> {
    state: Mutex<State<K, J>>,
    inbox: Inbox<Left<K, J>>,
    capacity: Capacity,
    door: Door,
    lanes: Vec<Lane<K>>,
    /// Whether workers are called, for those that look without the lock.
    calling: AtomicBool,
    /// Workers sleep here.
    called: Condvar,
    /// The keeper of time sleeps here.
    clock: Condvar,
    /// Who waits for the queue to be closed sleeps here.
    closed: Condvar,
    /// Who is to be woken because a batch is over.
    alarm: Alarm,
}

struct State<K, J> {
    schedule: Schedule<K, J>,
    /// Requests for which there was no room, in order.
    held: Held<K, J>,
    phase: Phase,
    /// The lanes on which nothing runs; while the door is open, only those that are not to be had there.
    free: Vec<usize>,
    is_door_open: bool,
    lanes: usize,
    /// Batches that run, but for those whose callers came by the door.
    turns: usize,
    /// Workers without work, how many of these sleep, and how many have been called.
    idle: usize,
    asleep: usize,
    calls: usize,
    /// When the keeper wakes by itself; `None` while it is awake.
    keeper_sleeps: Option<Option<Instant>>,
    figures: Figures,
}

impl<K, J> State<K, J> {
    /// Whether nothing runs. Asked when the door is shut.
    fn is_idle(&self) -> bool {
        self.free.len() == self.lanes
    }

    /// This became of these parts: it counts, if that decides what becomes of their request.
    fn settle(&mut self, parts: &[Entry<J>], fate: Fate)
    where
        J: Job,
    {
        for part in parts {
            if part.job.settles() {
                self.figures.count(part.tenant, fate);
            }
        }
    }
}

impl<K: Hash + Eq + Clone, J: Job> Engine<K, J> {
    /// An open queue with so many lanes.
    pub fn new(schedule: Schedule<K, J>, lanes: usize, capacity: Capacity) -> Self {
        Engine {
            capacity,
            inbox: Inbox::new(),
            door: Door::new(),
            lanes: (0..lanes).map(|_| Lane::new()).collect(),
            state: Mutex::new(State {
                schedule,
                held: Held::new(),
                phase: Phase::Open,
                free: (0..lanes).rev().collect(),
                is_door_open: false,
                lanes,
                turns: 0,
                idle: 0,
                asleep: 0,
                calls: 0,
                keeper_sleeps: None,
                figures: Figures::default(),
            }),
            calling: AtomicBool::new(false),
            called: Condvar::new(),
            clock: Condvar::new(),
            closed: Condvar::new(),
            alarm: Alarm::new(),
        }
    }

    /// What a thread does that was woken because a batch is over: it helps to wake the others.
    pub fn was_woken(&self) {
        self.alarm.help();
    }

    /// What `look` finds.
    pub fn look<R>(&self, look: impl FnOnce(&mut Schedule<K, J>, &mut Figures, usize) -> R) -> R {
        let state = &mut *lock(&self.state);
        self.shut_door(state);
        for lane in &self.lanes {
            lane.tell(&mut state.figures);
        }
        let running = state.lanes - state.free.len();
        let seen = look(&mut state.schedule, &mut state.figures, running);
        self.open_door(state);
        seen
    }

    /// Gives up what of a request has not begun.
    pub fn cancel(&self, ids: &[Id]) {
        let mut state = lock(&self.state);
        let parts: Parts<J> = ids
            .iter()
            .filter_map(|&id| state.schedule.remove(id))
            .collect();
        if parts.is_empty() {
            return;
        }
        state.settle(&parts, Fate::Cancelled);
        let admitted = self.admit_held(&mut state);
        if !cfg!(planted) {
            self.close_if_over(&mut state);
        }
        drop(state);
        wake(admitted);
    }

    /// Takes a batch of these for the calling thread, if they are all that waits, and can go: so no caller runs what others ask
    /// for.
    pub fn turn(&self, ids: &[Id]) -> Option<Turn<J>> {
        let mut state = lock(&self.state);
        let schedule = &state.schedule;
        if schedule.requests() != ids.len() || !ids.iter().all(|&id| schedule.holds(id)) {
            return None;
        }
        let (turn, waiters) = self.take(&mut state);
        drop(state);
        wake(waiters);
        turn
    }

    /// A batch, if one can go, and whom to wake.
    fn take(&self, state: &mut State<K, J>) -> (Option<Turn<J>>, Vec<Waiter>) {
        let Some(&lane) = state.free.last() else {
            return (None, Vec::new());
        };
        let mut waiters = self.collect(state).waiters;
        let now = Instant::now();
        // What has expired never runs, even if the keeper has not come to it yet.
        let (late, admitted) = self.expire(state, now);
        waiters.extend(admitted);
        let late = late.into_iter().flatten();
        waiters.extend(late.filter_map(|part| part.job.refuse(Rejected::Expired)));
        let Some(group) = state.schedule.take(now, state.phase.is_closing()) else {
            return (None, waiters);
        };
        state.free.pop();
        state.turns += 1;
        let running = state.schedule.running(group.bucket);
        running.batches += 1;
        running.rows += group.rows;
        waiters.extend(self.admit_held(state));
        self.call_if_ready(state, now);
        let turn = Turn {
            group,
            lane,
            begun: now,
        };
        (Some(turn), waiters)
    }

    /// Runs a batch on the calling thread.
    pub fn run(&self, turn: Turn<J>, run: &impl Fn(Vec<Entry<J>>, usize) -> Done) {
        let Turn { group, lane, begun } = turn;
        let mut freed = Freed {
            engine: self,
            lane,
            bucket: group.bucket,
            batch: BatchFigures::of(&group.entries, group.reason, begun),
            done: Done::default(),
        };
        freed.done = run(group.entries, lane);
        let waiters = std::mem::take(&mut freed.done.waiters);
        drop(freed);
        self.alarm.ring(waiters);
    }

    /// Calls a worker, if a batch can go and nobody is on the way to it.
    fn call_if_ready(&self, state: &mut State<K, J>, now: Instant) {
        let on_the_way = state.calls;
        if state.free.len() > on_the_way
            && state.calls < state.idle
            && state.schedule.is_ready(now, state.phase.is_closing())
        {
            // Counted, so that a worker that does not sleep yet will not.
            state.calls += usize::from(!cfg!(planted) || state.asleep > 0);
            self.calling.store(true, Ordering::Relaxed);
            if state.calls > state.idle - state.asleep {
                self.called.notify_one();
            }
        }
    }

    /// What a worker does until the queue is closed.
    pub fn work(&self, run: &impl Fn(Vec<Entry<J>>, usize) -> Done) {
        let mut state = lock(&self.state);
        loop {
            let (turn, waiters) = self.take(&mut state);
            if turn.is_some() || !waiters.is_empty() {
                drop(state);
                wake(waiters);
                if let Some(turn) = turn {
                    self.run(turn, run);
                }
                state = lock(&self.state);
                continue;
            }
            if state.phase == Phase::Closed {
                return;
            }
            state = self.wait_for_a_call(state);
        }
    }

    /// Waits until called. After its work a worker looks out for a while before it sleeps: to wake it would cost its caller more.
    fn wait_for_a_call<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<K, J>>,
    ) -> MutexGuard<'a, State<K, J>> {
        state.idle += 1;
        if state.calls == 0 {
            drop(state);
            look_out(|| self.calling.load(Ordering::Relaxed));
            state = lock(&self.state);
        }
        while state.calls == 0 && state.phase != Phase::Closed {
            state.asleep += 1;
            state = wait(&self.called, state);
            state.asleep -= 1;
        }
        state.idle -= 1;
        state.calls = state.calls.saturating_sub(1);
        self.calling.store(state.calls > 0, Ordering::Relaxed);
        state
    }

    /// What the keeper of time does until the queue is closed: it refuses what expires at once, and has batches go that have
    /// waited long enough.
    pub fn keep_time(&self) {
        let mut state = lock(&self.state);
        while state.phase != Phase::Closed {
            let now = Instant::now();
            let (expired, admitted) = self.expire(&mut state, now);
            if !expired.is_empty() {
                drop(state);
                wake(admitted);
                refuse(expired, Rejected::Expired);
                state = lock(&self.state);
                continue;
            }
            self.call_if_ready(&mut state, now);
            let until = next_time(&mut state, now);
            state.keeper_sleeps = Some(until);
            state = wait_until(&self.clock, state, until);
            state.keeper_sleeps = None;
        }
    }

    /// Takes out what is of no use any more, and lets in what has room now. Returns the first, and whom to wake.
    fn expire(&self, state: &mut State<K, J>, now: Instant) -> (Vec<Parts<J>>, Vec<Waiter>) {
        let (mut expired, mut waiters) = state.held.expired(now);
        expired.extend(state.schedule.expired(now).into_iter().map(one));
        if !expired.is_empty() {
            for parts in &expired {
                state.settle(parts, Fate::Expired);
            }
            waiters.extend(self.admit_held(state));
            self.close_if_over(state);
        }
        (expired, waiters)
    }

    /// Wakes the keeper, if something happens before it would wake by itself.
    fn tell_keeper(&self, state: &mut State<K, J>, now: Instant) {
        let Some(sleeps) = state.keeper_sleeps else {
            return;
        };
        let next = next_time(state, now);
        if next.is_some_and(|next| sleeps.is_none_or(|sleeps| next < sleeps)) {
            state.keeper_sleeps = None;
            self.clock.notify_one();
        }
    }

    fn finish(&self, freed: &mut Freed<'_, K, J>) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.turns -= 1;
        let running = state.schedule.running(freed.bucket);
        running.batches -= 1;
        running.rows -= freed.batch.rows;
        if let Some(took) = freed.done.took {
            state.schedule.learn(freed.bucket, freed.batch.rows, took);
        }
        state.figures.done(&freed.batch, &freed.done);
        self.take_back(state, freed.lane);
    }

    /// A lane is free again.
    fn take_back(&self, state: &mut State<K, J>, lane: usize) {
        state.free.push(lane);
        // A worker, because this thread first wakes whoever waited.
        self.call_if_ready(state, Instant::now());
        self.close_if_over(state);
        self.open_door(state);
    }
}

/// Frees the lane of a batch, whatever became of that.
struct Freed<'a, K: Hash + Eq + Clone, J: Job> {
    engine: &'a Engine<K, J>,
    lane: usize,
    bucket: usize,
    batch: BatchFigures,
    done: Done,
}

impl<K: Hash + Eq + Clone, J: Job> Drop for Freed<'_, K, J> {
    fn drop(&mut self) {
        self.engine.finish(self);
    }
}

/// When the keeper has something to do.
fn next_time<K: Hash + Eq + Clone, J>(state: &mut State<K, J>, now: Instant) -> Option<Instant> {
    let held = state.held.next_deadline();
    state.schedule.next_time(now).into_iter().chain(held).min()
}

fn wake(waiters: impl IntoIterator<Item = Waiter>) {
    waiters.into_iter().for_each(Waiter::wake);
}
