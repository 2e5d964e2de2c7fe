//! What the callers, tickets and threads of a queue share.

use std::sync::{Arc, Weak};

use streampool_device::Process;

use crate::answer::Part;
use crate::builder::BatchQueueBuilder;
use crate::engine::{Done, Engine, Turn};
use crate::error::{Error, Result};
use crate::inside::{Role, calls, inside};
use crate::names::Names;
use crate::nested::{Awaited, Nested, Waiting};
use crate::padding::Waste;
use crate::request::Kind;
use crate::runner::{Function, run};
use crate::schedule::{Entry, Id, Schedule, TenantId};

/// What callers, tickets and threads share.
pub struct Shared {
    /// The queue as threads see it.
    pub engine: Engine<Kind, Part>,
    /// The owner's. A ticket may outlive the queue, but not keep what the function holds.
    pub function: Weak<Function>,
    pub settings: BatchQueueBuilder,
    pub nested: Arc<Nested>,
    pub names: Names,
    pub waste: Waste,
    /// The process whose queue it is. In a fork of it the threads are gone, and the locks are as they were.
    pub process: Process,
}

impl Shared {
    /// Refuses a fork of the process: nothing of the queue may be touched there.
    pub fn check_process(&self) -> Result<()> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }

    /// Runs a batch that was taken, on the calling thread.
    pub fn run(&self, turn: Turn<'_, Kind, Part>, function: &Function) {
        inside(self, Role::Works, || turn.run(&self.runner(function)));
    }

    /// What runs a batch on a lane.
    pub fn runner(&self, function: &Function) -> impl Fn(Vec<Entry<Part>>, usize) -> Done {
        move |entries, lane| inside(self, Role::Calls, || run(function, entries, lane))
    }

    /// Runs these requests on the calling thread, if they are all that waits, and can go. Says whether it did.
    pub fn help(&self, ids: &[Id]) -> bool {
        // Of a queue that is gone nothing waits any more.
        let Some(function) = self.function.upgrade() else {
            return false;
        };
        let turn = self.engine.turn(ids);
        let helped = turn.is_some();
        if let Some(turn) = turn {
            self.run(turn, &*function);
        }
        helped
    }

    /// The calling thread is about to wait for an answer, or for room. From within the function that is refused where all lanes are of calls
    /// that wait; else it is to be held as long as the wait lasts.
    pub fn about_to_wait(
        &self,
        call: &'static str,
        awaited: Arc<dyn Awaited>,
    ) -> Result<Option<Waiting>> {
        let calls = calls(self);
        if calls == 0 {
            return Ok(None);
        }
        let waiting = self.nested.begin(calls, self.settings.lanes(), awaited);
        waiting.map(Some).ok_or(Error::Inside {
            call,
            instead: "raise `max_in_flight`, or ask another queue",
        })
    }

    /// The tenant of this name.
    pub fn tenant(&self, name: &str) -> TenantId {
        let named = |schedule: &mut Schedule<_, _>| schedule.tenants().named(name);
        let ask = || self.engine.look(|schedule, _, _| named(schedule));
        self.names.find(name, ask)
    }

    /// How much of what came in was filled up.
    pub fn waste(&self) -> f64 {
        self.waste.part()
    }
}
