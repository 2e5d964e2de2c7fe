//! What is known of the order of commands, and what they touched.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use streampool_device::Tick;

use crate::access::{Touch, Use};
use crate::clock::Clock;

/// The order of all commands of a device.
#[derive(Debug, Default)]
pub(crate) struct Order {
    state: Mutex<State>,
    commands: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<Lane>,
    /// What the host was told is over: it comes before all that is appended from now on.
    known: Clock,
    /// The uses of each allocation that later ones may conflict with.
    uses: HashMap<u64, Vec<Use>>,
    /// Handles of memory that was freed.
    freed: HashSet<u64>,
}

#[derive(Debug, Default)]
struct Lane {
    /// What comes before the next command.
    clock: Clock,
    /// Its waits: from this tick on it is ordered after all that.
    waits: Vec<(Tick, Clock)>,
}

/// A queue, as its commands are named.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub queue: usize,
    pub label: Arc<str>,
}

impl Order {
    /// A race was found with the state locked: what was found does not change by it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    pub fn add_queue(&self, label: String) -> Name {
        let mut state = self.state();
        state.queues.push(Lane::default());
        Name {
            queue: state.queues.len() - 1,
            label: label.into(),
        }
    }

    pub fn allocated(&self, handle: u64) {
        self.state().freed.remove(&handle);
    }

    pub fn freed(&self, handle: u64) {
        let mut state = self.state();
        let uses = state.uses.remove(&handle).unwrap_or_default();
        state.freed.insert(handle);
        let under_way = uses
            .iter()
            .find(|earlier| !state.known.covers(earlier.queue, earlier.tick));
        if let Some(earlier) = under_way {
            panic!(
                "race: memory {handle:#x} is freed, and nobody was told that this is over:\n  {earlier}"
            );
        }
    }

    /// Others may have memory at this address from now on, also such as is lent to the device, of which it is not told.
    pub fn given_back(&self, handle: u64) {
        self.state().freed.remove(&handle);
    }

    /// A command was appended.
    pub fn appended(&self, name: &Name, tick: Tick, touched: Vec<Touch>) -> Result<(), String> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let State {
            queues,
            known,
            uses,
            freed,
        } = &mut *state;
        let clock = &mut queues[name.queue].clock;
        clock.advance(name.queue, tick);
        for touch in touched {
            let handle = touch.span.handle;
            let new = Use {
                touch,
                queue: name.queue,
                label: name.label.clone(),
                tick,
            };
            if freed.contains(&handle) {
                return Err(format!("memory is used that was freed:\n  {new}"));
            }
            let uses = uses.entry(handle).or_default();
            let comes_before = |earlier: &Use| clock.covers(earlier.queue, earlier.tick);
            uses.retain(|earlier| !known.covers(earlier.queue, earlier.tick));
            let raced = uses
                .iter()
                .find(|earlier| earlier.touch.conflicts(&new.touch) && !comes_before(earlier));
            if let Some(earlier) = raced {
                return Err(format!("nothing orders\n  {earlier}\nand\n  {new}"));
            }
            // Who is ordered after this one is ordered after what this one stands for.
            uses.retain(|earlier| !(comes_before(earlier) && new.touch.stands_for(&earlier.touch)));
            uses.push(new);
        }
        Ok(())
    }

    /// What comes before whatever waits for a recording that `name` made at `tick`.
    pub fn recorded(&self, name: &Name, tick: Tick) -> Clock {
        let clock = &mut self.state().queues[name.queue].clock;
        clock.advance(name.queue, tick);
        clock.clone()
    }

    /// `name` waits from `tick` on for all that.
    pub fn waits(&self, name: &Name, tick: Tick, recording: &Clock) {
        let mut state = self.state();
        let over = state.known.of(name.queue);
        let lane = &mut state.queues[name.queue];
        lane.clock.merge(recording);
        lane.clock.advance(name.queue, tick);
        lane.waits.retain(|(tick, _)| *tick > over);
        lane.waits.push((tick, recording.clone()));
    }

    /// The host was told that `queue` is over up to `tick`: then so is what it waited for.
    pub fn over(&self, queue: usize, tick: Tick) {
        let mut state = self.state();
        let State { queues, known, .. } = &mut *state;
        if known.covers(queue, tick) {
            return;
        }
        known.advance(queue, tick);
        for (_, clock) in queues[queue].waits.iter().filter(|(at, _)| *at <= tick) {
            known.merge(clock);
        }
    }

    /// The host was told that all that is over.
    pub fn all_over(&self, clock: &Clock) {
        self.state().known.merge(clock);
    }
}
