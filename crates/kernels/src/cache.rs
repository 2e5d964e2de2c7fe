//! The kernel cache: compiles each key once, and never holds a lock while it does.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use streampool_device::CacheReport;

use crate::disk::DiskStore;
use crate::entry::Stored;
use crate::flight::{Flight, Outcome};
use crate::hash::KeyHasher;
use crate::shard::{Found, Shard};

const SHARDS: usize = 16;

/// Compiled kernels by key, shared by all threads.
///
/// - Each key is compiled once however many threads ask at the same time; the others wait for that compile
///   and for nothing else. No lock is held while compiling.
/// - A failed compile is returned to all who waited and is not remembered: the next call tries again.
/// - A panic in a compile goes to the thread that compiled; who waited tries again itself.
/// - A hit takes a shared lock and allocates nothing.
/// - It is bounded: beyond its capacity, entries not used lately make room. Values in use live on.
///
/// A compile may ask the cache for other keys, but not for its own, which it would wait for for ever.
pub struct Cache<K, V, E = String> {
    name: String,
    seed: u64,
    shards: [Shard<K, V, E>; SHARDS],
    compiled: AtomicU64,
    loaded: AtomicU64,
}

/// Where on disk a key's kernel is kept, and under which bytes.
pub struct DiskKey<'a, F> {
    /// The store.
    pub store: &'a DiskStore,
    /// The whole key as bytes; called only if the key is not in memory.
    pub bytes: F,
}

/// What is done about a kernel that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is compiled, which takes long.
    Compile,
    /// It is told, as [`NotReady::Missing`].
    Tell,
}

/// Why something is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady<E> {
    /// It needs a kernel that is not there, and was not to be compiled.
    Missing,
    /// It failed.
    Failed(E),
}

impl<E> From<E> for NotReady<E> {
    fn from(error: E) -> Self {
        NotReady::Failed(error)
    }
}

impl<K: Hash + Eq, V, E: Clone> Cache<K, V, E> {
    /// A cache that calls itself `name` in reports and holds about `capacity` entries.
    pub fn new(name: impl Into<String>, capacity: usize) -> Self {
        Cache {
            name: name.into(),
            seed: KeyHasher::random_seed(),
            shards: std::array::from_fn(|_| Shard::new(capacity.div_ceil(SHARDS).max(1))),
            compiled: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
        }
    }

    /// The kernel of `key`; `missing` says what to do if it is not there.
    #[inline]
    pub fn find<Q>(
        &self,
        key: &Q,
        missing: Missing,
        compile: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, NotReady<E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match missing {
            Missing::Compile => Ok(self.get_or_compile(key, compile)?),
            Missing::Tell => {
                let (shard, hash) = self.place(key);
                shard.get(hash, key).ok_or(NotReady::Missing)
            }
        }
    }

    #[inline]
    fn place<Q: Hash + ?Sized>(&self, key: &Q) -> (&Shard<K, V, E>, u64) {
        let mut hasher = KeyHasher::with_seed(self.seed);
        key.hash(&mut hasher);
        let hash = hasher.finish();
        (&self.shards[(hash >> 60) as usize % SHARDS], hash)
    }

    /// The kernel of `key`, compiled now if it is not there.
    pub fn get_or_compile<Q>(
        &self,
        key: &Q,
        compile: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_make(key, || {
            let value = compile()?;
            self.compiled.fetch_add(1, Ordering::Relaxed);
            Ok(value)
        })
    }

    /// As [`get_or_compile`](Self::get_or_compile), but looks on disk before it compiles, and keeps there
    /// what it compiled.
    pub fn get_or_load<Q, F>(
        &self,
        key: &Q,
        disk: Option<DiskKey<'_, F>>,
        compile: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Stored,
        F: FnOnce() -> Vec<u8>,
    {
        let Some(disk) = disk else {
            return self.get_or_compile(key, compile);
        };
        self.get_or_make(key, || {
            let bytes = (disk.bytes)();
            if let Some(value) = disk.store.load(&bytes) {
                self.loaded.fetch_add(1, Ordering::Relaxed);
                return Ok(value);
            }
            let value = compile()?;
            self.compiled.fetch_add(1, Ordering::Relaxed);
            disk.store.save(&bytes, &value);
            Ok(value)
        })
    }

    fn get_or_make<Q>(&self, key: &Q, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let (shard, hash) = self.place(key);
        if let Some(value) = shard.get(hash, key) {
            return Ok(value);
        }
        loop {
            match shard.join(hash, key) {
                Found::Ready(value) => return Ok(value),
                Found::InFlight(flight) => match flight.wait() {
                    Outcome::Done(value) => return Ok(value),
                    Outcome::Failed(error) => return Err(error),
                    Outcome::Abandoned => {}
                },
                Found::Lead(flight) => {
                    let lead = Lead {
                        shard,
                        hash,
                        key,
                        flight,
                        outcome: Outcome::Abandoned,
                    };
                    return lead.end(make());
                }
            }
        }
    }

    /// What it holds and how it did.
    pub fn report(&self) -> CacheReport {
        CacheReport {
            name: self.name.clone(),
            entries: self.shards.iter().map(Shard::entries).sum(),
            hits: self.shards.iter().map(Shard::hits).sum(),
            compiled: self.compiled.load(Ordering::Relaxed),
            loaded: self.loaded.load(Ordering::Relaxed),
            problem: None,
        }
    }
}

impl<K, V, E> std::fmt::Debug for Cache<K, V, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The duty to end a flight, kept even if the compile panics.
struct Lead<'a, K, V, E, Q>
where
    K: Borrow<Q> + Eq,
    Q: Eq + ?Sized,
    E: Clone,
{
    shard: &'a Shard<K, V, E>,
    hash: u64,
    key: &'a Q,
    flight: Arc<Flight<V, E>>,
    outcome: Outcome<V, E>,
}

impl<K, V, E, Q> Lead<'_, K, V, E, Q>
where
    K: Borrow<Q> + Eq,
    Q: Eq + ?Sized,
    E: Clone,
{
    fn end(mut self, result: Result<V, E>) -> Result<Arc<V>, E> {
        let result = result.map(Arc::new);
        self.outcome = match &result {
            Ok(value) => Outcome::Done(value.clone()),
            Err(error) => Outcome::Failed(error.clone()),
        };
        result
    }
}

impl<K, V, E, Q> Drop for Lead<'_, K, V, E, Q>
where
    K: Borrow<Q> + Eq,
    Q: Eq + ?Sized,
    E: Clone,
{
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, Outcome::Abandoned);
        // The table first: who finds the flight landed and tries again must not find it there.
        match &outcome {
            Outcome::Done(value) => self.shard.settle(self.hash, self.key, value.clone()),
            Outcome::Failed(_) | Outcome::Abandoned => self.shard.forget(self.hash, self.key),
        }
        self.flight.land(outcome);
    }
}
