//! What the engine consists of, and what its lock guards.

use std::time::Instant;

use super::door::Door;
use super::held::Held;
use super::inbox::{Inbox, Left};
use super::lane::Lane;
use super::parts::{Capacity, Job};
use crate::alarm::Alarm;
use crate::figures::{Fate, Figures};
use crate::schedule::{Entry, Schedule};
use crate::sync::{AtomicBool, Condvar, Mutex};

/// A queue of requests of kinds `K`.
pub struct Engine<K, J> {
    pub state: Mutex<State<K, J>>,
    pub inbox: Inbox<Left<K, J>>,
    pub capacity: Capacity,
    pub door: Door,
    pub lanes: Vec<Lane<K>>,
    /// Whether workers are called, for those that look without the lock.
    pub calling: AtomicBool,
    /// Workers sleep here.
    pub called: Condvar,
    /// The keeper of time sleeps here.
    pub clock: Condvar,
    /// Who waits for the queue to be closed sleeps here.
    pub closed: Condvar,
    /// Who is to be woken because a batch is over.
    pub alarm: Alarm,
}

/// What the lock guards.
pub struct State<K, J> {
    pub schedule: Schedule<K, J>,
    /// Requests for which there was no room, in order.
    pub held: Held<K, J>,
    pub phase: Phase,
    /// The lanes on which nothing runs; while the door is open, only those that are not to be had there.
    pub free: Vec<usize>,
    pub is_door_open: bool,
    pub lanes: usize,
    /// Batches that run, but for those whose callers came by the door.
    pub turns: usize,
    /// Workers without work, how many of these sleep, and how many have been called.
    pub idle: usize,
    pub asleep: usize,
    pub calls: usize,
    /// When the keeper wakes by itself; `None` while it is awake.
    pub keeper_sleeps: Option<Option<Instant>>,
    pub figures: Figures,
}

impl<K, J> State<K, J> {
    /// Whether nothing runs. Asked when the door is shut.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.lanes
    }

    /// This became of these parts: it counts, if that decides what becomes of their request.
    pub fn settle(&mut self, parts: &[Entry<J>], fate: Fate)
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

/// How far a queue is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Requests are taken.
    Open,
    /// Nothing comes in, and something is left.
    Closing,
    /// Nothing is left.
    Closed,
}

impl Phase {
    /// Whether nothing comes in any more.
    pub fn is_closing(self) -> bool {
        self != Phase::Open
    }
}
