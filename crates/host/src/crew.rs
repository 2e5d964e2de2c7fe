//! The calling thread and idle workers, who do the parts of one op together.

use std::sync::Arc;

use crate::given_up::{self, Watch};
use crate::lately::Counted;
use crate::pool::{Busy, Job, Shared};
use crate::region::{End, Region};
use crate::team::Team;

/// The calling thread and the pool's idle workers.
pub(crate) struct Crew<'a> {
    pool: &'a Shared,
    _busy: Busy<'a>,
    _counted: Counted<'a>,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(pool: &'a Shared) -> Self {
        Crew {
            pool,
            _busy: pool.busy(),
            _counted: pool.callers.count(),
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
        let checked = |part| {
            given_up::check();
            work(part);
        };
        let watched = |part| match &watch {
            Some(watch) if !watch.is_current() => watch.clone().within(|| checked(part)),
            _ => checked(part),
        };
        let region = Arc::new(Region::new(parts, &watched));
        for _ in 1..threads {
            self.pool.push(Job::Region(Arc::clone(&region)));
        }
        region.help(End::Front, || ());
        region.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use std::sync::atomic::{AtomicUsize, Ordering};

    use streampool_device::lock::Mutex;

    use super::*;
    use crate::pool::Pool;
    use crate::ranks;

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
