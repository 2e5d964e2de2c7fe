//! Which encoder stands for which object, by its address, in shards so that threads with encoders of their own do not meet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::encoder::Encoder;
use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

/// Of the encoders that are gone, each shard remembers so many: who just missed its destruction is told so.
const REMEMBERED: usize = if cfg!(loom) { 1 } else { 64 };

const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };

#[derive(Default)]
struct Shard {
    known: HashMap<usize, Arc<Encoder>>,
    /// Those that are gone, the oldest first.
    gone: VecDeque<(usize, Arc<Encoder>)>,
}

/// All encoders of a process.
pub struct Registry {
    shards: Vec<Mutex<Shard>>,
    /// Whether an encoder was ever met in a call before anything said that it was created. Then others may come so, too, at
    /// the address of one that is gone, and an address proves nothing.
    unannounced: AtomicBool,
}

/// How an encoder was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It was known.
    Known,
    /// It was created where nobody saw it.
    Unannounced,
}

impl Registry {
    /// None yet.
    pub fn new() -> Self {
        Registry {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            unannounced: AtomicBool::new(false),
        }
    }

    fn shard(&self, object: usize) -> MutexGuard<'_, Shard> {
        // Objects lie 16 bytes apart at least, mostly far more: the upper bits of a product depend on all of the address.
        let mixed = (object as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        lock(&self.shards[mixed as usize % SHARDS])
    }

    /// An object was created, or is about to be initialised. True if it is a new one.
    pub fn created(&self, object: usize) -> bool {
        self.enter_unless(object, Encoder::renew)
    }

    /// An object was returned by what may return one that was in use before. True if it is a new one.
    pub fn shown(&self, object: usize) -> bool {
        self.enter_unless(object, Encoder::is_there)
    }

    /// Enters an object as a new one, unless its address is that of an encoder for which this holds.
    fn enter_unless(&self, object: usize, is_known: impl FnOnce(&Encoder) -> bool) -> bool {
        let mut shard = self.shard(object);
        let new = !shard
            .known
            .get(&object)
            .is_some_and(|encoder| is_known(encoder));
        if new {
            shard.known.insert(object, Arc::new(Encoder::new()));
        }
        new
    }

    /// The encoder of an object on which somebody makes a call.
    pub fn find(&self, object: usize) -> (Arc<Encoder>, Found) {
        let mut shard = self.shard(object);
        if let Some(encoder) = shard.known.get(&object)
            && !(self.unannounced.load(Ordering::Relaxed) && encoder.is_gone())
        {
            return (encoder.clone(), Found::Known);
        }
        if cfg!(planted) {
            drop(shard);
            shard = self.shard(object);
        }
        self.unannounced.store(true, Ordering::Relaxed);
        let encoder = Arc::new(Encoder::new());
        shard.known.insert(object, encoder.clone());
        (encoder, Found::Unannounced)
    }

    /// An encoder was destroyed. Another may be at its address already.
    pub fn gone(&self, object: usize, encoder: Arc<Encoder>) {
        encoder.destroyed();
        let mut shard = self.shard(object);
        let Shard { known, gone } = &mut *shard;
        gone.push_back((object, encoder));
        if gone.len() > REMEMBERED
            && let Some((oldest, encoder)) = gone.pop_front()
            && known
                .get(&oldest)
                .is_some_and(|now| Arc::ptr_eq(now, &encoder))
        {
            known.remove(&oldest);
        }
    }
}
