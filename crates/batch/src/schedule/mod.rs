//! Which requests go together, and when. Plain state: no threads, no clock of its own, nothing of models.

mod bucket;
mod costs;
mod entry;
mod line;
mod pace;
mod tenants;

#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use bucket::Bucket;
pub use entry::{Entry, Limits, Priority, Reason, TenantId};
use line::Place;
pub use tenants::Tenants;
use tenants::Turn;

/// Finds a request that is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    place: Place,
    bucket: usize,
}

/// Finds the parts of a request that are queued.
pub type Ids = SmallVec<[Id; 1]>;

/// Requests that go together.
#[derive(Debug)]
pub struct Group<J> {
    /// In order.
    pub entries: Vec<Entry<J>>,
    /// The rows of all.
    pub rows: usize,
    /// Which bucket they come from.
    pub bucket: usize,
    /// Why now, and why these.
    pub reason: Reason,
}

/// Buckets without requests are forgotten when there are more.
const MOST_BUCKETS: usize = 256;

/// Requests that wait, in buckets of those that can go together.
pub struct Schedule<K, J> {
    limits: Limits,
    /// Which bucket requests of a kind are in.
    kinds: HashMap<K, usize>,
    buckets: Vec<Bucket<K, J>>,
    /// The buckets in which requests wait.
    waiting: Vec<usize>,
    tenants: Tenants,
    /// The number of the next request.
    next: u64,
    requests: usize,
    /// How many of each priority, and their bytes.
    of_priority: [(usize, usize); Priority::COUNT],
    rows: usize,
    bytes: usize,
    /// The oldest request, and how many batches have passed it over since it was that.
    passed_over: (u64, u32),
    /// How many batches have gone.
    batches: u64,
    /// How many may run at a time.
    lanes: usize,
    /// When the last batch went.
    last_begun: Option<Instant>,
    /// How much longer than its function takes a batch has its lane, on average of late.
    longer: Duration,
}

impl<K: Hash + Eq + Clone, J> Schedule<K, J> {
    /// Nothing waits.
    pub fn new(limits: Limits, tenants: Tenants) -> Self {
        Schedule {
            limits,
            kinds: HashMap::new(),
            buckets: Vec::new(),
            waiting: Vec::new(),
            tenants,
            next: 0,
            requests: 0,
            of_priority: [(0, 0); Priority::COUNT],
            rows: 0,
            bytes: 0,
            passed_over: (0, 0),
            batches: 0,
            lanes: 1,
            last_begun: None,
            longer: Duration::ZERO,
        }
    }

    /// So many batches may run at a time.
    pub fn on_lanes(&mut self, lanes: usize) {
        self.lanes = lanes;
    }

    /// How many requests wait.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// How many of one priority wait, and how many bytes these have.
    pub fn waiting_of(&self, priority: Priority) -> (usize, usize) {
        self.of_priority[priority as usize]
    }

    /// How many rows wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many bytes wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whose requests come when.
    pub fn tenants(&mut self) -> &mut Tenants {
        &mut self.tenants
    }

    /// Who sends them.
    pub fn senders(&self) -> &Tenants {
        &self.tenants
    }

    /// Takes a request.
    pub fn add(&mut self, kind: &K, entry: Entry<J>) -> Id {
        let bucket = self.bucket_of(kind);
        let place = Place {
            priority: entry.priority,
            is_behind: false,
            turn: self.tenants.turn(entry.tenant, entry.priority, entry.rows),
            number: self.next,
        };
        self.next += 1;
        self.tenants.came(&entry, self.batches);
        self.requests += 1;
        let of = &mut self.of_priority[entry.priority as usize];
        *of = (of.0 + 1, of.1 + entry.bytes);
        self.rows += entry.rows;
        self.bytes += entry.bytes;
        if self.buckets[bucket].is_empty() {
            self.waiting.push(bucket);
        }
        self.buckets[bucket].add(place, entry);
        Id { place, bucket }
    }

    fn bucket_of(&mut self, kind: &K) -> usize {
        if let Some(&bucket) = self.kinds.get(kind) {
            return bucket;
        }
        let unused = (self.buckets.len() >= MOST_BUCKETS)
            .then(|| {
                let empty = (0..self.buckets.len()).filter(|&at| self.buckets[at].is_unused());
                empty.min_by_key(|&at| self.buckets[at].last_used)
            })
            .flatten();
        let fresh = Bucket::new(kind.clone(), self.batches);
        let bucket = match unused {
            Some(bucket) => {
                let old = std::mem::replace(&mut self.buckets[bucket], fresh);
                self.kinds.remove(&old.kind);
                bucket
            }
            None => {
                self.buckets.push(fresh);
                self.buckets.len() - 1
            }
        };
        self.kinds.insert(kind.clone(), bucket);
        bucket
    }

    /// Whether all that waits can go together.
    pub fn is_one_batch(&self) -> bool {
        self.rows <= self.limits.rows && self.waiting.len() == 1
    }

    /// Whether a request is still queued.
    pub fn holds(&self, id: Id) -> bool {
        let bucket = self.buckets.get(id.bucket);
        bucket.is_some_and(|bucket| bucket.holds(id.place))
    }

    /// Gives a request up, if it is still queued.
    pub fn remove(&mut self, id: Id) -> Option<Entry<J>> {
        let entry = self.buckets.get_mut(id.bucket)?.remove(id.place)?;
        self.forget(&entry);
        self.tenants
            .give_back(entry.tenant, entry.priority, entry.rows);
        self.note_empty(id.bucket);
        Some(entry)
    }

    fn forget(&mut self, entry: &Entry<J>) {
        self.tenants.left(entry);
        self.requests -= 1;
        let of = &mut self.of_priority[entry.priority as usize];
        *of = (of.0 - 1, of.1 - entry.bytes);
        self.rows -= entry.rows;
        self.bytes -= entry.bytes;
    }

    /// Takes note if nothing waits in a bucket any more.
    fn note_empty(&mut self, bucket: usize) {
        if !self.buckets[bucket].is_empty() {
            return;
        }
        if let Some(at) = self.waiting.iter().position(|&other| other == bucket) {
            self.waiting.swap_remove(at);
        }
        self.forget_unused();
    }

    /// Forgets the last buckets, if there are too many.
    fn forget_unused(&mut self) {
        while self.buckets.len() > MOST_BUCKETS
            && let Some(unused) = self.buckets.pop_if(|last| last.is_unused())
        {
            self.kinds.remove(&unused.kind);
        }
    }

    /// Gives up what is of no use any more.
    pub fn expired(&mut self, now: Instant) -> Vec<Entry<J>> {
        let mut expired = Vec::new();
        while let Some(id) = self.one_expired(now) {
            expired.extend(self.remove(id));
        }
        expired
    }

    fn one_expired(&self, now: Instant) -> Option<Id> {
        self.waiting.iter().find_map(|&bucket| {
            let place = self.buckets[bucket].expired(now)?;
            Some(Id { place, bucket })
        })
    }

    /// Gives everything up.
    pub fn clear(&mut self) -> Vec<Entry<J>> {
        self.waiting.clear();
        (self.requests, self.rows, self.bytes) = (0, 0, 0);
        self.of_priority = [(0, 0); Priority::COUNT];
        let buckets = self.buckets.iter_mut();
        let entries: Vec<Entry<J>> = buckets.flat_map(Bucket::clear).collect();
        for entry in &entries {
            self.tenants.left(entry);
            self.tenants
                .give_back(entry.tenant, entry.priority, entry.rows);
        }
        entries
    }

    /// When something will happen without anybody coming: a deadline passes, or a batch has to go.
    pub fn next_time(&self, now: Instant) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|&bucket| &self.buckets[bucket]);
        let times = waiting.flat_map(|bucket| {
            let due = match self.limits.wait.is_zero() {
                true => None,
                false => bucket.due(&self.limits).filter(|&due| due > now),
            };
            due.into_iter().chain(bucket.first_deadline())
        });
        times.min()
    }

    /// Whether a batch can go.
    pub fn is_ready(&self, now: Instant, closing: bool) -> bool {
        self.requests > 0 && self.choose(now, closing).is_some()
    }

    /// Whether a request is the first of the batch that goes next, if one can.
    pub fn is_next(&self, id: Id, now: Instant, closing: bool) -> bool {
        let is_head = |bucket: &Bucket<K, J>| bucket.head() == Some(id.place);
        self.buckets.get(id.bucket).is_some_and(is_head)
            && self.choose(now, closing) == Some((id.bucket, None))
    }

    /// The batch that goes next, if one can. It runs until [`over`](Self::over) says that it is over.
    pub fn take(&mut self, now: Instant, closing: bool) -> Option<Group<J>> {
        if self.requests == 0 {
            return None;
        }
        for &bucket in &self.waiting {
            self.buckets[bucket].put_behind(now);
        }
        let (bucket, first) = self.choose(now, closing)?;
        let oldest = self.oldest();
        let limits = &self.limits;
        let (most, why_not_more) = self.buckets[bucket].size(limits, now);
        let due = self.buckets[bucket].due(limits);
        let waited = !limits.wait.is_zero() && due.is_some_and(|due| due <= now);
        let entries = self.buckets[bucket].take(first, most);
        let left = !self.buckets[bucket].is_empty();
        let rows = entries.iter().map(|(_, entry)| entry.rows).sum();
        let reason = match why_not_more {
            _ if first.is_some() => Reason::PassedOver,
            Some(reason) if left => reason,
            _ if rows >= self.limits.rows => Reason::Full,
            _ if closing => Reason::Closing,
            _ if waited => Reason::Waited,
            _ => Reason::Free,
        };
        self.note_passing(oldest, entries.iter().map(|(place, _)| place.number));
        self.batches += 1;
        self.last_begun = Some(now);
        let of = &mut self.buckets[bucket];
        of.last_used = self.batches;
        // Before anything is forgotten: a bucket of which a batch runs never is.
        of.running.batches += 1;
        of.running.rows += rows;
        let first_waiting = self.first_turns();
        let entries = entries.into_iter().map(|(place, entry)| {
            // A batch of one kind may take a turn along that comes after those of others who wait.
            let waits = first_waiting[place.priority as usize].unwrap_or(place.turn);
            self.tenants.reached(place.priority, place.turn.min(waits));
            self.forget(&entry);
            entry
        });
        let entries = entries.collect();
        self.note_empty(bucket);
        Some(Group {
            entries,
            rows,
            bucket,
            reason,
        })
    }

    /// The first turn of each priority that waits, of those that buckets begin with.
    fn first_turns(&self) -> [Option<Turn>; Priority::COUNT] {
        let mut first = [None; Priority::COUNT];
        let heads = (self.waiting.iter()).filter_map(|&at| self.buckets[at].head());
        for head in heads.filter(|head| !head.is_behind) {
            let first: &mut Option<Turn> = &mut first[head.priority as usize];
            *first = Some(first.map_or(head.turn, |turn| turn.min(head.turn)));
        }
        first
    }

    /// Which bucket goes next; and which request has to be among its batch, if one has.
    ///
    /// That is the one whose first request is next; but of one tenant's, a full batch goes first if its turn is little later. So
    /// batches are large, and nobody waits longer for that but who gains by it.
    fn choose(&self, now: Instant, closing: bool) -> Option<(usize, Option<Place>)> {
        let waiting = self.waiting.iter().filter_map(|&at| {
            let bucket = &self.buckets[at];
            Some((bucket.head()?, at, bucket))
        });
        let paced = self.paced();
        let ready = waiting.filter(|(head, _, bucket)| {
            let is_time = self.is_time(*head, bucket, now) || bucket.has_enough(&self.limits);
            closing || is_time && self.next_begin(paced, bucket).is_none_or(|at| at <= now)
        });
        let ready: SmallVec<[_; 8]> = ready.collect();
        let &(first, at, next) = ready.iter().min_by_key(|(head, ..)| *head)?;
        let little_later = first.turn.later(self.limits.rows);
        let full = ready.iter().filter(|(head, _, bucket)| {
            bucket.rows() >= self.limits.rows
                && (head.priority, head.is_behind) == (first.priority, first.is_behind)
                && head.turn <= little_later
                && bucket.head_tenant() == next.head_tenant()
        });
        let best = full
            .min_by_key(|(head, ..)| *head)
            .map_or(at, |&(_, at, _)| at);
        let must_lead = self.oldest().filter(|(id, _)| {
            let passed = self.passed_over.0 == id.place.number;
            self.limits.passes <= if passed { self.passed_over.1 } else { 0 }
        });
        Some(match must_lead {
            Some((id, _)) => (id.bucket, Some(id.place)),
            None => (best, None),
        })
    }

    /// Whether a batch of a bucket may go that is not full.
    fn is_time(&self, head: Place, bucket: &Bucket<K, J>, now: Instant) -> bool {
        let limits = &self.limits;
        head.priority == Priority::High
            || match limits.wait.is_zero() {
                true => bucket.is_large_beside_others(limits),
                false => bucket.due(limits).is_some_and(|due| due <= now),
            }
    }

    /// Since when the oldest request waits, if one does.
    pub fn oldest_arrival(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|&bucket| &self.buckets[bucket]);
        waiting.filter_map(Bucket::first_arrival).min()
    }

    /// The request that has waited longest of those that did not go behind the others.
    fn oldest(&self) -> Option<(Id, Instant)> {
        let oldest = self.waiting.iter().filter_map(|&bucket| {
            let (place, arrived) = self.buckets[bucket].oldest()?;
            Some((Id { place, bucket }, arrived))
        });
        oldest.min_by_key(|(id, _)| id.place.number)
    }

    fn note_passing(&mut self, oldest: Option<(Id, Instant)>, mut gone: impl Iterator<Item = u64>) {
        let Some((id, _)) = oldest else { return };
        let number = id.place.number;
        let before = match self.passed_over {
            (known, passes) if known == number => passes,
            _ => 0,
        };
        let passed = !gone.any(|gone| gone == number);
        self.passed_over = (number, before + u32::from(passed));
    }

    /// A batch of so many rows is over, and took so long, if that says anything about others.
    pub fn over(&mut self, bucket: usize, rows: usize, took: Option<Duration>) {
        let of = &mut self.buckets[bucket];
        of.running.batches -= 1;
        of.running.rows -= rows;
        if let Some(took) = took {
            of.costs.learn(rows, took);
        }
        self.forget_unused();
    }

    /// Whether requests wait for others that may come.
    pub fn waits_for_others(&self) -> bool {
        !self.limits.wait.is_zero()
    }

    /// Takes note of how long so many rows of a kind took.
    pub fn learn_of(&mut self, kind: &K, rows: usize, took: Duration) {
        let bucket = self.bucket_of(kind);
        self.buckets[bucket].costs.learn(rows, took);
    }

    /// How long all that waits will take, one batch after the other, as far as is known.
    pub fn backlog(&self) -> Duration {
        let waiting = self.waiting.iter().map(|&bucket| &self.buckets[bucket]);
        waiting.map(|bucket| bucket.backlog(&self.limits)).sum()
    }

    /// The part of the backlog that goes no later than the last one of a priority, if all requests take the same.
    pub fn backlog_until(&self, priority: Priority) -> Duration {
        let first = self.of_priority[..=priority as usize].iter();
        let count: usize = first.map(|&(requests, _)| requests).sum();
        let part = count as f64 / self.requests.max(1) as f64;
        self.backlog().mul_f64(part)
    }
}
