//! The queue as threads see it: one short lock round the schedule, lanes on which batches run, workers that run them,
//! callers that run their own while nothing else waits, and a keeper of time. As long as nothing waits at all, callers come to the
//! lanes by a door, without the lock; and else they leave what they ask for to whoever has it next.
//!
//! Whenever the lock is given up while a batch can go and a lane is free, somebody is on the way to take it: a worker
//! that was called, or the very thread that gave the lock up. A call is never lost, because it is counted.

mod admission;
mod after;
mod closing;
mod door;
mod entering;
mod held;
mod inbox;
mod lane;
mod parts;
mod state;
mod turn;

#[cfg(all(test, not(loom)))]
mod tests;

use std::hash::Hash;
use std::time::Instant;

use crate::alarm::Alarm;
use crate::figures::{Fate, Figures};
use crate::schedule::{Entry, Id, Schedule};
use crate::sync::{
    AtomicBool, Condvar, Mutex, MutexGuard, Ordering, lock, look_out, wait, wait_until,
};

use after::After;
use door::Door;
use held::Held;
use inbox::Inbox;
use lane::Lane;
use parts::one;
use state::{Phase, State};

pub use crate::figures::Done;
pub use closing::Shutdown;
pub use parts::{Admission, Capacity, Full, Job, Parts, Place, Rejected};
pub use state::Engine;
pub use turn::Turn;

impl<K: Hash + Eq + Clone, J: Job> Engine<K, J> {
    /// An open queue with so many lanes.
    pub fn new(mut schedule: Schedule<K, J>, lanes: usize, capacity: Capacity) -> Self {
        schedule.on_lanes(lanes);
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
        let mut after = After::new();
        let mut state = lock(&self.state);
        let parts: Parts<J> = ids
            .iter()
            .filter_map(|&id| state.schedule.remove(id))
            .collect();
        if parts.is_empty() {
            return;
        }
        state.settle(&parts, Fate::Cancelled);
        after.given_up.push(parts);
        self.admit_held(&mut state, &mut after);
        if !cfg!(planted) {
            self.close_if_over(&mut state);
        }
    }

    /// Takes a batch of these for the calling thread, if they are all that waits, and can go: so no caller runs what others ask
    /// for.
    pub fn turn(&self, ids: &[Id]) -> Option<Turn<'_, K, J>> {
        let mut after = After::new();
        let mut state = lock(&self.state);
        self.collect(&mut state, &mut after);
        let schedule = &state.schedule;
        if schedule.requests() != ids.len() || !ids.iter().all(|&id| schedule.holds(id)) {
            return None;
        }
        self.take(&mut state, &mut after);
        drop(state);
        after.come()
    }

    /// Takes a batch, if one can go.
    fn take<'a>(&'a self, state: &mut State<K, J>, after: &mut After<'a, K, J>) {
        if state.free.is_empty() {
            return;
        }
        self.collect(state, after);
        let now = Instant::now();
        // What has expired never runs, even if the keeper has not come to it yet.
        self.expire(state, now, after);
        let Some(group) = state.schedule.take(now, state.phase.is_closing()) else {
            // What goes first now may have to wait until a time of which nobody was told.
            return self.tell_keeper(state, now);
        };
        let Some(lane) = state.free.pop() else {
            return;
        };
        state.turns += 1;
        after.turn = Some(Turn::new(self, group, lane, now));
        self.admit_held(state, after);
        self.call_if_ready(state, now);
        if state.schedule.requests() == 0 {
            // Who was called for this batch need not come.
            state.calls = 0;
            self.calling.store(false, Ordering::Relaxed);
        }
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
        let mut after = After::new();
        let mut state = lock(&self.state);
        loop {
            self.take(&mut state, &mut after);
            if !after.is_empty() {
                drop(state);
                if let Some(turn) = after.come() {
                    turn.run(run);
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

    /// Waits until called. After its work a worker looks out for a while before it sleeps: to wake it would cost its caller more, and
    /// a batch that keeps its distance is often due soon.
    fn wait_for_a_call<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<K, J>>,
    ) -> MutexGuard<'a, State<K, J>> {
        state.idle += 1;
        let mut is_looking_out = true;
        while state.calls == 0 && state.phase != Phase::Closed {
            if is_looking_out {
                let paced = state.schedule.paced_until(Instant::now());
                drop(state);
                // Who called may have run the batch itself by now: then it looks out again.
                is_looking_out = look_out(|| {
                    let is_due = paced.is_some_and(|at| Instant::now() >= at);
                    is_due || self.calling.load(Ordering::Relaxed)
                });
                state = lock(&self.state);
                if paced.is_some() {
                    self.call_if_ready(&mut state, Instant::now());
                }
            } else {
                state.asleep += 1;
                state = wait(&self.called, state);
                state.asleep -= 1;
            }
        }
        state.idle -= 1;
        state.calls = state.calls.saturating_sub(1);
        self.calling.store(state.calls > 0, Ordering::Relaxed);
        state
    }

    /// What the keeper of time does until the queue is closed: it refuses what expires at once, and has batches go that have
    /// waited long enough.
    pub fn keep_time(&self) {
        let mut after = After::new();
        let mut state = lock(&self.state);
        while state.phase != Phase::Closed {
            let now = Instant::now();
            self.expire(&mut state, now, &mut after);
            if !after.is_empty() {
                drop(state);
                after.come();
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

    /// Takes out what is of no use any more, and lets in what has room now.
    fn expire(&self, state: &mut State<K, J>, now: Instant, after: &mut After<'_, K, J>) {
        let mut expired = state.held.expired(now, &mut after.waiters);
        expired.extend(state.schedule.expired(now).into_iter().map(one));
        if expired.is_empty() {
            return;
        }
        for parts in expired {
            state.settle(&parts, Fate::Expired);
            after.refused.push((parts, Rejected::Expired));
        }
        self.admit_held(state, after);
        self.close_if_over(state);
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

    /// A lane is free again.
    fn take_back(&self, state: &mut State<K, J>, lane: usize) {
        state.free.push(lane);
        let now = Instant::now();
        // A worker, because this thread first wakes whoever waited.
        self.call_if_ready(state, now);
        if state.schedule.paced_until(now).is_some() {
            self.tell_keeper(state, now);
        }
        self.close_if_over(state);
        self.open_door(state);
    }
}

/// When the keeper has something to do.
fn next_time<K: Hash + Eq + Clone, J>(state: &mut State<K, J>, now: Instant) -> Option<Instant> {
    let schedule = &state.schedule;
    let paced = match state.free.is_empty() {
        true => None,
        false => schedule.paced_until(now),
    };
    let held = state.held.next_deadline();
    let times = schedule.next_time(now).into_iter().chain(paced);
    times.chain(held).min()
}
