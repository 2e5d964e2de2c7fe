//! Every interleaving of calls on an object with its destruction and the creation of another at its address. Built with
//! `--cfg planted`, an address that is not known is looked up and entered in two steps, and so two threads have different encoders for one
//! object, which must be found.
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
use std::time::{Duration, Instant};

use logic::guard::{Guard, Verdict, World};
use logic::guarded::{Call, Destructor, Purpose, Thread, What};
use logic::quarantine::LONGEST;
use logic::settings::Settings;
use loom::cell::UnsafeCell;
use loom_support::{Turns, outcomes, outcomes_bounded};

const OBJECT: usize = 0x1000;
const DESTRUCTOR: Destructor = Destructor {
    method: 1,
    selector: 2,
};
const DRAW: Call = Call {
    name: "draw",
    purpose: Purpose::Encode,
};
const END: Call = Call {
    name: "end",
    purpose: Purpose::End,
};
const MAKE: Call = Call {
    name: "make",
    purpose: Purpose::Apart,
};

/// The one place where objects are: which life it leads there, if any. Loom finds uses that are not ordered.
struct Memory {
    life: UnsafeCell<Option<u32>>,
    now: Clock,
}

/// A clock that stands still until it is set on.
struct Clock {
    begun: Instant,
    later: loom::sync::Mutex<Duration>,
}

impl Clock {
    fn set(&self, later: Duration) {
        *self.later.lock().unwrap() = later;
    }
}

impl Memory {
    fn set(&self, life: Option<u32>) -> Option<u32> {
        // SAFETY: loom panics if another thread is at it at this time.
        self.life
            .with_mut(|place| unsafe { std::mem::replace(&mut *place, life) })
    }
}

impl World for Arc<Memory> {
    fn destroy(&self, object: usize, destructor: Destructor) {
        assert_eq!((object, destructor), (OBJECT, DESTRUCTOR));
        assert!(self.set(None).is_some(), "freed twice");
    }

    fn now(&self) -> Instant {
        self.now.begun + *self.now.later.lock().unwrap()
    }

    fn say(&self, _: &str) {}

    fn abort(&self) {
        panic!("no setting asks for it");
    }
}

type Process = Arc<Guard<Arc<Memory>>>;

/// A process with one object.
fn process() -> Process {
    let settings = Settings {
        warn_after: Duration::MAX,
        wait_limit: Duration::MAX,
        ..Settings::default()
    };
    Arc::new(Guard::new(
        settings,
        Arc::new(Memory {
            life: UnsafeCell::new(Some(1)),
            now: Clock {
                begun: Instant::now(),
                later: loom::sync::Mutex::default(),
            },
        }),
    ))
}

/// Which life a call was made in, if it was made.
fn call(guard: &Process, turns: &Turns, thread: u64) -> Option<u32> {
    turns.next();
    match guard.enter(Thread(thread), What::Encoder, OBJECT, DRAW) {
        Verdict::Guarded(pass) => {
            let life = guard.world.set(None).expect("the object is there");
            guard.world.set(Some(life));
            turns.next();
            guard.leave(Thread(thread), pass);
            Some(life)
        }
        Verdict::Refused => None,
        Verdict::Plain => panic!("no call belongs to another"),
    }
}

/// The last reference is given up. Says whether the object is destroyed at once.
fn destroy(guard: &Process, turns: &Turns, thread: u64) -> bool {
    turns.next();
    match guard.destroy(Thread(thread), What::Encoder, OBJECT, DESTRUCTOR) {
        Verdict::Guarded(pass) => {
            guard.world.destroy(OBJECT, DESTRUCTOR);
            guard.leave(Thread(thread), pass);
            true
        }
        Verdict::Refused => false,
        Verdict::Plain => panic!("it has one destructor"),
    }
}

/// Two threads that meet an encoder nobody announced are in it one after the other.
#[test]
#[cfg_attr(planted, should_panic(expected = "Concurrent write"))]
fn one_object_has_one_encoder() {
    let lives = outcomes(|turns| {
        let guard = process();
        let (theirs, their_turns) = (guard.clone(), turns.clone());
        let other = turns.spawn(move || call(&theirs, &their_turns, 1));
        let own = call(&guard, &turns, 2);
        let read = guard.figures.read();
        let lives = (own, other.join().unwrap());
        assert!(read.unannounced <= 1 && guard.figures.read().calls == 2);
        lives
    });
    assert_eq!(Vec::from_iter(lives), [(Some(1), Some(1))]);
}

/// Who calls while an object is destroyed is in it, or is refused; and it is destroyed once.
#[cfg(not(planted))]
#[test]
fn a_call_meets_a_living_object_or_none() {
    let results = outcomes(|turns| {
        let guard = process();
        guard.created(Thread(3), What::Encoder, OBJECT);
        let (theirs, their_turns) = (guard.clone(), turns.clone());
        let caller = turns.spawn(move || call(&theirs, &their_turns, 1));
        let at_once = destroy(&guard, &turns, 2);
        let life = caller.join().unwrap();
        let read = guard.figures.read();
        assert_eq!(guard.world.set(None), None, "it is gone");
        assert_eq!((read.destroyed, read.deferred), (1, u64::from(!at_once)));
        assert_eq!(read.after_destruction, u64::from(life.is_none()));
        (life, at_once)
    });
    let expected = [(None, true), (Some(1), false), (Some(1), true)];
    assert_eq!(Vec::from_iter(results), expected);
}

/// An object is made where another has just been, while the thread that destroyed that one is not done with its books: calls on
/// the new one are made.
#[cfg(not(planted))]
#[test]
fn an_address_that_is_used_again_is_another_object() {
    let results = outcomes_bounded(|turns| {
        let guard = process();
        guard.created(Thread(3), What::Encoder, OBJECT);
        let freed = Arc::new(loom::sync::Mutex::new(false));
        let (theirs, their_turns, now_free) = (guard.clone(), turns.clone(), freed.clone());
        let destroyer = turns.spawn(move || {
            let Verdict::Guarded(pass) =
                theirs.destroy(Thread(1), What::Encoder, OBJECT, DESTRUCTOR)
            else {
                panic!("nobody is in it");
            };
            theirs.world.destroy(OBJECT, DESTRUCTOR);
            *now_free.lock().unwrap() = true;
            their_turns.next();
            theirs.leave(Thread(1), pass);
        });
        turns.next();
        let used_again = *freed.lock().unwrap();
        if used_again {
            guard.world.set(Some(2));
            guard.created(Thread(2), What::Encoder, OBJECT);
            assert_eq!(call(&guard, &turns, 2), Some(2));
        }
        destroyer.join().unwrap();
        if used_again {
            assert_eq!(
                call(&guard, &turns, 2),
                Some(2),
                "the old one's end is not its own"
            );
            assert!(destroy(&guard, &turns, 3));
            assert_eq!(call(&guard, &turns, 2), None, "it is remembered to be gone");
        }
        used_again
    });
    assert_eq!(Vec::from_iter(results), [false, true]);
}

/// An encoder is ended and given up while another thread makes a call on it, and what was kept is let go: the call is made before the end,
/// or refused, and the encoder is destroyed once.
#[cfg(not(planted))]
#[test]
fn a_call_on_an_encoder_that_is_kept_is_refused() {
    let results = outcomes_bounded(|turns| {
        let guard = process();
        guard.created(Thread(3), What::Encoder, OBJECT);
        let (theirs, their_turns) = (guard.clone(), turns.clone());
        let caller = turns.spawn(move || call(&theirs, &their_turns, 1));
        let Verdict::Guarded(end) = guard.enter(Thread(2), What::Encoder, OBJECT, END) else {
            panic!("it lives, and is not ended");
        };
        turns.next();
        guard.leave(Thread(2), end);
        assert!(!destroy(&guard, &turns, 2), "it is kept");
        let life = caller.join().unwrap();
        guard.world.now.set(LONGEST);
        guard.before_command_buffer(Thread(2), 0);
        assert_eq!(guard.world.set(None), None, "it is gone");
        let read = guard.figures.read();
        assert_eq!((read.kept, read.destroyed), (1, 1));
        assert_eq!(
            read.after_end + read.after_destruction,
            u64::from(life.is_none())
        );
        life
    });
    assert_eq!(Vec::from_iter(results), [None, Some(1)]);
}

/// A thread that wants an encoder of a command buffer gets it when another thread has ended its own, and is woken for that.
#[cfg(not(planted))]
#[test]
fn who_waits_for_an_open_encoder_is_woken_by_its_end() {
    const COMMANDS: usize = 0x2000;
    let results = outcomes_bounded(|turns| {
        let guard = process();
        guard.made(Thread(1), COMMANDS, 0);
        let make = |guard: &Process, thread| match guard.enter(
            thread,
            What::CommandBuffer,
            COMMANDS,
            MAKE,
        ) {
            Verdict::Guarded(pass) => pass,
            other => panic!("{other:?}"),
        };
        let pass = make(&guard, Thread(1));
        guard.opened(Thread(1), OBJECT, &pass);
        guard.leave(Thread(1), pass);
        let (theirs, their_turns) = (guard.clone(), turns.clone());
        let ender = turns.spawn(move || {
            their_turns.next();
            let verdict = theirs.enter(Thread(1), What::Encoder, OBJECT, END);
            let Verdict::Guarded(pass) = verdict else {
                panic!("{verdict:?}");
            };
            theirs.leave(Thread(1), pass);
        });
        turns.next();
        let pass = make(&guard, Thread(2));
        assert_eq!(guard.figures.read().ended, 1, "it is ended by now");
        guard.leave(Thread(2), pass);
        ender.join().unwrap();
        guard.figures.read().waits
    });
    assert_eq!(Vec::from_iter(results), [0, 1]);
}
