//! Work in rounds, each of which needs what the one before made.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::given_up;
use crate::team::Team;

/// How often a thread looks whether a round is over before it lets others run.
const LOOKS_BEFORE_YIELDING: usize = 1000;

/// Calls `work` with each of `rounds` rounds and each of its `parts`, on as many threads of the team as come. A round
/// begins when all parts of the one before are done, and sees what they wrote.
pub(super) fn rounds(
    rounds: usize,
    parts: usize,
    team: &dyn Team,
    work: &(dyn Fn(usize, usize) + Sync),
) {
    let progress = Progress {
        taken: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        total: rounds * parts,
    };
    team.run(parts.min(team.width()), &|_| {
        let _ending = EndOnPanic(&progress);
        while let Some(number) = progress.take() {
            if !progress.await_done(number / parts * parts) {
                return;
            }
            given_up::check();
            work(number / parts, number % parts);
            progress.done.fetch_add(1, Ordering::AcqRel);
        }
    });
}

struct Progress {
    taken: AtomicUsize,
    done: AtomicUsize,
    /// Whether a part panicked. Then no other begins: what it needs may not be there, or is being made.
    failed: AtomicBool,
    total: usize,
}

impl Progress {
    fn take(&self) -> Option<usize> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.total).then_some(number)
    }

    /// Waits until so many are done; `false` if one panicked. They were all taken, by threads that wait for earlier ones
    /// at most: this ends.
    fn await_done(&self, count: usize) -> bool {
        let mut looks = 0;
        while self.done.load(Ordering::Acquire) < count {
            if self.failed.load(Ordering::Relaxed) {
                return false;
            }
            looks += 1;
            match looks % LOOKS_BEFORE_YIELDING {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        true
    }
}

/// A part that panics is never done: those who wait for it end.
struct EndOnPanic<'a>(&'a Progress);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::crew::Crew;
    use crate::pool::Pool;

    #[test]
    fn a_round_sees_all_of_the_one_before() {
        const PARTS: usize = 3;
        let pool = Pool::start(3).unwrap();
        let numbers: [AtomicUsize; PARTS] = Default::default();
        rounds(2000, PARTS, &Crew::new(&pool), &|round, part| {
            // The parts of even rounds write what those of odd rounds check.
            match round % 2 {
                0 => numbers[part].store(round, Ordering::Relaxed),
                _ => {
                    for number in &numbers {
                        assert_eq!(number.load(Ordering::Relaxed), round - 1);
                    }
                }
            }
        });
        let last: Vec<_> = numbers.into_iter().map(AtomicUsize::into_inner).collect();
        assert_eq!(last, [1998; PARTS]);
    }

    #[test]
    fn a_panic_ends_all_threads() {
        let pool = Pool::start(2).unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| {
            rounds(100, 2, &Crew::new(&pool), &|round, part| {
                assert_ne!((round, part), (50, 1));
            });
        }));
        assert!(result.is_err());
    }

    #[test]
    fn no_round_begins_beside_one_that_panicked() {
        for _ in 0..20 {
            let pool = Pool::start(3).unwrap();
            let (others, panicked) = (AtomicUsize::new(0), AtomicBool::new(false));
            let beside = AtomicUsize::new(0);
            // As long as it takes, or as some thread stays away.
            let wait = |holds: &dyn Fn() -> bool| {
                let begun = Instant::now();
                while !holds() && begun.elapsed() < Duration::from_millis(20) {
                    std::thread::yield_now();
                }
            };
            let result = catch_unwind(AssertUnwindSafe(|| {
                rounds(
                    2,
                    3,
                    &Crew::new(&pool),
                    &|round, part| match (round, part) {
                        (0, 0) => {
                            wait(&|| panicked.load(Ordering::SeqCst));
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        (0, 1) => {
                            wait(&|| others.load(Ordering::SeqCst) > 0);
                            panicked.store(true, Ordering::SeqCst);
                            panic!("on purpose");
                        }
                        (0, _) => _ = others.fetch_add(1, Ordering::SeqCst),
                        _ => _ = beside.fetch_add(1, Ordering::SeqCst),
                    },
                );
            }));
            assert!(result.is_err());
            assert_eq!(beside.load(Ordering::SeqCst), 0);
        }
    }
}
