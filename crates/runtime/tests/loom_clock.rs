//! Every interleaving of marking uses, handing the block over, and comparing marks with what is complete.
//! Built with `--cfg planted`, marking a use is not one step, and the hand-over and the look at completion
//! acquire nothing, which must be found.
#![cfg(loom)]

#[allow(dead_code)]
#[path = "../src/clock.rs"]
mod clock;
#[allow(dead_code)]
mod loom_support;
#[allow(dead_code, unused_imports)]
#[path = "../src/sync.rs"]
mod sync;

use std::sync::Arc;

use clock::{After, Marks, Stamp};
use loom::sync::atomic::AtomicUsize;
use loom_support::{outcomes, outcomes_bounded};
use sync::{AtomicU64, Ordering, UnsafeCell};

const HOME: Stamp = Stamp { stream: 1, tick: 3 };
const WRITE: Stamp = Stamp { stream: 5, tick: 4 };
const READ: Stamp = Stamp { stream: 6, tick: 8 };

/// A block that several threads hold, as they hold a buffer: the last to let go frees it.
struct Shared {
    marks: Marks,
    holders: AtomicUsize,
}

impl Shared {
    /// Written on a stream away from home.
    fn new(holders: usize) -> Arc<Self> {
        let marks = Marks::new(HOME.stream);
        marks.written_at(WRITE);
        Arc::new(Shared {
            marks,
            holders: AtomicUsize::new(holders),
        })
    }

    /// What `Arc` does: the last one comes after all that the others did. True for the last.
    fn let_go(&self) -> bool {
        let order = match cfg!(planted) {
            true => Ordering::Release,
            false => Ordering::AcqRel,
        };
        self.holders.fetch_sub(1, order) == 1
    }

    /// Uses the block at `stamp`, and lets go of it: if as the last, the uses that a free has to wait for.
    fn read_and_let_go(&self, stamp: Stamp) -> Option<Vec<Stamp>> {
        self.marks.read_at(stamp);
        self.let_go().then(|| self.marks.uses().collect())
    }
}

/// How far a stream is, as its device publishes it, and memory that its commands touch.
struct Device {
    completed: [AtomicU64; 2],
    memory: UnsafeCell<u32>,
}

// SAFETY: loom reports the touches of the memory that marks and completion do not order.
unsafe impl Sync for Device {}
// SAFETY: as above.
unsafe impl Send for Device {}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Device {
            completed: [AtomicU64::new(0), AtomicU64::new(0)],
            memory: UnsafeCell::new(0),
        })
    }

    fn completed(&self, stream: u8) -> &AtomicU64 {
        &self.completed[usize::from(stream - WRITE.stream)]
    }

    /// Executes a command that reads.
    fn read(&self, stamp: Stamp) -> u32 {
        // SAFETY: the writes before are ordered before by what the test looked at.
        let value = self.memory.with(|memory| unsafe { *memory });
        self.complete(stamp);
        value
    }

    /// Executes a command that writes.
    fn write(&self, stamp: Stamp) {
        // SAFETY: the uses before are ordered before by what the test looked at.
        self.memory.with_mut(|memory| unsafe { *memory = 7 });
        self.complete(stamp);
    }

    fn complete(&self, stamp: Stamp) {
        self.completed(stamp.stream)
            .store(stamp.tick, Ordering::Release);
    }

    /// The comparison that every hazard is.
    fn is_complete(&self, stamp: Stamp) -> bool {
        let order = match cfg!(planted) {
            true => Ordering::Relaxed,
            false => Ordering::Acquire,
        };
        self.completed(stamp.stream).load(order) >= stamp.tick
    }
}

/// Two threads use a block on two streams, at home and away; whoever lets go last sees both uses.
#[test]
#[cfg_attr(planted, should_panic(expected = "a use was forgotten"))]
fn a_free_counts_every_use() {
    let last = outcomes_bounded(|turns| {
        let shared = Shared::new(2);
        let other = shared.clone();
        let reader = turns.spawn(move || other.read_and_let_go(READ));
        turns.next();
        let mine = shared.read_and_let_go(HOME);
        let others = reader.join().unwrap();
        let was_mine = mine.is_some();
        assert!(was_mine ^ others.is_some(), "freed once");
        let uses = mine.or(others).unwrap();
        assert_eq!(uses, [HOME, WRITE, READ], "a use was forgotten");
        was_mine
    });
    assert_eq!(Vec::from_iter(last), [false, true]);
}

/// A result that is read on another stream without a wait is complete, and seen.
#[test]
#[cfg_attr(planted, should_panic(expected = "Causality violation"))]
fn what_is_complete_can_be_read_without_a_wait() {
    let waits = outcomes(|turns| {
        let shared = Shared::new(1);
        let device = Device::new();
        let queue = device.clone();
        let writer = turns.spawn(move || queue.write(WRITE));
        turns.next();
        let written = shared.marks.last_write().unwrap();
        let mut after = After::nothing();
        if device.is_complete(written) {
            after.cover(written);
        }
        let wait = !after.covers(written);
        if wait {
            writer.join().unwrap();
        }
        assert_eq!(device.read(READ), 7);
        wait
    });
    assert_eq!(Vec::from_iter(waits), [false, true]);
}

/// A freed block is used again once all its uses are complete: none of them can still be reading it.
#[test]
#[cfg_attr(planted, should_panic(expected = "Causality violation"))]
fn a_block_is_reused_when_every_use_is_complete() {
    let reuses = outcomes_bounded(|turns| {
        let shared = Shared::new(1);
        let device = Device::new();
        let queues = [WRITE, READ].map(|stamp| {
            shared.marks.read_at(stamp);
            let queue = device.clone();
            turns.spawn(move || queue.read(stamp))
        });
        turns.next();
        let reuse = shared.marks.uses().all(|stamp| device.is_complete(stamp));
        if reuse {
            // SAFETY: what is complete has stopped reading.
            device.memory.with_mut(|memory| unsafe { *memory = 9 });
        }
        for queue in queues {
            queue.join().unwrap();
        }
        reuse
    });
    assert_eq!(Vec::from_iter(reuses), [false, true]);
}

/// Two threads mark at the same moment, on two streams away from home: neither mark erases the other.
#[test]
#[cfg_attr(planted, should_panic(expected = "assertion `left == right` failed"))]
fn marks_of_two_readers_do_not_erase_one_another() {
    outcomes(|turns| {
        let shared = Shared::new(2);
        let other = shared.clone();
        let reader = turns.spawn(move || other.marks.read_at(READ));
        turns.next();
        let mine = Stamp { stream: 7, tick: 2 };
        shared.marks.read_at(mine);
        reader.join().unwrap();
        assert_eq!(Vec::from_iter(shared.marks.uses()), [WRITE, READ, mine]);
        assert_eq!(shared.marks.last_write(), Some(WRITE));
    });
}
