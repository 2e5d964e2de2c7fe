//! Every interleaving of waiting for a slot. Built with `--cfg planted`, the queue looks for a free slot and
//! shuts the set in two steps, and so loses a wake-up, which must be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
mod loom_support;
#[allow(dead_code)]
#[path = "../src/slots.rs"]
mod slots;
#[allow(dead_code, unused_imports)]
#[path = "../src/sync.rs"]
mod sync;
#[allow(dead_code)]
#[path = "../src/waiters.rs"]
mod waiters;

// Not loom's `Arc`, whose drop would turn the report of a deadlock into an abort.
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Instant;

use loom_support::{outcomes, outcomes_bounded};
use sync::UnsafeCell;
use waiters::{Slots, Waited};

/// One slot, and a cell that only its holder may touch: loom reports any two touches that are not ordered.
struct Owned {
    slots: Slots,
    uses: UnsafeCell<u32>,
}

// SAFETY: the cell is touched by the slot's holder only, and loom reports it if that is not enough.
unsafe impl Sync for Owned {}

impl Owned {
    /// The slot is claimed.
    fn taken() -> Arc<Self> {
        let slots = Slots::new(0b10);
        assert_eq!(slots.try_claim(), Some(1));
        Arc::new(Owned {
            slots,
            uses: UnsafeCell::new(0),
        })
    }

    /// Uses the slot, and gives it back.
    fn release(&self) {
        // SAFETY: the slot is claimed, by us.
        self.uses.with_mut(|uses| unsafe { *uses += 1 });
        self.slots.release(1);
    }

    /// Waits for the slot, as long as it takes, then uses it and gives it back.
    fn wait_and_release(&self) {
        assert_eq!(self.slots.claim_wait(None, None), Waited::Slot(1));
        self.release();
    }

    /// Waits for the slot with no time to do so.
    fn wait_no_time(&self) -> bool {
        self.slots.claim_wait(Some(Instant::now()), None) != Waited::Late
    }

    /// The slot has been used so many times, is free, and nobody waits.
    fn assert_at_rest(&self, uses: u32) {
        assert_eq!((self.slots.free(), self.slots.waiting()), (1, 0));
        // SAFETY: called when the other threads are joined.
        assert_eq!(self.uses.with(|count| unsafe { *count }), uses);
    }
}

/// A waiter that comes while the slot is given back gets it; nothing sleeps for ever.
#[test]
#[cfg_attr(planted, should_panic(expected = "deadlock"))]
fn no_wake_up_is_lost() {
    let waited = outcomes(|turns| {
        let owned = Owned::taken();
        let other = owned.clone();
        let waiter = turns.spawn(move || other.wait_and_release());
        turns.next();
        let waited = owned.slots.waiting() == 1;
        owned.release();
        waiter.join().unwrap();
        owned.assert_at_rest(2);
        waited
    });
    assert_eq!(Vec::from_iter(waited), [false, true]);
}

/// Two waiters for one slot: both are served, one after the other.
#[cfg(not(planted))]
#[test]
fn every_waiter_is_served() {
    let waited = outcomes_bounded(|turns| {
        let owned = Owned::taken();
        let waiters = [(); 2].map(|()| {
            let owned = owned.clone();
            turns.spawn(move || owned.wait_and_release())
        });
        turns.next();
        let waited = owned.slots.waiting();
        owned.release();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        owned.assert_at_rest(3);
        waited
    });
    assert_eq!(Vec::from_iter(waited), [0, 1, 2]);
}

/// Of two waiters the one who came first is served first.
#[cfg(not(planted))]
#[test]
fn who_comes_first_is_served_first() {
    let waited = outcomes_bounded(|turns| {
        let owned = Owned::taken();
        let served = Arc::new(Mutex::new(Vec::new()));
        let spawn = |place| {
            let (owned, served) = (owned.clone(), served.clone());
            turns.spawn(move || {
                assert_eq!(owned.slots.claim_wait(None, None), Waited::Slot(1));
                served.lock().unwrap().push(place);
                owned.release();
            })
        };
        let first = spawn(1);
        turns.next();
        let one_waits = owned.slots.waiting() == 1;
        let second = spawn(2);
        turns.next();
        let both_wait = owned.slots.waiting() == 2;
        owned.release();
        first.join().unwrap();
        second.join().unwrap();
        let served = served.lock().unwrap();
        assert!(!one_waits || **served == [1, 2]);
        (one_waits, both_wait)
    });
    assert_eq!(
        Vec::from_iter(waited),
        [(false, false), (false, true), (true, false), (true, true)]
    );
}

/// A waiter whose time is up at the moment the slot is given back either has it or leaves it free.
#[cfg(not(planted))]
#[test]
fn a_slot_is_not_lost_to_a_waiter_that_gives_up() {
    let claims = outcomes(|turns| {
        let owned = Owned::taken();
        let other = owned.clone();
        let waiter = turns.spawn(move || other.wait_no_time());
        turns.next();
        owned.release();
        let claimed = waiter.join().unwrap();
        assert_eq!(owned.slots.waiting(), 0);
        assert_eq!(owned.slots.try_claim().is_some(), !claimed);
        claimed
    });
    assert_eq!(Vec::from_iter(claims), [false, true]);
}

/// A task that is dropped at the moment the slot is given back leaves it free.
#[cfg(not(planted))]
#[test]
fn a_slot_is_not_lost_to_a_task_that_gives_up() {
    let claims = outcomes(|turns| {
        let owned = Owned::taken();
        let other = owned.clone();
        let task = turns.spawn(move || {
            let mut turn = other.slots.turn();
            let context = Context::from_waker(Waker::noop());
            let claimed = turn.poll(&context).is_ready();
            drop(turn);
            claimed
        });
        turns.next();
        owned.release();
        let claimed = task.join().unwrap();
        assert_eq!(owned.slots.waiting(), 0);
        assert_eq!(owned.slots.try_claim().is_some(), !claimed);
        claimed
    });
    assert_eq!(Vec::from_iter(claims), [false, true]);
}

/// The same with a patient waiter beside the one that gives up: the patient one is served in the end.
#[cfg(not(planted))]
#[test]
fn a_waiter_that_gives_up_does_not_hold_up_another() {
    let claims = outcomes_bounded(|turns| {
        let owned = Owned::taken();
        let (first, second) = (owned.clone(), owned.clone());
        let hasty = turns.spawn(move || {
            let claimed = first.wait_no_time();
            if claimed {
                first.release();
            }
            claimed
        });
        let patient = turns.spawn(move || second.wait_and_release());
        turns.next();
        owned.release();
        let claimed = hasty.join().unwrap();
        patient.join().unwrap();
        owned.assert_at_rest(2 + u32::from(claimed));
        claimed
    });
    assert_eq!(Vec::from_iter(claims), [false, true]);
}

/// A claim that does not wait gets nothing while somebody waits, even at the moment of the release.
#[cfg(not(planted))]
#[test]
fn nobody_overtakes_a_waiter() {
    let meetings = outcomes(|turns| {
        let owned = Owned::taken();
        let other = owned.clone();
        let waiter = turns.spawn(move || other.slots.claim_wait(None, None));
        turns.next();
        let waits = owned.slots.waiting() == 1;
        owned.release();
        let claimed = owned.slots.try_claim().is_some();
        assert!(!(waits && claimed), "a claim overtook a waiter");
        if claimed {
            owned.release();
        }
        assert_eq!(waiter.join().unwrap(), Waited::Slot(1));
        assert_eq!(owned.slots.free(), 0);
        (waits, claimed)
    });
    assert_eq!(
        Vec::from_iter(meetings),
        [(false, false), (false, true), (true, false)]
    );
}

/// Closing wakes who waits and stops who comes; a slot given back at the same moment is not lost.
#[cfg(not(planted))]
#[test]
fn closing_strands_nobody_and_nothing() {
    let claims = outcomes_bounded(|turns| {
        let owned = Owned::taken();
        let (first, second) = (owned.clone(), owned.clone());
        let waiter =
            turns.spawn(move || matches!(first.slots.claim_wait(None, None), Waited::Slot(_)));
        let releaser = turns.spawn(move || second.release());
        turns.next();
        owned.slots.close();
        let claimed = waiter.join().unwrap();
        releaser.join().unwrap();
        assert_eq!(owned.slots.free(), u32::from(!claimed));
        assert_eq!(owned.slots.waiting(), 0);
        assert_eq!(owned.slots.try_claim(), None);
        claimed
    });
    assert_eq!(Vec::from_iter(claims), [false, true]);
}
