//! The seed of the run that a thread computes: what random operators without a seed of their own begin with.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use streampool_tensor::Generator;

/// What the run that a thread computes begins with.
#[derive(Debug, Clone, Copy)]
enum OfRun {
    /// There is no run.
    None,
    /// A fresh seed, which is made when it is asked for: few models do.
    Fresh,
    Seed(u64),
}

thread_local! {
    static OF_RUN: Cell<OfRun> = const { Cell::new(OfRun::None) };
    /// Where the next fresh seed of this thread comes from.
    static NEXT: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// A seed that no other run has.
fn fresh() -> u64 {
    NEXT.with(|next| {
        // The standard library's hashers begin with random keys.
        let begin = || (RandomState::new().build_hasher().finish(), 0);
        let (seed, count) = next.get().unwrap_or_else(begin);
        next.set(Some((seed, count.wrapping_add(1))));
        Generator::new(seed).fork(count).seed()
    })
}

/// The seed of the run that this thread computes, if it computes one.
pub fn current() -> Option<u64> {
    match OF_RUN.get() {
        OfRun::None => None,
        OfRun::Seed(seed) => Some(seed),
        OfRun::Fresh => {
            let seed = fresh();
            OF_RUN.set(OfRun::Seed(seed));
            Some(seed)
        }
    }
}

/// Does the work of a run that has this seed, or one that no other run has.
pub fn with<R>(seed: Option<u64>, work: impl FnOnce() -> R) -> R {
    struct Before(OfRun);
    impl Drop for Before {
        fn drop(&mut self) {
            OF_RUN.set(self.0);
        }
    }
    let _before = Before(OF_RUN.replace(seed.map_or(OfRun::Fresh, OfRun::Seed)));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_fresh_and_end_with_their_run() {
        assert_ne!(fresh(), fresh());
        let other = std::thread::spawn(fresh).join().unwrap();
        assert_ne!(fresh(), other);
        let inside = with(Some(7), || (current(), with(Some(8), current), current()));
        assert_eq!(inside, (Some(7), Some(8), Some(7)));
        let twice = with(None, || [current(), current()]);
        assert!(twice[0].is_some() && twice[0] == twice[1]);
        assert_eq!(current(), None);
    }
}
