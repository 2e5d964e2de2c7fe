//! Where callers leave what they ask for and go to sleep, instead of waiting for the queue's lock one behind the other: who
//! has the lock takes all of it in.

use std::hash::Hash;
use std::time::Instant;

use super::admission::{Admission, Full};
use super::{After, Engine, Job, Parts, State, Turn};
use crate::schedule::Id;
use crate::sync::{Mutex, lock};

/// Requests that were left, and are not taken in yet.
pub struct Inbox<T>(Mutex<Mail<T>>);

struct Mail<T> {
    left: Vec<T>,
    /// How often all was taken out.
    rounds: u64,
}

impl<T> Inbox<T> {
    /// Nothing is left in it.
    pub fn new() -> Self {
        Inbox(Mutex::new(Mail {
            left: Vec::new(),
            rounds: 0,
        }))
    }

    /// Leaves something. Who is the first to do so after it was emptied has to see to its being emptied again, and is told
    /// which round that will be; the others need not care.
    pub(super) fn leave(&self, one: T) -> Option<u64> {
        let mut mail = lock(&self.0);
        let is_first = mail.left.is_empty();
        if cfg!(planted) {
            drop(mail);
            mail = lock(&self.0);
        }
        mail.left.push(one);
        is_first.then_some(mail.rounds)
    }

    /// Takes out everything, and says which round it is.
    fn empty(&self) -> (Vec<T>, u64) {
        let mut mail = lock(&self.0);
        let round = mail.rounds;
        if mail.left.is_empty() {
            return (Vec::new(), round);
        }
        mail.rounds += 1;
        // Those who come now find as much room as was needed.
        #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
        let room = Vec::with_capacity(mail.left.len());
        (std::mem::replace(&mut mail.left, room), round)
    }
}

/// A request that was left.
pub struct Left<K, J> {
    pub(super) kind: K,
    pub(super) parts: Parts<J>,
    pub(super) when_full: Full,
}

/// What came in out of the inbox.
pub struct Came {
    /// Which round it was.
    round: u64,
    requests: usize,
    /// Whether none of them has a deadline.
    patient: bool,
    /// The first of them, if it is queued.
    first: Option<Id>,
}

impl<K: Hash + Eq + Clone, J: Job> Engine<K, J> {
    /// Leaves a request whose caller will sleep until it knows what became of it, be it that there is no room. Gives it a batch to
    /// run, if one can go and its request is in it: it is all that waits, goes together with all that waits, or is next.
    pub fn leave(&self, kind: K, parts: Parts<J>, when_full: Full) -> Option<Turn<'_, K, J>> {
        let left = Left {
            kind,
            parts,
            when_full,
        };
        let round = self.inbox.leave(left)?;
        let mut after = After::new();
        let mut state = lock(&self.state);
        let alone = state.schedule.requests() == 0;
        let came = self.collect(&mut state, &mut after);
        let is_among_them = came.round == round && came.requests > 0;
        let now = Instant::now();
        let is_all = alone && came.requests == 1 || came.patient && state.schedule.is_one_batch();
        // Who finds the inbox empty is the first in it.
        let leads = |id: Id| state.schedule.is_next(id, now, state.phase.is_closing());
        match is_among_them && (is_all || came.first.is_some_and(leads)) {
            true => self.take(&mut state, &mut after),
            false => self.call_if_ready(&mut state, now),
        }
        drop(state);
        after.come()
    }

    /// Takes in what was left. Who finds no room is told.
    pub(super) fn collect(&self, state: &mut State<K, J>, after: &mut After<'_, K, J>) -> Came {
        let (left, round) = self.inbox.empty();
        let mut came = Came {
            round,
            requests: left.len(),
            patient: true,
            first: None,
        };
        if left.is_empty() {
            return came;
        }
        self.shut_door(state);
        for (at, one) in left.into_iter().enumerate() {
            came.patient &= one.parts.iter().all(|part| part.deadline.is_none());
            // Its caller sleeps, and hears by its answer if it is refused.
            let added = self.add_one(state, one.kind, one.parts, one.when_full, after);
            if let (0, Ok(Admission::Queued(ids))) = (at, added) {
                came.first = ids.first().copied();
            }
        }
        self.tell_keeper(state, Instant::now());
        came
    }
}
