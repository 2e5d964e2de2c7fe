//! Requests for which there was no room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::parts::{Parts, Place};
use crate::outcome::{Accepted, Waiter};
use crate::schedule::Ids;

/// Requests that wait outside, in order.
pub struct Held<K, J>(pub VecDeque<Outside<K, J>>);

/// One of them.
pub struct Outside<K, J> {
    pub kind: K,
    pub parts: Parts<J>,
    pub place: Arc<Place>,
}

/// Who waits for a request to come in is told, even if it was lost on the way.
impl<K, J> Drop for Outside<K, J> {
    fn drop(&mut self) {
        if let Some(waiter) = told(&self.place, None) {
            waiter.wake();
        }
    }
}

impl<K, J> Outside<K, J> {
    /// All parts have one deadline.
    fn deadline(&self) -> Option<Instant> {
        self.parts.first().and_then(|part| part.deadline)
    }
}

impl<K, J> Held<K, J> {
    /// None.
    pub fn new() -> Self {
        Held(VecDeque::new())
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first of them is of no use any more.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(Outside::deadline).min()
    }

    /// Takes out what is of no use any more; who waits for it to come in is to be woken.
    pub fn expired(&mut self, now: Instant, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
        let is_late = |outside: &Outside<K, J>| outside.deadline().is_some_and(|at| at <= now);
        if !self.0.iter().any(is_late) {
            return Vec::new();
        }
        let (late, others) = self.0.drain(..).partition(is_late);
        self.0 = others;
        turn_away(late, waiters)
    }

    /// Takes out all; who waits for them to come in is to be woken.
    pub fn clear(&mut self, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
        turn_away(std::mem::take(&mut self.0), waiters)
    }
}

fn turn_away<K, J>(all: VecDeque<Outside<K, J>>, waiters: &mut Vec<Waiter>) -> Vec<Parts<J>> {
    let turned_away = all.into_iter().map(|mut outside| {
        waiters.extend(told(&outside.place, None));
        std::mem::take(&mut outside.parts)
    });
    turned_away.collect()
}

/// Says where a request is, or that it is nowhere. Returns who waited to be told.
pub fn told(place: &Place, where_it_is: Option<Ids>) -> Option<Waiter> {
    match place.put(where_it_is) {
        Accepted::By(waiter) => waiter,
        Accepted::Not => None,
    }
}
