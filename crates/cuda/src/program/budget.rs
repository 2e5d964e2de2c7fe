//! The budget: how much the graphs of a device may take, and whose give way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use streampool_device::CacheReport;
use streampool_device::lock::Mutex;

use crate::ranks;

/// The instances of one program, as far as others may ask them to give way.
pub(super) trait Instances: Send + Sync {
    /// How often one was launched.
    fn uses(&self) -> u64;

    /// Drops those of lanes that are gone.
    fn sweep(&self);

    /// Those for which nobody came since `wanted`.
    fn candidates(self: Arc<Self>, wanted: u64) -> Vec<Candidate>;
}

/// An instance that may give way.
pub(super) struct Candidate {
    /// When somebody came for it for the last time.
    pub used: u64,
    /// Drops it if it is idle, and says whether it was.
    pub give_way: Box<dyn FnOnce() -> bool>,
}

/// What the graphs of one device take, within their bound.
///
/// An instance gives way when it is idle, was not used for longest, and whoever wants the room came many times
/// since: so programs that take turns and do not all fit leave those that have a graph alone, instead of
/// building one each time.
pub(crate) struct Budget {
    most: usize,
    taken: AtomicUsize,
    /// What of that is for the graphs themselves, and not for what they work in.
    graphs: AtomicUsize,
    alive: AtomicUsize,
    built: AtomicU64,
    /// Goes on with each instance that is asked for, so that who came later is known.
    clock: AtomicU64,
    /// How many more times nobody is asked to give way: nobody could the last time.
    patience: AtomicUsize,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    programs: Vec<Weak<dyn Instances>>,
    /// How often programs that are gone were replayed.
    replays: u64,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Budget {
        Budget {
            most: bytes,
            taken: AtomicUsize::new(0),
            graphs: AtomicUsize::new(0),
            alive: AtomicUsize::new(0),
            built: AtomicU64::new(0),
            clock: AtomicU64::new(1),
            patience: AtomicUsize::new(0),
            books: Mutex::new(ranks::BUDGET, Books::default()),
        }
    }

    /// How many instances there are, were built, and were launched.
    pub fn report(&self) -> CacheReport {
        let programs = self.programs();
        let replays: u64 = programs.iter().map(|program| program.uses()).sum();
        CacheReport {
            name: "program graphs".to_owned(),
            entries: self.alive.load(Ordering::Relaxed),
            compiled: self.built.load(Ordering::Relaxed),
            hits: self.books.lock().replays + replays,
            ..CacheReport::default()
        }
    }

    /// Bytes that the driver takes for the graphs, about.
    pub fn graphs(&self) -> usize {
        self.graphs.load(Ordering::Relaxed)
    }

    /// The time by which instances are told who was used later.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Counts the instances of a new program.
    pub(super) fn register<I: Instances + 'static>(&self, instances: Arc<I>) -> Arc<I> {
        let known: Weak<I> = Arc::downgrade(&instances);
        self.books.lock().programs.push(known);
        instances
    }

    /// Counts those of a program that is gone no more.
    pub(super) fn retire<I: Instances>(&self, instances: &Arc<I>) {
        let replays = instances.uses();
        let mut books = self.books.lock();
        books.replays += replays;
        let others = |known: &Weak<dyn Instances>| {
            !std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(instances))
        };
        books.programs.retain(others);
    }

    fn programs(&self) -> Vec<Arc<dyn Instances>> {
        let books = self.books.lock();
        books.programs.iter().filter_map(Weak::upgrade).collect()
    }

    /// Drops the instances of lanes that are gone, when one is: who makes or runs others need not.
    pub fn sweep(&self) {
        for program in self.programs() {
            program.sweep();
        }
    }

    /// Takes so many bytes for an instance, `graph` of them for its graph; what was not used since `wanted` may give way.
    pub(super) fn take(&self, bytes: usize, graph: usize, wanted: u64) -> bool {
        let taken =
            bytes <= self.most && (self.reserve(bytes) || self.reserve_instead(bytes, wanted));
        self.clock.fetch_add(1, Ordering::Relaxed);
        if taken {
            self.alive.fetch_add(1, Ordering::Relaxed);
            self.graphs.fetch_add(graph, Ordering::Relaxed);
        }
        taken
    }

    /// An instance was built.
    pub(super) fn count_built(&self) {
        self.built.fetch_add(1, Ordering::Relaxed);
    }

    /// An instance is gone.
    pub(super) fn give_back(&self, bytes: usize, graph: usize) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        self.graphs.fetch_sub(graph, Ordering::Relaxed);
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn reserve(&self, bytes: usize) -> bool {
        let fits = |taken: usize| {
            let total = taken.checked_add(bytes)?;
            (total <= self.most).then_some(total)
        };
        let order = Ordering::Relaxed;
        self.taken.fetch_update(order, order, fits).is_ok()
    }

    /// Has idle instances give way that were not used since `wanted`, those that were not used for longest
    /// first, until there are `bytes`.
    fn reserve_instead(&self, bytes: usize, wanted: u64) -> bool {
        let order = Ordering::Relaxed;
        let less = |patience: usize| patience.checked_sub(1);
        if self.patience.fetch_update(order, order, less).is_ok() {
            return false;
        }
        let programs = self.programs();
        let count = programs.len();
        let candidates = programs.into_iter();
        let mut candidates: Vec<Candidate> = candidates
            .flat_map(|program| program.candidates(wanted))
            .collect();
        candidates.sort_by_key(|candidate| candidate.used);
        let mut candidates = candidates.into_iter();
        loop {
            if self.reserve(bytes) {
                return true;
            }
            if !candidates.any(|candidate| (candidate.give_way)()) {
                if wanted > 0 {
                    // To look through all programs each time would cost more than it gains.
                    self.patience.store(count, order);
                }
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that was never replayed.
    struct Unused;

    impl Instances for Unused {
        fn uses(&self) -> u64 {
            0
        }

        fn sweep(&self) {}

        fn candidates(self: Arc<Self>, _: u64) -> Vec<Candidate> {
            Vec::new()
        }
    }

    #[test]
    fn no_more_is_reserved_than_the_bound() {
        let budget = Budget::new(100);
        assert!(budget.reserve(60) && budget.reserve(40));
        assert!(!budget.reserve(1) && !budget.reserve(usize::MAX));
        budget.taken.fetch_sub(40, Ordering::Relaxed);
        assert!(!budget.reserve(41) && budget.reserve(40));
    }

    #[test]
    fn without_instances_there_is_nothing_to_give_way() {
        let budget = Budget::new(100);
        let instances = budget.register(Arc::new(Unused));
        assert!(budget.reserve(60));
        assert!(!budget.reserve_instead(50, u64::MAX));
        let report = budget.report();
        assert_eq!((report.entries, report.compiled, report.hits), (0, 0, 0));
        budget.retire(&instances);
        assert!(budget.programs().is_empty());
    }
}
