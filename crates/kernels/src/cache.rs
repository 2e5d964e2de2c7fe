//! The kernel cache: compiles each key once, and never holds a lock while it does.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache as Table, DefaultLifecycle, GuardResult};
use streampool_device::CacheReport;

use crate::hash::Seed;

/// Room is made for so many entries at first.
const FEW: usize = 256;

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
    table: Table<K, Result<Arc<V>, E>, UnitWeighter, Seed>,
    compiled: AtomicU64,
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
            table: Table::with(
                capacity.min(FEW),
                capacity as u64,
                UnitWeighter,
                Seed::random(),
                DefaultLifecycle::default(),
            ),
            compiled: AtomicU64::new(0),
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
            Missing::Tell => match self.table.get(key) {
                Some(found) => Ok(found?),
                None => Err(NotReady::Missing),
            },
        }
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
        let place = loop {
            match self.table.get_value_or_guard(key, None) {
                GuardResult::Value(found) => return found,
                GuardResult::Guard(place) => break place,
                // There is no limit.
                GuardResult::Timeout => {}
            }
        };
        let made = compile().map(Arc::new);
        if made.is_ok() {
            self.compiled.fetch_add(1, Ordering::Relaxed);
        }
        // Whoever waits gets it. Nobody takes it out of the table meanwhile.
        let _ = place.insert(made.clone());
        if made.is_err() {
            self.table.remove_if(key, Result::is_err);
        }
        made
    }

    /// What it holds and how it did.
    pub fn report(&self) -> CacheReport {
        CacheReport {
            name: self.name.clone(),
            entries: self.table.len(),
            hits: self.table.hits(),
            compiled: self.compiled.load(Ordering::Relaxed),
            ..CacheReport::default()
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
