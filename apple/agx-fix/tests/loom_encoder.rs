//! Every interleaving of calls on one encoder, its end and its destruction. Built with `--cfg planted`, whether a call is in it is looked
//! at before it is condemned or destroyed, and not at that moment, and so it is freed in use, which must be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
#[path = "../src/logic/mod.rs"]
mod logic;
#[allow(dead_code)]
#[path = "../../../crates/runtime/tests/loom_support/mod.rs"]
mod loom_support;

use std::sync::Arc;
use std::time::Duration;

use logic::guarded::{
    Call, Destruction, Destructor, Entry, Guarded, Hold, Misuse, Patience, Purpose, Thread, What,
};
use loom::cell::UnsafeCell;
use loom_support::{Turns, outcomes, outcomes_bounded};

const DESTRUCTOR: Destructor = Destructor {
    method: 1,
    selector: 2,
};

const PATIENT: Patience = Patience {
    warn_after: Duration::MAX,
    limit: Duration::MAX,
};

const IMPATIENT: Patience = Patience {
    warn_after: Duration::MAX,
    limit: Duration::ZERO,
};

fn call(purpose: Purpose) -> Call {
    Call {
        name: "a call",
        purpose,
    }
}

/// An object of the driver: loom finds any use of it that is not ordered after all others.
struct Object {
    encoder: Guarded,
    /// Whether its memory is there, and whether it is ended.
    memory: UnsafeCell<(bool, bool)>,
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    Yes,
    No(Misuse),
}

impl Object {
    fn new() -> Arc<Self> {
        Arc::new(Object {
            encoder: Guarded::new(What::Encoder, 0x1000),
            memory: UnsafeCell::new((true, false)),
        })
    }

    fn call(&self, turns: &Turns, thread: u64, purpose: Purpose) -> Made {
        let thread = Thread(thread);
        turns.next();
        match self.encoder.enter(thread, call(purpose), PATIENT, |_| {}) {
            Entry::Entered { hold, .. } => {
                assert_eq!(hold, Hold::Alone);
                let ends = purpose == Purpose::End;
                // SAFETY: loom panics if another thread is in it at this time.
                self.memory.with_mut(|memory| unsafe {
                    assert!((*memory).0, "used after free");
                    assert!(
                        purpose == Purpose::Other || !(*memory).1,
                        "used after the end"
                    );
                    (*memory).1 |= ends;
                });
                turns.next();
                if let Some(destructor) = self.encoder.leave(thread, hold, ends).destroy {
                    self.free(destructor);
                }
                Made::Yes
            }
            Entry::Refused {
                misuse, destroy, ..
            } => {
                if let Some(destructor) = destroy {
                    self.free(destructor);
                }
                Made::No(misuse)
            }
            Entry::Destroying => panic!("no call belongs to the destruction"),
        }
    }

    fn destroy(&self, turns: &Turns, thread: u64) -> Destruction {
        turns.next();
        let destruction = self.encoder.destroy(Thread(thread), DESTRUCTOR);
        if destruction == Destruction::Now {
            self.free(DESTRUCTOR);
        }
        destruction
    }

    fn free(&self, destructor: Destructor) {
        assert_eq!(destructor, DESTRUCTOR);
        // SAFETY: loom panics if another thread is in it at this time.
        let had_memory = self
            .memory
            .with_mut(|memory| unsafe { std::mem::replace(&mut (*memory).0, false) });
        assert!(had_memory, "freed twice");
        self.encoder.destroyed();
    }

    fn is_freed(&self) -> bool {
        // SAFETY: all threads have been joined.
        !self.memory.with(|memory| unsafe { (*memory).0 })
    }
}

/// A call and the destruction: whichever comes first, the memory is there during the call, and gone after both.
#[test]
#[cfg_attr(planted, should_panic(expected = "Concurrent write"))]
fn nothing_is_freed_in_use() {
    let results = outcomes(|turns| {
        let object = Object::new();
        let (other, their_turns) = (object.clone(), turns.clone());
        let caller = turns.spawn(move || other.call(&their_turns, 1, Purpose::Encode));
        let destruction = object.destroy(&turns, 2);
        let made = caller.join().unwrap();
        assert!(object.is_freed() && object.encoder.is_gone());
        (made, destruction)
    });
    let expected = [
        (Made::Yes, Destruction::Now),
        (Made::Yes, Destruction::Deferred),
        (Made::No(Misuse::AfterDestruction), Destruction::Now),
    ];
    assert_eq!(Vec::from_iter(results), expected);
}

/// Of two calls that are in it or wait when it is given up, the last frees it; and no call is made after an end.
#[cfg(not(planted))]
#[test]
fn the_last_of_several_frees_it() {
    let results = outcomes_bounded(|turns| {
        let object = Object::new();
        let callers = [(1, Purpose::End), (2, Purpose::Encode)].map(|(thread, purpose)| {
            let (object, their_turns) = (object.clone(), turns.clone());
            turns.spawn(move || object.call(&their_turns, thread, purpose))
        });
        let destruction = object.destroy(&turns, 3);
        let made = callers.map(|caller| caller.join().unwrap());
        assert!(object.is_freed());
        (made, destruction)
    });
    let too_late = Made::No(Misuse::AfterDestruction);
    let expected = [
        ([Made::Yes, Made::Yes], Destruction::Now),
        ([Made::Yes, Made::Yes], Destruction::Deferred),
        ([Made::Yes, Made::No(Misuse::AfterEnd)], Destruction::Now),
        (
            [Made::Yes, Made::No(Misuse::AfterEnd)],
            Destruction::Deferred,
        ),
        ([Made::Yes, too_late], Destruction::Now),
        ([Made::Yes, too_late], Destruction::Deferred),
        ([too_late, Made::Yes], Destruction::Now),
        ([too_late, Made::Yes], Destruction::Deferred),
        ([too_late, too_late], Destruction::Now),
    ];
    assert_eq!(Vec::from_iter(results), expected);
}

/// Of three that want in, each gets its turn, also when the one that was woken goes away again at once.
#[cfg(not(planted))]
#[test]
fn no_waiter_is_overlooked() {
    let refused = outcomes_bounded(|turns| {
        let object = Object::new();
        let callers = [Purpose::Encode, Purpose::Other].map(|purpose| {
            let (object, their_turns) = (object.clone(), turns.clone());
            turns.spawn(move || object.call(&their_turns, 1 + purpose as u64, purpose))
        });
        assert_eq!(object.call(&turns, 9, Purpose::End), Made::Yes);
        callers.map(|caller| caller.join().unwrap())
    });
    let expected = [
        [Made::Yes, Made::Yes],
        [Made::No(Misuse::AfterEnd), Made::Yes],
    ];
    assert_eq!(Vec::from_iter(refused), expected);
}

/// Who waited too long goes on beside the other, and pins the encoder all the same.
#[cfg(not(planted))]
#[test]
fn who_is_beside_another_pins_it_too() {
    let results = outcomes_bounded(|turns| {
        let object = Object::new();
        let callers = [1, 2].map(|thread| {
            let (object, turns) = (object.clone(), turns.clone());
            let their_turns = turns.clone();
            turns.spawn(move || {
                let thread = Thread(thread);
                their_turns.next();
                let entry = object
                    .encoder
                    .enter(thread, call(Purpose::Encode), IMPATIENT, |_| {});
                let Entry::Entered { hold, .. } = entry else {
                    return None;
                };
                // SAFETY: both only read, and loom panics if another writes at this time.
                assert!(object.memory.with(|memory| unsafe { (*memory).0 }));
                their_turns.next();
                if let Some(destructor) = object.encoder.leave(thread, hold, false).destroy {
                    object.free(destructor);
                }
                Some(hold)
            })
        });
        let destruction = object.destroy(&turns, 3);
        let holds = callers.map(|caller| caller.join().unwrap());
        assert!(object.is_freed());
        (holds, destruction)
    });
    let both =
        |destruction| results.contains(&([Some(Hold::Alone), Some(Hold::Beside)], destruction));
    assert!(
        both(Destruction::Now) && both(Destruction::Deferred),
        "{results:?}"
    );
    assert!(!results.contains(&([Some(Hold::Beside); 2], Destruction::Now)));
}
