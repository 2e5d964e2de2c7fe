//! One part of the cache's table, with its own lock.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use streampool_device::lock::RwLock;

use crate::flight::Flight;
use crate::ranks;

/// What is known of a key.
pub(crate) enum Found<V, E> {
    Ready(Arc<V>),
    InFlight(Arc<Flight<V, E>>),
    /// Nothing: the caller was made the leader of this flight and must end it.
    Lead(Arc<Flight<V, E>>),
}

enum State<V, E> {
    Ready { value: Arc<V>, used: AtomicBool },
    InFlight(Arc<Flight<V, E>>),
}

type Bucket<K, V, E> = Vec<(K, State<V, E>)>;

/// Keys are found by a hash that was computed once, outside; a bucket holds the keys that share it.
type Table<K, V, E> = HashMap<u64, Bucket<K, V, E>, BuildHasherDefault<AsIs>>;

/// A lock of its own, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Shard<K, V, E> {
    table: RwLock<Table<K, V, E>>,
    hits: AtomicU64,
    capacity: usize,
}

impl<K: Eq, V, E> Shard<K, V, E> {
    pub(crate) fn new(capacity: usize) -> Self {
        Shard {
            table: RwLock::new(ranks::TABLE, HashMap::default()),
            hits: AtomicU64::new(0),
            capacity,
        }
    }

    /// Looks `key` up under the shared lock.
    #[inline]
    pub(crate) fn get<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        let table = self.table.read();
        match find(&table, hash, key)? {
            State::Ready { value, used } => {
                // Storing only what changes keeps the line shared between readers.
                if !used.load(Ordering::Relaxed) {
                    used.store(true, Ordering::Relaxed);
                }
                self.hits.fetch_add(1, Ordering::Relaxed);
                Some(value.clone())
            }
            State::InFlight(_) => None,
        }
    }

    /// Looks `key` up under the exclusive lock and makes the caller its leader if it is not there.
    pub(crate) fn join<Q>(&self, hash: u64, key: &Q) -> Found<V, E>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
        E: Clone,
    {
        let owned = key.to_owned();
        let mut table = self.table.write();
        match find(&table, hash, key) {
            Some(State::Ready { value, .. }) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Found::Ready(value.clone());
            }
            Some(State::InFlight(flight)) => return Found::InFlight(flight.clone()),
            None => {}
        }
        let flight = Arc::new(Flight::new());
        let state = State::InFlight(flight.clone());
        table.entry(hash).or_default().push((owned, state));
        Found::Lead(flight)
    }

    /// Puts the compiled value in the place of its flight, and makes room if there are too many.
    pub(crate) fn settle<Q: Eq + ?Sized>(&self, hash: u64, key: &Q, value: Arc<V>)
    where
        K: Borrow<Q>,
    {
        let evicted;
        {
            let mut table = self.table.write();
            evicted = if ready(&table) >= self.capacity {
                make_room(&mut table, self.capacity)
            } else {
                Vec::new()
            };
            let bucket = table.entry(hash).or_default();
            if let Some((_, state)) = bucket.iter_mut().find(|(held, _)| held.borrow() == key) {
                *state = State::Ready {
                    value,
                    used: AtomicBool::new(false),
                };
            }
        }
        // Values are dropped outside the lock: a kernel's destructor may call a driver.
        drop(evicted);
    }

    /// Forgets a flight that failed.
    pub(crate) fn forget<Q: Eq + ?Sized>(&self, hash: u64, key: &Q)
    where
        K: Borrow<Q>,
    {
        let mut table = self.table.write();
        if let Some(bucket) = table.get_mut(&hash) {
            bucket.retain(|(held, _)| held.borrow() != key);
            if bucket.is_empty() {
                table.remove(&hash);
            }
        }
    }

    pub(crate) fn entries(&self) -> usize {
        ready(&self.table.read())
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

#[inline]
fn find<'a, K, V, E, Q>(table: &'a Table<K, V, E>, hash: u64, key: &Q) -> Option<&'a State<V, E>>
where
    K: Borrow<Q>,
    Q: Eq + ?Sized,
{
    let bucket = table.get(&hash)?;
    let (_, state) = bucket.iter().find(|(held, _)| held.borrow() == key)?;
    Some(state)
}

fn ready<K, V, E>(table: &Table<K, V, E>) -> usize {
    let states = table.values().flatten();
    states
        .filter(|(_, state)| matches!(state, State::Ready { .. }))
        .count()
}

/// Halves the table: takes out what was not used since the last time, and if that is not enough, any.
fn make_room<K, V, E>(table: &mut Table<K, V, E>, capacity: usize) -> Vec<(K, State<V, E>)> {
    let mut evicted = Vec::new();
    let excess = ready(table).saturating_sub(capacity / 2);
    sweep(table, &mut evicted, excess, |used| {
        !used.swap(false, Ordering::Relaxed)
    });
    sweep(table, &mut evicted, excess, |_| true);
    evicted
}

fn sweep<K, V, E>(
    table: &mut Table<K, V, E>,
    evicted: &mut Vec<(K, State<V, E>)>,
    wanted: usize,
    evict: impl Fn(&AtomicBool) -> bool,
) {
    table.retain(|_, bucket| {
        let mut missing = wanted.saturating_sub(evicted.len());
        evicted.extend(bucket.extract_if(.., |(_, state)| match state {
            State::Ready { used, .. } => {
                let out = missing > 0 && evict(used);
                missing -= usize::from(out);
                out
            }
            State::InFlight(_) => false,
        }));
        !bucket.is_empty()
    });
}

/// Passes a hash through.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
