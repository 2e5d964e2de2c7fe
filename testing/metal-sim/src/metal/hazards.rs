//! Hazards, which Metal tracks over the whole device: of two passes that touch the same tracked buffer, and of which one
//! writes it, one waits for the other, on whichever queues they are. Which one is left open between queues, and a
//! pass counts from its commit on, though what stands before it on its own queue may still have to wait for an event.

use std::sync::{Arc, Mutex};

use crate::chance;
use crate::lock::lock;

/// That a buffer is read or written, where Metal orders that.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub number: u64,
    pub writes: bool,
}

/// Whether Metal runs one pass with such accesses after the other.
pub(super) fn are_ordered(these: &[Access], those: &[Access]) -> bool {
    let meets =
        |one: &Access, other: &Access| one.number == other.number && (one.writes || other.writes);
    these
        .iter()
        .any(|one| those.iter().any(|other| meets(one, other)))
}

/// The passes of all queues that are committed and not over, in the order in which they run where hazards order them.
#[derive(Default)]
pub(super) struct Hazards(Mutex<Order>);

#[derive(Default)]
struct Order {
    numbers: u64,
    entries: Vec<Entry>,
}

struct Entry {
    number: u64,
    /// Which queue it is of: there, hazards are seen to by the queue itself.
    queue: usize,
    accesses: Vec<Access>,
    begun: bool,
}

/// The place of a pass, until it is over.
pub(super) struct Place {
    hazards: Arc<Hazards>,
    number: u64,
}

impl Hazards {
    /// A pass is committed. Others that have not begun, of other queues, may be taken to come after it.
    pub fn enter(self: &Arc<Self>, queue: usize, accesses: &[Access]) -> Place {
        let mut order = lock(&self.0);
        order.numbers += 1;
        let number = order.numbers;
        let fixed = |entry: &Entry| entry.begun || entry.queue == queue;
        let first = order.entries.iter().rposition(fixed).map_or(0, |at| at + 1);
        let at = first + chance::below(order.entries.len() - first + 1);
        let entry = Entry {
            number,
            queue,
            accesses: accesses.to_vec(),
            begun: false,
        };
        order.entries.insert(at, entry);
        Place {
            hazards: Arc::clone(self),
            number,
        }
    }
}

impl Place {
    /// Begins the pass, if nothing that it has to wait for is before it.
    pub fn begin(&self) -> bool {
        let mut order = lock(&self.hazards.0);
        let own = |entry: &Entry| entry.number == self.number;
        let Some(at) = order.entries.iter().position(own) else {
            return true;
        };
        let (before, after) = order.entries.split_at_mut(at);
        let own = &mut after[0];
        own.begun = before
            .iter()
            .all(|other| other.queue == own.queue || !are_ordered(&other.accesses, &own.accesses));
        own.begun
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let entries = &mut lock(&self.hazards.0).entries;
        entries.retain(|entry| entry.number != self.number);
    }
}
