//! The queue as threads see it: one short lock round the schedule, lanes on which batches run, workers that run them,
//! callers that run them while they wait anyway, and a keeper of time.
//!
//! Whenever the lock is given up while a batch can go and a lane is free, somebody is on the way to take it: a worker
//! that was called, or the very thread that gave the lock up. A call is never lost, because it is counted.

mod admission;
mod closing;

use std::hash::Hash;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::figures::{Fate, Figures};
use crate::outcome::Waiter;
use crate::schedule::{Entry, Group, Id, Schedule, TenantId};
use crate::sync::{Condvar, Mutex, MutexGuard, lock, wait, wait_until};

use admission::Held;
pub use admission::{Admission, Capacity, Full, Place, Rejected};
pub use closing::Close;
use closing::Phase;

/// What is to be done for a part of a request.
pub trait Job: Send {
    /// It will not be done. Returns who waits for it.
    fn refuse(self, why: Refusal) -> Option<Waiter>;

    /// Whether what becomes of this part decides what becomes of the request: true once for each request.
    fn settles(&self) -> bool;
}

/// The parts of a request; nearly always it is one.
pub type Parts<J> = SmallVec<[Entry<J>; 1]>;

fn one<J>(part: Entry<J>) -> Parts<J> {
    std::iter::once(part).collect()
}

fn refuse<J: Job>(requests: Vec<Parts<J>>, why: Refusal) {
    let jobs = requests.into_iter().flatten().map(|part| part.job);
    wake(jobs.filter_map(|job| job.refuse(why)));
}

/// Why a request that was taken is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its deadline passed before it was its turn.
    Expired,
    /// The queue was closed, and what was queued given up.
    Closed,
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
}

/// A queue of requests of kinds `K`.
pub struct Engine<K, J> {
    state: Mutex<State<K, J>>,
    /// Workers sleep here.
    called: Condvar,
    /// The keeper of time sleeps here.
    clock: Condvar,
    /// Who waits for the queue to be closed sleeps here.
    closed: Condvar,
}

struct State<K, J> {
    schedule: Schedule<K, J>,
    capacity: Capacity,
    /// Requests for which there was no room, in order.
    held: Held<K, J>,
    phase: Phase,
    /// The lanes on which nothing runs.
    free: Vec<usize>,
    lanes: usize,
    /// Workers that sleep, and how many of these have been called.
    idle: usize,
    calls: usize,
    /// When the keeper wakes by itself; `None` while it is awake.
    keeper_sleeps: Option<Option<Instant>>,
    figures: Figures,
}

impl<K, J> State<K, J> {
    /// Whether nothing runs.
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
            state: Mutex::new(State {
                schedule,
                capacity,
                held: Held::new(),
                phase: Phase::Open,
                free: (0..lanes).rev().collect(),
                lanes,
                idle: 0,
                calls: 0,
                keeper_sleeps: None,
                figures: Figures::default(),
            }),
            called: Condvar::new(),
            clock: Condvar::new(),
            closed: Condvar::new(),
        }
    }

    /// What `look` finds.
    pub fn look<R>(&self, look: impl FnOnce(&mut Schedule<K, J>, &mut Figures, usize) -> R) -> R {
        let state = &mut *lock(&self.state);
        let running = state.lanes - state.free.len();
        look(&mut state.schedule, &mut state.figures, running)
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
        self.close_if_over(&mut state);
        drop(state);
        wake(admitted);
    }

    /// Takes a batch for the calling thread, if one can go.
    pub fn turn(&self) -> Option<Turn<J>> {
        let mut state = lock(&self.state);
        let (turn, admitted) = self.take(&mut state)?;
        drop(state);
        wake(admitted);
        Some(turn)
    }

    fn take(&self, state: &mut MutexGuard<'_, State<K, J>>) -> Option<(Turn<J>, Vec<Waiter>)> {
        let state = &mut **state;
        let lane = *state.free.last()?;
        let now = Instant::now();
        let group = state.schedule.take(now, state.phase.is_closing())?;
        state.free.pop();
        state.figures.began(&group, now);
        let admitted = self.admit_held(state);
        self.call_if_ready(state, now);
        Some((Turn { group, lane }, admitted))
    }

    /// Runs a batch on the calling thread.
    pub fn run(&self, turn: Turn<J>, run: &impl Fn(Vec<Entry<J>>, usize) -> Done) {
        self.run_and(turn, run, true);
    }

    fn run_and(
        &self,
        turn: Turn<J>,
        run: &impl Fn(Vec<Entry<J>>, usize) -> Done,
        call_for_more: bool,
    ) {
        let Turn { group, lane } = turn;
        let mut freed = Freed {
            engine: self,
            lane,
            bucket: group.bucket,
            rows: group.rows,
            call_for_more,
            done: Done::default(),
        };
        freed.done = run(group.entries, lane);
        let waiters = std::mem::take(&mut freed.done.waiters);
        drop(freed);
        wake(waiters);
    }

    /// Calls a worker, if a batch can go and nobody is on the way to it.
    fn call_if_ready(&self, state: &mut State<K, J>, now: Instant) {
        let on_the_way = state.calls;
        if state.free.len() > on_the_way
            && state.calls < state.idle
            && state.schedule.is_ready(now, state.phase.is_closing())
        {
            state.calls += 1;
            self.called.notify_one();
        }
    }

    /// What a worker does until the queue is closed.
    pub fn work(&self, run: &impl Fn(Vec<Entry<J>>, usize) -> Done) {
        let mut state = lock(&self.state);
        loop {
            if let Some((turn, admitted)) = self.take(&mut state) {
                drop(state);
                wake(admitted);
                self.run_and(turn, run, false);
                state = lock(&self.state);
                continue;
            }
            if state.phase == Phase::Closed {
                return;
            }
            state.idle += 1;
            while state.calls == 0 && state.phase != Phase::Closed {
                state = wait(&self.called, state);
            }
            state.idle -= 1;
            state.calls = state.calls.saturating_sub(1);
        }
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
                refuse(expired, Refusal::Expired);
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
        state.free.push(freed.lane);
        if let Some(took) = freed.done.took {
            state.schedule.learn(freed.bucket, freed.rows, took);
        }
        state.figures.done(&freed.done);
        if freed.call_for_more {
            self.call_if_ready(state, Instant::now());
        }
        self.close_if_over(state);
    }
}

/// Frees the lane of a batch, whatever became of that.
struct Freed<'a, K: Hash + Eq + Clone, J: Job> {
    engine: &'a Engine<K, J>,
    lane: usize,
    bucket: usize,
    rows: usize,
    /// Whether a worker has to be called for what waits, since this thread will not take it.
    call_for_more: bool,
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
