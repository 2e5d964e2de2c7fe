//! The GPU: a thread for each queue, which runs its steps in an order that Metal allows and nobody expects.
//!
//! Waits and signals stand where they are in the queue's order. Between two of them, passes of one queue may change
//! places, also with those of other command buffers, as long as no hazard that Metal tracks orders them. A queue's
//! command buffers are completed in the order of their commits. Hazards between queues are in `hazards.rs`.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::committed::{Lane, Step, Work};
use super::event::Event;
use super::hazards::{Place, are_ordered};
use super::values::failure;
use crate::chance;
use crate::lock::lock;
use crate::report::{Rule, violation};
use crate::settings::{settings, wait_while};

/// How long a wait goes on before it looks whether the device is lost.
const LOOK_AROUND: Duration = Duration::from_millis(10);
/// How long a queue whose passes wait for those of other queues does so before it looks again.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

impl Lane {
    /// A lane and its thread.
    pub fn open() -> Arc<Lane> {
        let lane = Arc::new(Lane::default());
        let own = Arc::clone(&lane);
        let thread = thread::Builder::new().name("imitated GPU".to_owned());
        thread
            .spawn(move || own.run())
            .expect("a thread for a queue of the imitated GPU");
        lane
    }

    pub fn append(&self, work: impl Iterator<Item = Work>) {
        lock(&self.state).work.extend(work);
        self.changed.notify_one();
    }

    /// The thread ends once there is nothing left to do.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_one();
    }

    fn run(&self) {
        while let Some(work) = self.next() {
            idle();
            let label = work.commands.queue.label();
            wait_while(|settings| settings.paused || settings.held.as_ref() == Some(&label));
            work.run();
        }
    }

    fn next(&self) -> Option<Work> {
        let mut state = lock(&self.state);
        loop {
            let mut ready = ready(&state.work);
            while !ready.is_empty() {
                let place = ready.swap_remove(chance::below(ready.len()));
                if state.work[place].may_begin() {
                    return state.work.remove(place);
                }
            }
            if state.work.is_empty() {
                if state.closed {
                    return None;
                }
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
            } else {
                let woken = self.changed.wait_timeout(state, LOOK_AGAIN);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Which steps may come next.
fn ready(work: &VecDeque<Work>) -> Vec<usize> {
    let stands = |work: &Work| matches!(work.step, Step::Wait(..) | Step::Signal(..));
    let window = work.iter().position(stands).unwrap_or(work.len());
    if window == 0 && !work.is_empty() {
        return vec![0];
    }
    (0..window)
        .filter(|&place| {
            work.range(..place)
                .all(|before| may_overtake(&work[place], before))
        })
        .collect()
}

fn may_overtake(later: &Work, before: &Work) -> bool {
    match (&later.step, &before.step) {
        (Step::Pass(later), Step::Pass(before)) => !are_ordered(&later.accesses, &before.accesses),
        (Step::End(_), Step::End(_)) => false,
        (Step::End(_), _) => !Arc::ptr_eq(&later.commands, &before.commands),
        _ => true,
    }
}

impl Work {
    /// Whether no pass of another queue has to be over first.
    fn may_begin(&self) -> bool {
        match &self.step {
            Step::Pass(pass) => pass.place.as_ref().is_none_or(Place::begin),
            _ => true,
        }
    }

    fn run(self) {
        let Work {
            commands,
            place,
            step,
        } = self;
        let goes_on = commands.begin_step(place);
        match step {
            Step::End(id) => commands.complete(id),
            _ if !goes_on => {}
            Step::Wait(event, value) => {
                if let Err(code) = wait(&event, value) {
                    commands.fail(code);
                }
            }
            Step::Signal(event, value) => event.signal(value, &commands.name()),
            Step::Pass(pass) => {
                if let Err(why) = pass.run() {
                    violation(Rule::Kernel, format!("{}: {why}", commands.name()));
                    commands.fail(failure::PAGE_FAULT);
                }
            }
        }
    }
}

/// Waits for an event, unless the device is lost or the wait takes longer than Metal lets it: "timed out waiting for
/// another workload to signal an MTLEvent".
fn wait(event: &Event, value: u64) -> Result<(), isize> {
    let begun = Instant::now();
    while !event.wait(value, LOOK_AROUND) {
        let settings = settings();
        if settings.lost {
            return Err(failure::DEVICE_REMOVED);
        }
        if begun.elapsed() > settings.event_limit {
            return Err(failure::TIMEOUT);
        }
    }
    Ok(())
}

/// Does nothing for a while, now and then.
pub(super) fn idle() {
    let longest = settings().longest_delay;
    if !longest.is_zero() && chance::one_in(2) {
        thread::sleep(longest.mul_f64(chance::below(1000) as f64 / 1000.0));
    } else if chance::one_in(4) {
        thread::yield_now();
    }
}
