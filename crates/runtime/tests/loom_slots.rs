//! Every interleaving of the slot set. Built with `--cfg planted`, the set has two bugs, which must be found.
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

use loom::sync::Arc;
use loom_support::{Turns, outcomes, outcomes_bounded};
use slots::SlotSet;
use sync::UnsafeCell;

/// A set, and for each of its numbers a cell that only the holder may touch: loom reports any two touches
/// that the set does not order.
struct Owned {
    set: SlotSet,
    cells: [UnsafeCell<u32>; 2],
}

impl Owned {
    fn new(free: u64) -> Arc<Self> {
        Arc::new(Owned {
            set: SlotSet::new(free),
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// Uses a slot, if there is one, and gives it back.
    fn use_slot(&self) -> bool {
        let Some(number) = self.set.claim() else {
            return false;
        };
        // SAFETY: the claimed number is ours until its release.
        self.cells[usize::from(number) - 1].with_mut(|uses| unsafe { *uses += 1 });
        self.set.release(number);
        true
    }

    /// As [`use_slot`](Self::use_slot), in a thread of its own.
    fn spawn(owned: &Arc<Self>, turns: &Turns) -> loom::thread::JoinHandle<bool> {
        let owned = owned.clone();
        turns.spawn(move || owned.use_slot())
    }

    fn uses(&self) -> u32 {
        // SAFETY: called when the other threads are joined.
        let read = |cell: &UnsafeCell<u32>| cell.with(|uses| unsafe { *uses });
        self.cells.iter().map(read).sum()
    }
}

/// Three threads want one slot: it has one holder at a time, who sees what the last one did.
#[test]
#[cfg_attr(planted, should_panic(expected = "Causality violation"))]
fn a_slot_passes_from_holder_to_holder() {
    let uses = outcomes_bounded(|turns| {
        let owned = Owned::new(0b10);
        let threads = [(); 2].map(|()| Owned::spawn(&owned, &turns));
        turns.next();
        let mut used = u32::from(owned.use_slot());
        for thread in threads {
            used += u32::from(thread.join().unwrap());
        }
        assert_eq!(owned.uses(), used);
        assert_eq!(owned.set.free(), 1);
        used
    });
    assert_eq!(Vec::from_iter(uses), [1, 2, 3]);
}

/// Three threads on two slots: a claim or release of one does not break the way of the other from holder
/// to holder.
#[cfg(not(planted))]
#[test]
fn two_slots_pass_independently() {
    let uses = outcomes_bounded(|turns| {
        let owned = Owned::new(0b110);
        let threads = [(); 2].map(|()| Owned::spawn(&owned, &turns));
        turns.next();
        let mut used = u32::from(owned.use_slot());
        for thread in threads {
            used += u32::from(thread.join().unwrap());
        }
        assert_eq!(owned.uses(), used);
        assert_eq!(owned.set.free(), 2);
        used
    });
    assert_eq!(Vec::from_iter(uses), [2, 3]);
}

/// Either the release comes first and its number is claimed, or the shutting comes first and refuses it.
#[test]
#[cfg_attr(planted, should_panic(expected = "a free number behind a shut door"))]
fn no_release_slips_in_between_look_and_shutting() {
    let claims = outcomes(|turns| {
        let set = Arc::new(SlotSet::new(0b10));
        assert_eq!(set.claim(), Some(1));
        let other = set.clone();
        let releaser = turns.spawn(move || other.release_if_open(1));
        turns.next();
        let claimed = set.claim_or_shut().is_some();
        let released = releaser.join().unwrap();
        assert_eq!(claimed, released, "a free number behind a shut door");
        claimed
    });
    assert_eq!(Vec::from_iter(claims), [false, true]);
}
