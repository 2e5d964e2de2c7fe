//! Work in rounds, each of which needs what the one before made.

use std::sync::atomic::{AtomicUsize, Ordering};

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
        total: rounds * parts,
    };
    team.run(parts.min(team.width()), &|_| {
        let _ending = EndOnPanic(&progress);
        while let Some(number) = progress.take() {
            progress.await_done(number / parts * parts);
            work(number / parts, number % parts);
            progress.done.fetch_add(1, Ordering::AcqRel);
        }
    });
}

struct Progress {
    taken: AtomicUsize,
    done: AtomicUsize,
    total: usize,
}

impl Progress {
    fn take(&self) -> Option<usize> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.total).then_some(number)
    }

    /// Waits until so many are done. They were all taken, by threads that wait for earlier ones at most: this ends.
    fn await_done(&self, count: usize) {
        let mut looks = 0;
        while self.done.load(Ordering::Acquire) < count {
            looks += 1;
            match looks % LOOKS_BEFORE_YIELDING {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

/// A part that panics is never done: lets go those who wait for it.
struct EndOnPanic<'a>(&'a Progress);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Progress { taken, done, total } = self.0;
            taken.fetch_max(*total, Ordering::Relaxed);
            done.fetch_add(*total, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::pool::Pool;
    use crate::region::Crew;

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
}
