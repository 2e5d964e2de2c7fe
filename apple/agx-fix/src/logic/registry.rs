//! What is known of which object, by its address, in shards so that threads with objects of their own do not meet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::guarded::{Guarded, What};
use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

/// Of the objects that are gone, each shard remembers so many: who just missed its destruction is told so.
const REMEMBERED: usize = if cfg!(loom) { 1 } else { 64 };

const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };

#[derive(Default)]
struct Shard {
    known: HashMap<usize, Arc<Guarded>>,
    /// Those that are gone, the oldest first.
    gone: VecDeque<Arc<Guarded>>,
}

/// All encoders and command buffers of a process.
pub struct Registry {
    shards: Vec<Mutex<Shard>>,
    /// Whether an object was ever met in a call before anything said that it was created. Then others may come so, too, at
    /// the address of one that is gone, and an address proves nothing.
    unannounced: AtomicBool,
}

/// How an object was found.
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
    pub fn created(&self, what: What, object: usize) -> (Arc<Guarded>, bool) {
        self.enter_unless(what, object, Guarded::renew)
    }

    /// An object was returned by what may return one that was in use before. True if it is a new one.
    pub fn shown(&self, what: What, object: usize) -> (Arc<Guarded>, bool) {
        self.enter_unless(what, object, Guarded::is_there)
    }

    /// Enters an object as a new one, unless its address is that of one of its kind for which this holds.
    fn enter_unless(
        &self,
        what: What,
        object: usize,
        is_known: impl FnOnce(&Guarded) -> bool,
    ) -> (Arc<Guarded>, bool) {
        let mut shard = self.shard(object);
        if let Some(known) = shard.known.get(&object)
            && known.what == what
            && is_known(known)
        {
            return (known.clone(), false);
        }
        let new = Arc::new(Guarded::new(what, object));
        shard.known.insert(object, new.clone());
        (new, true)
    }

    /// What is known of an object on which somebody makes a call.
    pub fn find(&self, what: What, object: usize) -> (Arc<Guarded>, Found) {
        let mut shard = self.shard(object);
        if let Some(known) = shard.known.get(&object)
            && known.what == what
            && !(self.unannounced.load(Ordering::Relaxed) && known.is_gone())
        {
            return (known.clone(), Found::Known);
        }
        if cfg!(planted) {
            drop(shard);
            shard = self.shard(object);
        }
        self.unannounced.store(true, Ordering::Relaxed);
        let new = Arc::new(Guarded::new(what, object));
        shard.known.insert(object, new.clone());
        (new, Found::Unannounced)
    }

    /// An object was destroyed. Another may be at its address already.
    pub fn gone(&self, it: Arc<Guarded>) {
        it.destroyed();
        let mut shard = self.shard(it.object);
        let Shard { known, gone } = &mut *shard;
        gone.push_back(it);
        if gone.len() > REMEMBERED
            && let Some(oldest) = gone.pop_front()
            && known
                .get(&oldest.object)
                .is_some_and(|now| Arc::ptr_eq(now, &oldest))
        {
            known.remove(&oldest.object);
        }
    }
}
