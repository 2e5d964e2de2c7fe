//! Where callers leave what they ask for and go to sleep, instead of waiting for the queue's lock one behind the other: who
//! has the lock takes all of it in.

use super::parts::{Full, Parts};
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
    pub fn leave(&self, one: T) -> Option<u64> {
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
    pub fn empty(&self) -> (Vec<T>, u64) {
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
    pub kind: K,
    pub parts: Parts<J>,
    pub when_full: Full,
}
