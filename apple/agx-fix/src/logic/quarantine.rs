//! Encoders that are ended and given up live a little longer. A thread that still has one's address, and makes a call on it, is refused;
//! had the encoder been destroyed, the call would have read its class from memory that is another's by now.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guarded::{Destructor, Guarded};
use super::sync::{Mutex, lock};

/// No more are kept than these, the latest.
pub const MOST: usize = 64;

/// None is kept longer, once something happens after that time.
pub const LONGEST: Duration = Duration::from_secs(2);

/// An encoder that is kept.
#[derive(Debug)]
pub struct Kept {
    /// Since when.
    pub since: Instant,
    /// What is known of it.
    pub encoder: Arc<Guarded>,
    /// How it is destroyed.
    pub destructor: Destructor,
}

impl Kept {
    /// Whether it is of a command buffer of this queue that is not committed. Should nobody commit it, the encoder may be all that keeps
    /// it alive, and it holds one of the few places that a queue has.
    fn takes_place_of(&self, queue: usize) -> bool {
        let commands = self.encoder.commands();
        commands.is_some_and(|commands| commands.queue() == queue && !commands.is_ended())
    }
}

/// All that are kept, the oldest first.
#[derive(Default)]
pub struct Quarantine(Mutex<VecDeque<Kept>>);

impl Quarantine {
    /// Keeps another.
    pub fn keep(&self, kept: Kept) {
        lock(&self.0).push_back(kept);
    }

    /// Takes out those that need not be kept any longer; with a queue, also those that may be in the way of its next command buffer. Who
    /// calls this destroys them.
    pub fn over(&self, now: Instant, queue: Option<usize>) -> Vec<Kept> {
        let mut kept = lock(&self.0);
        let surplus = kept.len().saturating_sub(MOST);
        let is_old = |kept: &Kept| now.saturating_duration_since(kept.since) >= LONGEST;
        let old = kept.iter().take_while(|kept| is_old(kept)).count();
        let mut over: Vec<Kept> = kept.drain(..surplus.max(old)).collect();
        if let Some(queue) = queue {
            let (in_the_way, rest) = kept
                .drain(..)
                .partition::<VecDeque<_>, _>(|kept| kept.takes_place_of(queue));
            *kept = rest;
            over.extend(in_the_way);
        }
        over
    }
}
