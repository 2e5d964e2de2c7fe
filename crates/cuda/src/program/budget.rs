//! The budget: how much the graphs of a device may take, and whose give way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use cudarc::driver::sys::CUresult;
use streampool_device::lock::Mutex;
use streampool_device::{CacheReport, Tick};

use crate::core::Core;
use crate::lane::Lane;
use crate::program::Instances;
use crate::ranks;

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
    programs: Vec<Weak<Instances>>,
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
        self.sweep();
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
    pub(super) fn register(&self, instances: Arc<Instances>) -> Arc<Instances> {
        let mut books = self.books.lock();
        books.programs.push(Arc::downgrade(&instances));
        instances
    }

    /// Counts those of a program that is gone no more.
    pub(super) fn retire(&self, instances: &Arc<Instances>) {
        let replays = instances.uses();
        let mut books = self.books.lock();
        books.replays += replays;
        let others = |known: &Weak<Instances>| known.as_ptr() != Arc::as_ptr(instances);
        books.programs.retain(others);
    }

    fn programs(&self) -> Vec<Arc<Instances>> {
        let books = self.books.lock();
        books.programs.iter().filter_map(Weak::upgrade).collect()
    }

    /// Drops the instances of lanes that are gone.
    fn sweep(&self) {
        for program in self.programs() {
            drop(program.of_the_gone());
        }
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
        self.sweep();
        let programs = self.programs();
        let mut candidates: Vec<_> = programs
            .iter()
            .flat_map(|program| {
                let candidates = program.candidates(wanted).into_iter();
                candidates.map(move |candidate| (program, candidate))
            })
            .collect();
        candidates.sort_by_key(|(_, candidate)| candidate.used);
        let mut idle = candidates
            .iter()
            .filter(|(_, candidate)| is_idle(&candidate.lane, candidate.tick))
            .filter_map(|(program, candidate)| program.remove(candidate));
        loop {
            if self.reserve(bytes) {
                return true;
            }
            let Some(instance) = idle.next() else {
                if wanted > 0 {
                    // To look through all programs each time would cost more than it gains.
                    self.patience.store(programs.len(), order);
                }
                return false;
            };
            instance.drop_idle();
        }
    }
}

/// Whether the lane has passed `tick`, as far as the driver tells without waiting. What it owes others is not
/// settled by asking.
fn is_idle(lane: &Weak<Lane>, tick: Tick) -> bool {
    let Some(lane) = lane.upgrade() else {
        return true;
    };
    let has_passed = || lane.core.context.query(lane.stream) == CUresult::CUDA_SUCCESS;
    // Before its tick is given out, a replay may not be launched yet.
    lane.is_over(tick) || lane.appended() >= tick && has_passed()
}

/// Room for one instance.
pub(super) struct Room {
    core: Arc<Core>,
    bytes: usize,
    graph: usize,
}

impl Room {
    /// Takes room for a graph and its scratch memory of the budget; what was not used since `wanted` may give way. The
    /// context is bound.
    pub fn take(core: &Arc<Core>, graph: usize, scratch: usize, wanted: u64) -> Option<Room> {
        let budget = &core.programs;
        let bytes = graph.checked_add(scratch)?;
        let taken = bytes <= budget.most
            && (budget.reserve(bytes) || budget.reserve_instead(bytes, wanted));
        budget.clock.fetch_add(1, Ordering::Relaxed);
        taken.then(|| {
            budget.alive.fetch_add(1, Ordering::Relaxed);
            budget.graphs.fetch_add(graph, Ordering::Relaxed);
            Room {
                core: core.clone(),
                bytes,
                graph,
            }
        })
    }

    /// Counts the instance as built. Those that nobody will use any more go.
    pub fn fill(&self) {
        let budget = &self.core.programs;
        budget.built.fetch_add(1, Ordering::Relaxed);
        budget.sweep();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let budget = &self.core.programs;
        budget.alive.fetch_sub(1, Ordering::Relaxed);
        budget.graphs.fetch_sub(self.graph, Ordering::Relaxed);
        budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let instances = budget.register(Arc::new(Instances::new()));
        assert!(budget.reserve(60));
        assert!(!budget.reserve_instead(50, u64::MAX));
        let report = budget.report();
        assert_eq!((report.entries, report.compiled, report.hits), (0, 0, 0));
        budget.retire(&instances);
        assert!(budget.programs().is_empty());
    }
}
