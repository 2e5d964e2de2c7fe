//! Every interleaving of an outcome's two sides, and of those who wake many. Built with `--cfg planted`, it is put in two steps, and so a sleeper is
//! overlooked, which must be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
#[path = "../src/alarm.rs"]
mod alarm;
#[allow(dead_code)]
#[path = "../../runtime/tests/loom_support/mod.rs"]
mod loom_support;
#[allow(dead_code)]
#[path = "../src/outcome.rs"]
mod outcome;
#[allow(dead_code, unused_imports)]
#[path = "../src/sync.rs"]
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};

use alarm::Alarm;
use loom_support::{outcomes, outcomes_bounded};
use outcome::{Accepted, Outcome, Waiter};

/// Puts a result, wakes who waits, and says whether it was accepted.
fn put(outcome: &Outcome<u8>, result: u8) -> bool {
    match outcome.put(result) {
        Accepted::By(waiter) => {
            waiter.into_iter().for_each(|waiter| waiter.wake());
            true
        }
        Accepted::Not => false,
    }
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whoever sleeps for it is woken.
#[test]
#[cfg_attr(planted, should_panic(expected = "deadlock"))]
fn no_sleeper_is_overlooked() {
    let results = outcomes(|turns| {
        let outcome = Arc::new(Outcome::new());
        let other = outcome.clone();
        let sleeper = turns.spawn(move || other.wait());
        turns.next();
        assert!(put(&outcome, 7));
        sleeper.join().unwrap()
    });
    assert_eq!(Vec::from_iter(results), [7]);
}

/// Of two results the first is accepted, and only that one arrives.
#[cfg(not(planted))]
#[test]
fn one_of_two_results_arrives() {
    let results = outcomes(|turns| {
        let outcome = Arc::new(Outcome::new());
        let other = outcome.clone();
        let putter = turns.spawn(move || put(&other, 1));
        let other = outcome.clone();
        let sleeper = turns.spawn(move || other.wait());
        turns.next();
        let second = put(&outcome, 2);
        let first = putter.join().unwrap();
        let arrived = sleeper.join().unwrap();
        assert!(first != second && arrived == if first { 1 } else { 2 });
        arrived
    });
    assert_eq!(Vec::from_iter(results), [1, 2]);
}

/// A task either finds its result or is woken for it, once.
#[cfg(not(planted))]
#[test]
fn a_task_is_woken_for_what_it_did_not_find() {
    let found = outcomes(|turns| {
        let outcome = Arc::new(Outcome::new());
        let other = outcome.clone();
        let putter = turns.spawn(move || put(&other, 7));
        turns.next();
        let bells = [(); 2].map(|()| Arc::new(Bell::default()));
        let mut polls = bells.iter().cloned().map(|bell| {
            turns.next();
            outcome.poll(&Waker::from(bell))
        });
        let found = polls.position(|poll| poll == Poll::Ready(7));
        assert!(putter.join().unwrap());
        let rings = bells.map(|bell| bell.0.load(Ordering::SeqCst));
        // Who polled last is woken, and nobody else.
        assert_eq!(rings[1], usize::from(found.is_none()));
        assert_eq!(rings[0], usize::from(found == Some(1)));
        found
    });
    assert_eq!(Vec::from_iter(found), [None, Some(0), Some(1)]);
}

/// Who gives up and who puts agree on which of them came first.
#[cfg(not(planted))]
#[test]
fn giving_up_meets_the_result_once() {
    let given_up = outcomes(|turns| {
        let outcome = Arc::new(Outcome::new());
        let other = outcome.clone();
        let putter = turns.spawn(move || put(&other, 7));
        turns.next();
        let given_up = outcome.abandon();
        let accepted = putter.join().unwrap();
        assert!(given_up != accepted && outcome.is_put());
        given_up
    });
    assert_eq!(Vec::from_iter(given_up), [false, true]);
}

/// Who is woken helps to wake the others, and nobody is left asleep.
#[cfg(not(planted))]
#[test]
fn all_are_woken_whoever_wakes_them() {
    let waited = outcomes_bounded(|turns| {
        let alarm = Arc::new(Alarm::new());
        let all = [(); 2].map(|()| Arc::new(Outcome::new()));
        let sleepers = all.clone().map(|outcome| {
            let alarm = alarm.clone();
            turns.spawn(move || {
                assert_eq!(outcome.wait(), 7);
                alarm.help();
            })
        });
        turns.next();
        let waiters = all.each_ref().map(|outcome| match outcome.put(7) {
            Accepted::By(waiter) => waiter,
            Accepted::Not => panic!("everybody waits"),
        });
        let waiters: Vec<Waiter> = waiters.into_iter().flatten().collect();
        let count = waiters.len();
        alarm.ring(waiters);
        for sleeper in sleepers {
            sleeper.join().unwrap();
        }
        count
    });
    assert_eq!(Vec::from_iter(waited), [0, 1, 2]);
}
