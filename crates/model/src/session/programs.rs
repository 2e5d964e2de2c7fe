//! Programs that are ready to run, by stream: each is one run's at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use streampool_device::lock::Mutex;
use streampool_runtime::{Buffer, Event, Program, Settings};
use streampool_tensor::Tensor;

use super::compiled::{Compiled, Ends};
use super::key::Key;
use super::options::RunOptions;
use super::turns::Turn;
use crate::error::Result;
use crate::lower::InPlace;
use crate::ranks;

/// A captured program, and what it was captured for.
pub struct Ready {
    pub key: Arc<Key>,
    pub ends: Ends,
    pub compiled: Arc<Compiled>,
    pub program: Program,
    /// The outputs that it makes where an input lies.
    pub in_place: Vec<InPlace>,
    /// What is bound for its run, until it is given back.
    pub bound: Bound,
    home: Home,
    /// Behind a run that nobody waited for.
    last_run: Option<Arc<Event>>,
    bytes: usize,
}

/// What is bound for a run, of what is not copied.
#[derive(Default)]
pub struct Bound {
    pub inputs: Vec<Tensor>,
    /// Where outputs are made.
    pub made: Vec<Buffer>,
    /// The outputs, once they are there.
    pub outputs: Vec<Tensor>,
}

/// About what a program and its plan take beyond what is told of them: lists, and memory that was rounded up. It was measured.
const MORE: usize = 4 << 10;

/// Where a program goes after its run.
enum Home {
    /// To those of its stream.
    Stream,
    /// To those that all threads share, at the end of this turn.
    Shared(Turn),
    /// Nowhere: there are enough of its kind.
    None,
}

impl Ready {
    pub fn new(key: Arc<Key>, ends: Ends, compiled: Arc<Compiled>, program: Program) -> Ready {
        Ready {
            bytes: program.bytes() + size_of::<Ready>() + MORE,
            key,
            ends,
            compiled,
            program,
            in_place: Vec::new(),
            bound: Bound::default(),
            home: Home::Stream,
            last_run: None,
        }
    }

    /// As one that makes these outputs where an input lies.
    pub fn with_in_place(self, in_place: Vec<InPlace>) -> Ready {
        Ready { in_place, ..self }
    }

    /// What its program takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// As one that threads take in turn.
    pub fn in_turn(self, turn: Turn) -> Ready {
        let home = Home::Shared(turn);
        Ready { home, ..self }
    }

    /// As one more than threads share, for one run.
    pub fn for_once(self) -> Ready {
        let home = Home::None;
        Ready { home, ..self }
    }

    /// It is given back while a run is under way; `event` comes behind it.
    pub fn under_way(&mut self, event: Arc<Event>) {
        self.last_run = Some(event);
    }

    /// Waits for a run that nobody waited for.
    pub fn settle(&mut self, options: &RunOptions) -> Result<()> {
        if let Some(event) = &self.last_run {
            options.wait_for_event(event)?;
            self.last_run = None;
        }
        Ok(())
    }
}

/// The programs of all streams. A stream's are behind a lock of their own, which only threads that share the stream share;
/// those that threads take in turn are behind one more.
pub struct Programs {
    by_stream: Box<[Mutex<ByHash<Ready>>]>,
    limit: usize,
    bytes: AtomicUsize,
    count: AtomicUsize,
    evicted: AtomicU64,
    /// Goes on with each program that is given back, so that it is known which came later.
    clock: AtomicU64,
}

/// More programs do not lie ready, however small they are.
const MOST_PROGRAMS: usize = 4096;

/// What lies ready: by the hash of what it is for, each with its place in the order in which they came.
struct ByHash<R> {
    ready: BTreeMap<u64, Vec<(u64, R)>>,
    count: usize,
    /// The place of what came last.
    latest: u64,
}

impl<R> ByHash<R> {
    fn new() -> ByHash<R> {
        ByHash {
            ready: BTreeMap::new(),
            count: 0,
            latest: 0,
        }
    }

    /// `place` is later than those of all others.
    fn push(&mut self, hash: u64, place: u64, ready: R) {
        self.ready.entry(hash).or_default().push((place, ready));
        self.latest = place;
        self.count += 1;
        // Who took the last of a hash left an empty list, for it is likely to come back.
        if self.ready.len() > 2 * self.count + 16 {
            self.ready.retain(|_, list| !list.is_empty());
        }
    }

    /// The latest that fits.
    fn take(&mut self, hash: u64, fits: impl Fn(&R) -> bool) -> Option<R> {
        self.take_below(u64::MAX, hash, fits)
    }

    /// The same, but not what came last of all: that is likely to be wanted here again.
    fn take_spare(&mut self, hash: u64, fits: impl Fn(&R) -> bool) -> Option<R> {
        self.take_below(self.latest, hash, fits)
    }

    fn take_below(&mut self, end: u64, hash: u64, fits: impl Fn(&R) -> bool) -> Option<R> {
        let list = self.ready.get_mut(&hash)?;
        let fits = |(number, ready): &(u64, R)| *number < end && fits(ready);
        let place = list.iter().rposition(fits)?;
        self.count -= 1;
        Some(list.remove(place).1)
    }

    /// The hash and the place of each.
    fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        let lists = self.ready.iter();
        lists.flat_map(|(&hash, list)| list.iter().map(move |&(place, _)| (hash, place)))
    }

    /// The one at this place, if it is still there.
    fn take_at(&mut self, hash: u64, place: u64) -> Option<R> {
        let list = self.ready.get_mut(&hash)?;
        let at = list.iter().position(|&(other, _)| other == place)?;
        let (_, ready) = list.remove(at);
        if list.is_empty() {
            self.ready.remove(&hash);
        }
        self.count -= 1;
        Some(ready)
    }
}

impl Programs {
    /// None so far; the programs that lie ready take at most `limit` bytes, together with their plans.
    pub fn new(limit: usize) -> Programs {
        Programs {
            by_stream: (0..=Settings::MOST_STREAMS)
                .map(|_| Mutex::new(ranks::PROGRAMS, ByHash::new()))
                .collect(),
            limit,
            bytes: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            clock: AtomicU64::new(1),
        }
    }

    /// A program that lies ready on this stream. Once programs take half of what they may, one that lies unused on another stream
    /// will do: for inputs of many sizes there is not room for one of each on each stream.
    pub fn take(
        &self,
        stream: u8,
        ends: Ends,
        hash: u64,
        fits: impl Fn(&Ready) -> bool,
    ) -> Option<Ready> {
        let own = usize::from(stream);
        let fits = |ready: &Ready| ready.ends == ends && fits(ready);
        let ready = self.by_stream[own].lock().take(hash, fits);
        let ready = ready.or_else(|| {
            if !self.is_scarce() {
                return None;
            }
            let others = (0..Settings::MOST_STREAMS).filter(|&other| other != own);
            let mut spare = others.map(|other| self.by_stream[other].lock().take_spare(hash, fits));
            spare.find_map(|ready| ready)
        });
        self.leaving(ready)
    }

    /// A program of those that threads take in turn.
    pub fn take_shared(&self, ends: Ends, key: &Key) -> Option<Ready> {
        let fits = |ready: &Ready| ready.ends == ends && *ready.key == *key;
        let shared = &self.by_stream[Settings::MOST_STREAMS];
        self.leaving(shared.lock().take(key.hash, fits))
    }

    fn leaving(&self, ready: Option<Ready>) -> Option<Ready> {
        if let Some(ready) = &ready {
            self.bytes.fetch_sub(ready.bytes, Ordering::Relaxed);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        ready
    }

    fn is_scarce(&self) -> bool {
        self.count.load(Ordering::Relaxed) > MOST_PROGRAMS / 2
            || self.bytes.load(Ordering::Relaxed) > self.limit / 2
    }

    /// Puts a program back, if it is to stay. While all take too much, those go that have another beside them for the same inputs,
    /// then the others, the longest unused first; `plans` says what plans take.
    pub fn give(&self, stream: u8, mut ready: Ready, plans: impl Fn() -> usize) {
        // A turn ends when the program lies there for the next.
        let (home, turn) = match std::mem::replace(&mut ready.home, Home::Stream) {
            Home::Stream => (usize::from(stream), None),
            Home::Shared(turn) => (Settings::MOST_STREAMS, Some(turn)),
            Home::None => return,
        };
        ready.bound = Bound::default();
        self.bytes.fetch_add(ready.bytes, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        let hash = ready.key.hash;
        let mut of_home = self.by_stream[home].lock();
        let place = self.clock.fetch_add(1, Ordering::Relaxed);
        of_home.push(hash, place, ready);
        drop(of_home);
        drop(turn);
        self.shrink(plans);
    }

    /// Whether plans of so many bytes leave programs less than half of what all may take.
    pub fn leave_no_room(&self, plans: usize) -> bool {
        plans > self.limit / 2
    }

    /// Whether programs and plans take more than they may.
    fn is_over(&self, plans: usize) -> bool {
        self.count.load(Ordering::Relaxed) > MOST_PROGRAMS
            || self.bytes.load(Ordering::Relaxed).saturating_add(plans) > self.limit
    }

    fn shrink(&self, plans: impl Fn() -> usize) {
        while self.is_over(plans()) {
            let Some((hash, place, stream)) = self.most_dispensable() else {
                return;
            };
            let ready = self.by_stream[stream].lock().take_at(hash, place);
            if self.leaving(ready).is_some() {
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The hash, place and stream of what should go first. Looks through all of them: it is seldom needed.
    fn most_dispensable(&self) -> Option<(u64, u64, usize)> {
        let mut all = Vec::new();
        for (stream, ready) in self.by_stream.iter().enumerate() {
            let ready = ready.lock();
            all.extend(ready.places().map(|(hash, place)| (hash, place, stream)));
        }
        most_dispensable(&mut all)
    }

    /// How many programs had to go.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// How many programs lie ready, and the bytes they take.
    pub fn held(&self) -> (usize, usize) {
        let [count, bytes] = [&self.count, &self.bytes].map(|sum| sum.load(Ordering::Relaxed));
        (count, bytes)
    }
}

/// Of programs by hash and place the oldest that has others of its hash, else the oldest of all.
fn most_dispensable(all: &mut [(u64, u64, usize)]) -> Option<(u64, u64, usize)> {
    all.sort_unstable();
    let of_hash = all.chunk_by(|one, other| one.0 == other.0);
    let oldest = of_hash.map(|same| (same.len() == 1, same[0].1, same[0]));
    oldest.min().map(|(_, _, first)| first)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn of_many_only_those_of_the_hash_are_looked_at() {
        const MANY: u64 = 1000;
        let mut ready = ByHash::new();
        for number in 0..MANY {
            ready.push(number, number, number);
        }
        ready.push(7, MANY, MANY);
        let looks = Cell::new(0);
        let fits = |_: &u64| {
            looks.set(looks.get() + 1);
            true
        };
        assert_eq!(ready.take(7, fits), Some(MANY), "the latest");
        assert_eq!(ready.take(7, fits), Some(7));
        assert_eq!(ready.take(7, fits), None);
        assert_eq!(ready.take(MANY - 1, fits), Some(MANY - 1));
        assert_eq!(looks.get(), 3);
        assert_eq!(ready.take_at(0, 1), None, "another place");
        assert_eq!(ready.take_at(0, 0), Some(0));
        assert_eq!(ready.count as u64, MANY - 3);
    }

    #[test]
    fn what_has_another_like_it_goes_before_the_only_one_for_its_inputs() {
        let mut all = vec![
            (8, 3, 0),
            (9, 1, 0),
            (7, 2, 0),
            (8, 5, 1),
            (7, 4, 1),
            (7, 6, 0),
        ];
        let mut gone = Vec::new();
        while let Some(first) = most_dispensable(&mut all) {
            all.retain(|one| *one != first);
            gone.push(first.1);
        }
        assert_eq!(gone, [2, 3, 4, 1, 5, 6]);
    }
}
