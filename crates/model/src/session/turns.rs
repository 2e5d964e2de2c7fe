//! Whose turn it is, where memory is saved: programs that take much are shared by all threads, and there are no more of
//! them than can be at work at once. Who finds none free waits for one, first come, first served.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::lock::{Condvar, Mutex};

use super::RunOptions;
use crate::ranks;

/// So long a thread waits for its turn. After that it goes without: whoever has the turns may wait for this thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// The turns of one plan.
pub struct Turns(Mutex<State>);

struct State {
    free: usize,
    /// Who waits, in order. The first is woken when a turn is free.
    waiting: VecDeque<Arc<Waiting>>,
}

struct Waiting {
    wake: Condvar,
    urgent: bool,
}

/// One turn, until it is dropped.
pub struct Turn(Arc<Turns>);

impl Turns {
    /// So many at once.
    pub fn new(count: usize) -> Arc<Turns> {
        let state = State {
            free: count,
            waiting: VecDeque::new(),
        };
        Arc::new(Turns(Mutex::new(ranks::TURNS, state)))
    }

    /// The next turn; none if that takes until the deadline, or too long.
    pub fn next(self: &Arc<Self>, options: &RunOptions) -> Option<Turn> {
        let mut state = self.0.lock();
        if state.free > 0 && state.waiting.is_empty() {
            state.free -= 1;
            return Some(Turn(self.clone()));
        }
        let own = Arc::new(Waiting {
            wake: Condvar::new(),
            urgent: options.urgent,
        });
        state.line_up(own.clone());
        let latest = Instant::now() + PATIENCE;
        let latest = options
            .deadline
            .map_or(latest, |deadline| deadline.min(latest));
        let is_own = |other: &Arc<Waiting>| Arc::ptr_eq(other, &own);
        loop {
            let is_first = state.waiting.front().is_some_and(is_own);
            let left = latest.saturating_duration_since(Instant::now());
            let has_turn = is_first && state.free > 0;
            if has_turn || left.is_zero() {
                state.waiting.retain(|other| !is_own(other));
                state.free -= usize::from(has_turn);
                state.wake();
                return has_turn.then(|| Turn(self.clone()));
            }
            state = own.wake.wait_timeout(state, left);
        }
    }
}

impl State {
    /// Urgent ones come before others.
    fn line_up(&mut self, own: Arc<Waiting>) {
        let place = match own.urgent {
            true => self.waiting.iter().take_while(|other| other.urgent).count(),
            false => self.waiting.len(),
        };
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
        let mut state = self.0.0.lock();
        state.free += 1;
        state.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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
                while turns.0.lock().waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        assert_eq!(*order.lock().unwrap(), [2, 4, 0, 1, 3]);
    }

    #[test]
    fn nobody_waits_longer_than_a_deadline() {
        let turns = Turns::new(1);
        let held = turns.next(&RunOptions::default());
        let soon = RunOptions::within(Duration::from_millis(5));
        assert!(turns.next(&soon).is_none());
        assert!(turns.0.lock().waiting.is_empty());
        drop(held);
        assert!(turns.next(&soon).is_some());
    }
}
