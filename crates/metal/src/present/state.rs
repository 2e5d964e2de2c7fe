//! What a lane knows of its pages under its lock, and what is left to do when the lock is free again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use streampool_device::{Fault, OpKind, Tick};

use super::objects::Command;
use super::page::{Draft, Held, Page, Wait};
use super::peer::Next;
use super::signposts::Signpost;
use super::tracing::{Times, Traced};

/// With so many sealed pages, who appends waits.
pub(super) const MOST_SEALED: usize = 16;

/// With so many commands a page starts while the GPU has nothing else of its lane.
const EARLY: usize = 8;

#[derive(Default)]
pub(super) struct State {
    pub page: Page,
    pub sealed: VecDeque<Sealed>,
    pub flight: Option<Flight>,
    /// Whether it will be told when it can go on: in its turn among the buffers in flight, or when what the next page waits
    /// for is over.
    pub queued: bool,
    /// Whether the page is to go as soon as it can.
    pub wanted: bool,
    pub fault: Option<Fault>,
    /// The faults it has recovered from, each with the last tick it hit.
    pub past: Vec<(Fault, Tick)>,
    /// How many threads wait for it.
    pub waiters: usize,
    /// When the last interval ended that was sent.
    pub traced_until: Option<Instant>,
}

/// A page that nothing is added to any more but ticks without work.
pub(crate) struct Sealed {
    pub command: Command,
    pub last: Tick,
    /// A tick that it has a part of, and no more than a part, with nothing before.
    pub part_of: Option<Tick>,
    /// The first of its commands that executes, if one does.
    pub blame: Option<(Tick, OpKind)>,
    pub held: Vec<Held>,
    pub waits: Vec<Wait>,
    pub times: Option<Arc<Times>>,
    pub traced: Option<Traced>,
}

/// A buffer that is committed and not over.
pub(crate) struct Flight {
    pub sealed: Sealed,
    pub signpost: Signpost,
}

/// What is to be done when the lock of a lane is free again.
#[derive(Default)]
#[must_use]
pub(crate) struct After {
    /// A buffer that is over.
    pub released: Option<Sealed>,
    /// What buffers had that were given up, beside themselves.
    pub given_up: Vec<(Vec<Held>, Vec<Wait>)>,
    /// Whether handlers are due, and nobody is at it.
    pub due: bool,
    /// What other lanes can do now.
    pub next: Vec<Next>,
}

impl State {
    /// Whether a fault is at this tick or before it. What is before the fault is executed.
    pub fn spoils(&self, tick: Tick) -> bool {
        self.fault
            .as_ref()
            .is_some_and(|fault| tick >= fault.tick())
    }

    /// Whether nothing of it is sealed or on the GPU.
    pub fn is_quiet(&self) -> bool {
        self.sealed.is_empty() && self.flight.is_none()
    }

    /// Whether the page is to go as soon as nothing is before it.
    pub fn is_due(&mut self) -> bool {
        let early = |draft: &mut Draft| draft.commands >= EARLY;
        self.wanted || self.page.draft().is_some_and(early)
    }

    /// Whether everything appended is over.
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && matches!(self.page, Page::Idle)
    }

    /// The last tick of what was appended last and is not over, and what is kept for it.
    pub fn last(&mut self) -> Option<(&mut Tick, &mut Vec<Held>)> {
        if let Some(draft) = self.page.draft() {
            return Some((&mut draft.last, &mut draft.held));
        }
        let flight = self.flight.as_mut().map(|flight| &mut flight.sealed);
        let sealed = self.sealed.back_mut().or(flight)?;
        Some((&mut sealed.last, &mut sealed.held))
    }
}

impl Sealed {
    /// Whether the GPU has nothing to do for it, not even to say when it did.
    pub fn is_empty(&self) -> bool {
        self.blame.is_none() && self.times.is_none()
    }

    /// Where its times will be.
    pub fn times(&mut self) -> &Arc<Times> {
        self.times.get_or_insert_default()
    }
}
