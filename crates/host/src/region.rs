//! A parallel region: the parts of one op, taken by whoever is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

use streampool_device::foreign::{self, Panic};
use streampool_device::lock::Mutex;

use crate::given_up::{self, Stopped, Watch};
use crate::pool::{Busy, Job, Shared};
use crate::ranks;
use crate::team::Team;

/// How often the caller looks before it parks, when helpers are still inside their last parts.
const LOOKS_BEFORE_PARKING: usize = 512;

/// The calling thread and the pool's idle workers.
pub(crate) struct Crew<'a> {
    pool: &'a Shared,
    _busy: Busy<'a>,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(pool: &'a Shared) -> Self {
        Crew {
            pool,
            _busy: pool.busy(),
        }
    }
}

impl Team for Crew<'_> {
    fn width(&self) -> usize {
        self.pool.width()
    }

    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        let threads = self.pool.width().min(parts);
        // Parts are counted in half a word each.
        if threads <= 1 || parts > u32::MAX as usize / 2 {
            return (0..parts).for_each(|part| {
                given_up::check();
                work(part);
            });
        }
        let watch = Watch::current();
        let watched = |part| match &watch {
            Some(watch) => watch.clone().within(|| {
                given_up::check();
                work(part);
            }),
            None => work(part),
        };
        let region = Arc::new(Region::new(parts, &watched));
        for _ in 1..threads {
            self.pool.push(Job::Region(Arc::clone(&region)));
        }
        region.help(End::Front, || ());
        region.wait();
    }
}

/// Where a thread takes parts from: the caller and its helpers from different ends, so that from op to op each
/// comes by about the same elements, which are in its cache.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Front,
    Back,
}

/// One call of [`Team::run`].
pub(crate) struct Region {
    /// Valid until every part is finished: the caller does not return before.
    work: *const (dyn Fn(usize) + Sync),
    parts: usize,
    /// Parts taken from the front, and from the back in the upper half.
    taken: AtomicU64,
    finished: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Panic>>,
    /// Whether nobody wants the work any more. There may be millions of parts, and to unwind from each takes long.
    stopped: AtomicBool,
}

// SAFETY: `work` points to something `Sync`, and `help` follows it only while it is valid.
unsafe impl Send for Region {}
// SAFETY: as above; everything else in it is `Sync`.
unsafe impl Sync for Region {}

impl Region {
    fn new<'a>(parts: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) -> Self {
        // SAFETY: only the lifetime changes, and `wait` keeps the caller until the last use is over.
        let work: &'static (dyn Fn(usize) + Sync) =
            unsafe { std::mem::transmute::<&'a (dyn Fn(usize) + Sync + 'a), _>(work) };
        Region {
            work,
            parts,
            taken: AtomicU64::new(0),
            finished: AtomicUsize::new(0),
            caller: std::thread::current(),
            panic: Mutex::new(ranks::REGION, None),
            stopped: AtomicBool::new(false),
        }
    }

    /// Takes parts until none is left, each under what `guard` gives. After the region is over this does nothing.
    ///
    /// The guard is dropped before the part counts as finished: what follows the region finds this thread free.
    pub(crate) fn help<G>(&self, end: End, guard: impl Fn() -> G) {
        while let Some(part) = self.take(end) {
            let guard = guard();
            // SAFETY: this part is taken and not finished, so the caller is still inside `Team::run`,
            // which borrows what `work` points to.
            let work = unsafe { &*self.work };
            let stopped = self.stopped.load(Ordering::Relaxed);
            if !stopped && let Err(panic) = foreign::call(|| work(part)) {
                if panic.payload::<Stopped>().is_some() {
                    self.stopped.store(true, Ordering::Relaxed);
                }
                // One is passed on; which, is of no matter. The other is dropped with no lock held.
                let _other = self.panic.lock().replace(panic);
            }
            drop(guard);
            if self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.parts {
                self.caller.unpark();
            }
        }
    }

    /// The number of a part that nobody took.
    fn take(&self, end: End) -> Option<usize> {
        const FROM_BACK: u64 = 1 << 32;
        let taken = self.taken.fetch_add(
            match end {
                End::Front => 1,
                End::Back => FROM_BACK,
            },
            Ordering::Relaxed,
        );
        let (front, back) = ((taken % FROM_BACK) as usize, (taken / FROM_BACK) as usize);
        (front + back < self.parts).then_some(match end {
            End::Front => front,
            End::Back => self.parts.wrapping_sub(1 + back),
        })
    }

    /// Waits for the parts that others are inside, and passes on a panic.
    fn wait(&self) {
        let mut looks = 0;
        while self.finished.load(Ordering::Acquire) < self.parts {
            match looks {
                LOOKS_BEFORE_PARKING => std::thread::park(),
                _ => {
                    looks += 1;
                    std::hint::spin_loop();
                }
            }
        }
        if let Some(panic) = self.panic.lock().take() {
            panic.resume();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::pool::Pool;

    #[test]
    fn each_part_runs_once() {
        let pool = Pool::start(3).unwrap();
        let crew = Crew::new(&pool);
        for parts in [0, 1, 2, 3, 7, 1000] {
            let calls: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
            crew.run(parts, &|part| {
                calls[part].fetch_add(1, Ordering::Relaxed);
            });
            assert!(calls.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn idle_workers_take_part() {
        let pool = Pool::start(2).unwrap();
        let crew = Crew::new(&pool);
        assert_eq!(crew.width(), 2);
        let barrier = std::sync::Barrier::new(2);
        let threads = Mutex::new(ranks::REGION, HashSet::new());
        // Each part waits for the other: one thread alone would never finish.
        crew.run(2, &|_| {
            barrier.wait();
            threads.lock().insert(std::thread::current().id());
        });
        assert_eq!(threads.lock().len(), 2);
    }

    #[test]
    fn threads_that_are_busy_are_not_counted_on() {
        let pool = Pool::start(2).unwrap();
        let _other = pool.busy();
        let _another = pool.busy();
        assert_eq!(Crew::new(&pool).width(), 1);
    }

    #[test]
    fn a_panic_in_a_part_reaches_the_caller_after_all_parts() {
        let pool = Pool::start(2).unwrap();
        let crew = Crew::new(&pool);
        let finished = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            crew.run(16, &|part| {
                assert_ne!(part, 5, "part five");
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }));
        assert!(result.is_err());
        assert_eq!(finished.load(Ordering::Relaxed), 15);
    }
}
