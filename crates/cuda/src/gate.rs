//! The gate: a call that needs the driver's lock alone gets it, though other threads launch without a pause.
//!
//! The driver holds a lock of the context shared while it launches, and alone while it allocates, creates or destroys.
//! Its lock prefers those who share it: while enough threads launch, whoever needs it alone never gets it. So whoever is
//! about to launch looks at this gate first, and whoever needs the lock alone shuts the gate meanwhile. The gate only
//! decides who waits; it protects no memory.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::{
    AtomicBool, Condvar, Mutex, MutexGuard, Ordering, ThreadId, current, linger, lock, wait,
};

/// At most so many calls have the gate shut one after the other. Then the launches that wait go first.
const MOST_IN_A_ROW: usize = 4;

/// One for each GPU.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    shut: Line,
    state: Mutex<State>,
    opened: Condvar,
}

/// What a launch looks at, on cache lines that change only when the gate does.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicBool);

#[derive(Debug, Default)]
struct State {
    /// Who has it shut.
    holder: Option<Holder>,
    /// Who waits to shut it: the longest waiter is in front.
    queue: VecDeque<Arc<Place>>,
    /// How many had it shut, one after the other, since it last opened.
    in_a_row: usize,
    /// How many launches wait for it to open.
    waiting: usize,
    /// How often it opened.
    openings: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Holder {
    Thread(ThreadId),
    /// The one who was in front of the queue, and has not woken yet.
    Next,
}

/// A place in the queue.
#[derive(Debug, Default)]
struct Place {
    /// Read and written under the lock of the state.
    is_served: AtomicBool,
    woken: Condvar,
}

/// The gate is shut by this thread until this is dropped, by a panic too.
#[must_use = "the gate opens when this is dropped"]
#[derive(Debug)]
pub(crate) struct Shut<'a>(Option<&'a Gate>);

impl Gate {
    /// Comes before a launch: waits while the gate is shut.
    #[inline]
    pub fn pass(&self) {
        // Relaxed: nothing is handed over. A launch that comes through late only makes a call wait that much longer.
        if self.is_shut() {
            self.wait_to_pass();
        }
    }

    /// Whether it is shut now.
    #[inline]
    pub fn is_shut(&self) -> bool {
        self.shut.0.load(Ordering::Relaxed)
    }

    #[cold]
    fn wait_to_pass(&self) {
        let mut state = lock(&self.state);
        if state.is_held_here() {
            return;
        }
        if state.waiting == 0 {
            // Most calls are short. Those who find others waiting wait with them.
            drop(state);
            linger(|| self.is_shut());
            state = lock(&self.state);
        }
        if state.holder.is_none() {
            return;
        }
        state.waiting += 1;
        let opening = state.openings;
        // Once it has opened, this launch goes through even if the gate is shut again: who shut it does not wait for this
        // thread to wake, which takes milliseconds where threads outnumber processors.
        while state.openings == opening {
            state = wait(&self.opened, state);
        }
    }

    /// Shuts the gate, behind those who wait to do so already. Who has it shut may shut it again.
    pub fn shut(&self) -> Shut<'_> {
        let mut state = lock(&self.state);
        if state.is_held_here() {
            return Shut(None);
        }
        let place = Arc::new(Place::default());
        state.queue.push_back(place.clone());
        self.serve(&mut state);
        while !place.is_served.load(Ordering::Relaxed) {
            state = wait(&place.woken, state);
        }
        state.holder = Some(Holder::Thread(current().id()));
        Shut(Some(self))
    }

    /// Lets the first of the queue shut the gate, unless it is shut.
    fn serve(&self, state: &mut MutexGuard<'_, State>) {
        if state.holder.is_some() {
            return;
        }
        if let Some(next) = state.queue.pop_front() {
            state.holder = Some(Holder::Next);
            self.shut.0.store(true, Ordering::Relaxed);
            next.is_served.store(true, Ordering::Relaxed);
            next.woken.notify_one();
        }
    }

    fn open(&self) {
        let mut state = lock(&self.state);
        state.holder = None;
        state.in_a_row += 1;
        if state.waiting > 0 && (state.in_a_row >= MOST_IN_A_ROW || state.queue.is_empty()) {
            state.waiting = 0;
            state.in_a_row = 0;
            state.openings += 1;
            if !cfg!(planted) {
                self.opened.notify_all();
            }
        }
        // Open for those who come now, too, if only until the next is served.
        self.shut.0.store(false, Ordering::Relaxed);
        self.serve(&mut state);
    }
}

impl State {
    fn is_held_here(&self) -> bool {
        self.holder == Some(Holder::Thread(current().id()))
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            gate.open();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex as StdMutex;
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// As the driver's lock: who shares it is let in at any time, who needs it alone waits until nobody does.
    #[derive(Default)]
    struct PrefersSharers {
        sharers: StdMutex<usize>,
        nobody: std::sync::Condvar,
    }

    impl PrefersSharers {
        fn share(&self, work: impl FnOnce()) {
            *self.sharers.lock().unwrap() += 1;
            work();
            let mut sharers = self.sharers.lock().unwrap();
            *sharers -= 1;
            if *sharers == 0 {
                self.nobody.notify_all();
            }
        }

        /// Says whether it came by the lock in time.
        fn alone(&self, most: Duration) -> bool {
            let sharers = self.sharers.lock().unwrap();
            let some = |sharers: &mut usize| *sharers > 0;
            let waited = self.nobody.wait_timeout_while(sharers, most, some);
            !waited.unwrap().1.timed_out()
        }
    }

    /// How many of ten calls came by the lock within `most`, while six threads always have it between them.
    fn calls_in_time(gate: Option<&Gate>, most: Duration) -> usize {
        let (lock, stop) = (PrefersSharers::default(), AtomicBool::new(false));
        let begun = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        if let Some(gate) = gate {
                            gate.pass();
                        }
                        lock.share(|| thread::sleep(Duration::from_millis(2)));
                        begun.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            while begun.load(Ordering::Relaxed) < 6 {
                thread::yield_now();
            }
            let mut in_time = 0;
            for _ in 0..10 {
                let shut = gate.map(Gate::shut);
                if !lock.alone(most) {
                    break;
                }
                in_time += 1;
                drop(shut);
                thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
            in_time
        })
    }

    #[test]
    fn a_call_that_needs_the_lock_alone_gets_it() {
        let starved = calls_in_time(None, Duration::from_secs(1)) < 10;
        assert!(starved, "the imitation starves nobody");
        let patience = Duration::from_secs(30);
        assert_eq!(calls_in_time(Some(&Gate::default()), patience), 10);
    }

    #[test]
    fn who_shuts_it_is_served_in_order() {
        let (gate, order) = (Gate::default(), StdMutex::new(Vec::new()));
        let shut = gate.shut();
        thread::scope(|scope| {
            for place in 0..10 {
                let (gate, order) = (&gate, &order);
                scope.spawn(move || {
                    let _shut = gate.shut();
                    order.lock().unwrap().push(place);
                });
                while lock(&gate.state).queue.len() <= place {
                    thread::yield_now();
                }
            }
            drop(shut);
        });
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn who_has_it_shut_may_shut_it_again_and_launch() {
        let gate = Gate::default();
        let outer = gate.shut();
        let inner = gate.shut();
        gate.pass();
        drop(inner);
        assert!(
            lock(&gate.state).is_held_here(),
            "the outer one keeps it shut"
        );
        drop(outer);
        assert!(lock(&gate.state).holder.is_none());
    }

    #[test]
    fn it_opens_after_a_panic() {
        let gate = Gate::default();
        let panicked = std::panic::catch_unwind(|| {
            let _shut = gate.shut();
            panic!("while it is shut");
        });
        assert!(panicked.is_err());
        gate.pass();
    }

    #[test]
    fn launches_get_through_while_calls_follow_one_another() {
        let (gate, launched, stop) = (Gate::default(), AtomicUsize::new(0), AtomicBool::new(false));
        let slowest = StdMutex::new(Duration::ZERO);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _shut = gate.shut();
                        thread::sleep(Duration::from_micros(200));
                    }
                });
            }
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let begun = Instant::now();
                        gate.pass();
                        let mut slowest = slowest.lock().unwrap();
                        *slowest = (*slowest).max(begun.elapsed());
                        drop(slowest);
                        launched.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            while launched.load(Ordering::Relaxed) < 400 {
                thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        // Four calls and the one that is under way: far below what a thread that starves waits.
        assert!(*slowest.lock().unwrap() < Duration::from_secs(20));
    }
}
