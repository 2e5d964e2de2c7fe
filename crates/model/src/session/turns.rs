//! Whose turn it is, where memory is saved: programs that take much are shared by all threads, and there are no more of
//! them than can be at work at once. Who finds none free waits for one, first come, first served.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use streampool_device::lock::{Condvar, Mutex};

use super::options::RunOptions;
use crate::ranks;

/// So long nothing may move while a thread waits for its turn. Then one goes without: whoever has the turns may wait for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The turns of one plan.
pub struct Turns {
    state: Mutex<State>,
    patience: Duration,
}

pub(super) struct State {
    pub(super) free: usize,
    /// When somebody last gave a turn back, or went without one.
    moved: Instant,
    /// How long the latest turn took that was given back.
    latest: Duration,
    /// Who waits, in order. The first is woken when a turn is free.
    pub(super) waiting: VecDeque<Arc<Waiting>>,
}

pub(super) struct Waiting {
    pub(super) wake: Condvar,
    urgent: bool,
    /// So many urgent ones may still overtake it. Used under the lock.
    pub(super) overtakes_left: AtomicU8,
}

/// So many urgent waiters overtake one that is not.
const OVERTAKES: u8 = 4;

/// One turn, until it is dropped.
pub struct Turn {
    turns: Arc<Turns>,
    since: Instant,
}

impl Turns {
    /// So many at once.
    pub fn new(count: usize) -> Arc<Turns> {
        Turns::with_patience(count, PATIENCE)
    }

    fn with_patience(count: usize, patience: Duration) -> Arc<Turns> {
        let state = State {
            free: count,
            moved: Instant::now(),
            latest: Duration::ZERO,
            waiting: VecDeque::new(),
        };
        Arc::new(Turns {
            state: Mutex::new(ranks::TURNS, state),
            patience,
        })
    }

    /// A turn that nobody has or waits for.
    pub fn free(self: &Arc<Self>) -> Option<Turn> {
        let mut state = self.state.lock();
        if state.free == 0 || !state.waiting.is_empty() {
            return None;
        }
        state.free -= 1;
        Some(self.turn())
    }

    /// The next turn; none if that takes until the deadline, or if for too long nobody gives one back. How long that is
    /// depends on how long turns take.
    pub fn next(self: &Arc<Self>, options: &RunOptions) -> Option<Turn> {
        let mut state = self.state.lock();
        let own = Arc::new(Waiting {
            wake: Condvar::new(),
            urgent: options.urgent,
            overtakes_left: AtomicU8::new(OVERTAKES),
        });
        state.line_up(own.clone());
        let came = Instant::now();
        let is_own = |other: &Arc<Waiting>| Arc::ptr_eq(other, &own);
        loop {
            let is_first = cfg!(planted) || state.waiting.front().is_some_and(is_own);
            let has_turn = is_first && state.free > 0;
            let now = Instant::now();
            let standstill = came.max(state.moved) + self.patience.max(2 * state.latest);
            let is_late = options.deadline.is_some_and(|deadline| now >= deadline);
            let is_stuck = now >= standstill;
            if has_turn || is_late || is_stuck {
                state.waiting.retain(|other| !is_own(other));
                state.free -= usize::from(has_turn);
                // The others wait as long again: this one may have been what all waited for.
                if is_stuck && !has_turn {
                    state.moved = now;
                }
                state.wake();
                return has_turn.then(|| self.turn());
            }
            let until = options
                .deadline
                .map_or(standstill, |deadline| deadline.min(standstill));
            let left = until.saturating_duration_since(now);
            state = own.wake.wait_timeout(state, left);
        }
    }

    fn turn(self: &Arc<Self>) -> Turn {
        Turn {
            turns: self.clone(),
            since: Instant::now(),
        }
    }
}

impl State {
    /// Urgent ones come before others, but overtake none too often.
    fn line_up(&mut self, own: Arc<Waiting>) {
        let mut place = self.waiting.len();
        if own.urgent {
            let can_overtake = |other: &&Arc<Waiting>| {
                !other.urgent && other.overtakes_left.load(Ordering::Relaxed) > 0
            };
            let overtaken = self.waiting.iter().rev().take_while(can_overtake);
            for other in overtaken {
                other.overtakes_left.fetch_sub(1, Ordering::Relaxed);
                place -= 1;
            }
        }
        self.waiting.insert(place, own);
    }

    /// Wakes who is next, if there is a turn.
    fn wake(&self) {
        if self.free > 0
            && let Some(first) = self.waiting.front()
        {
            first.wake.notify_one();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.free += 1;
        state.moved = Instant::now();
        state.latest = self.since.elapsed();
        state.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn there_are_never_more_than_so_many() {
        let turns = Turns::new(2);
        let at_once = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = turns.next(&RunOptions::default());
                        assert!(turn.is_some());
                        assert!(at_once.fetch_add(1, Ordering::SeqCst) < 2);
                        std::thread::yield_now();
                        at_once.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(turns.next(&RunOptions::default()).is_some());
    }

    #[test]
    fn who_came_first_is_first_of_those_as_urgent() {
        let turns = Turns::new(1);
        let held = turns.next(&RunOptions::default());
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (number, urgent) in [false, false, true, false, true].into_iter().enumerate() {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let options = RunOptions {
                        urgent,
                        ..RunOptions::default()
                    };
                    let turn = turns.next(&options);
                    order.lock().unwrap().push(number);
                    drop(turn);
                });
                while turns.state.lock().waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        assert_eq!(*order.lock().unwrap(), [2, 4, 0, 1, 3]);
    }

    #[test]
    fn urgent_ones_overtake_none_more_than_so_often() {
        let turns = Turns::new(1);
        let held = turns.next(&RunOptions::default());
        let order = std::sync::Mutex::new(Vec::new());
        let urgent = usize::from(OVERTAKES) + 3;
        std::thread::scope(|scope| {
            for number in 0..=urgent {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let turn = turns.next(&RunOptions {
                        urgent: number > 0,
                        ..RunOptions::default()
                    });
                    order.lock().unwrap().push(number);
                    drop(turn);
                });
                while turns.state.lock().waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        let order = order.into_inner().unwrap();
        let place = order.iter().position(|number| *number == 0);
        assert_eq!(place, Some(usize::from(OVERTAKES)), "{order:?}");
    }

    #[test]
    fn nobody_waits_longer_than_a_deadline() {
        let turns = Turns::new(1);
        let held = turns.next(&RunOptions::default());
        let soon = RunOptions::within(Duration::from_millis(5));
        assert!(turns.next(&soon).is_none());
        assert!(turns.state.lock().waiting.is_empty());
        drop(held);
        assert!(turns.free().is_some());
    }

    /// How many of 8 threads with 4 runs each went without a turn; each run takes `run`.
    fn without(turns: &Arc<Turns>, run: Duration) -> usize {
        let without = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        let turn = turns.next(&RunOptions::default());
                        without.fetch_add(usize::from(turn.is_none()), Ordering::SeqCst);
                        std::thread::sleep(run);
                    }
                });
            }
        });
        without.into_inner()
    }

    /// Whether nobody goes without a turn. On a busy machine who has one may be away for longer than a short patience, and so
    /// all times are made longer until it holds.
    fn all_have_turns(without: impl Fn(u32) -> usize) -> bool {
        [1, 3, 9].into_iter().any(|times| without(times) == 0)
    }

    #[test]
    fn who_waits_is_patient_while_turns_are_given_back() {
        // The last in the line wait several times as long as their patience.
        assert!(all_have_turns(|times| {
            let turns = Turns::with_patience(2, times * Duration::from_millis(150));
            without(&turns, times * Duration::from_millis(60))
        }));
    }

    #[test]
    fn runs_may_take_longer_than_the_patience() {
        assert!(all_have_turns(|times| {
            let turns = Turns::with_patience(2, times * Duration::from_millis(60));
            let run = times * Duration::from_millis(90);
            let turn = turns.free();
            std::thread::sleep(run);
            drop(turn);
            without(&turns, run)
        }));
    }

    #[test]
    fn at_a_standstill_one_after_the_other_goes_without() {
        let patience = Duration::from_millis(30);
        let turns = Turns::with_patience(1, patience);
        let held = turns.free();
        let (begun, together) = (Instant::now(), Barrier::new(3));
        let mut waited: Vec<Duration> = std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| {
                scope.spawn(|| {
                    together.wait();
                    assert!(turns.next(&RunOptions::default()).is_none());
                    begun.elapsed()
                })
            });
            threads.map(|thread| thread.join().unwrap()).to_vec()
        });
        waited.sort();
        for (place, waited) in waited.iter().enumerate() {
            assert!(*waited >= patience * (place as u32 + 1), "{waited:?}");
        }
        drop(held);
    }
}
