//! The guard in one thread and in several, with a world that writes down what it is asked for.

mod commands;
mod kept;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};

use super::*;

/// A world that takes notes.
struct Notes {
    begun: Instant,
    /// How much later it is.
    later: Mutex<Duration>,
    destroyed: Mutex<Vec<usize>>,
    said: Mutex<Vec<String>>,
    aborts: Mutex<u32>,
}

impl Default for Notes {
    fn default() -> Self {
        Notes {
            begun: Instant::now(),
            later: Mutex::default(),
            destroyed: Mutex::default(),
            said: Mutex::default(),
            aborts: Mutex::default(),
        }
    }
}

impl Notes {
    fn pass(&self, time: Duration) {
        *self.later.lock().unwrap() += time;
    }
}

impl World for Notes {
    fn now(&self) -> Instant {
        self.begun + *self.later.lock().unwrap()
    }

    fn destroy(&self, object: usize, destructor: Destructor) {
        assert_eq!(destructor, DESTRUCTOR);
        self.destroyed.lock().unwrap().push(object);
    }

    fn say(&self, message: &str) {
        self.said.lock().unwrap().push(message.to_owned());
    }

    fn abort(&self) {
        *self.aborts.lock().unwrap() += 1;
    }
}

const DESTRUCTOR: Destructor = Destructor {
    method: 1,
    selector: 2,
};
const ENCODER: usize = 0x1000;
const ONE: Thread = Thread(1);
const TWO: Thread = Thread(2);

const DRAW: Call = Call {
    name: "draw",
    purpose: Purpose::Encode,
};
const END: Call = Call {
    name: "end",
    purpose: Purpose::End,
};
const LABEL: Call = Call {
    name: "label",
    purpose: Purpose::Other,
};

fn guard(settings: Settings) -> Guard<Notes> {
    let guard = Guard::new(settings, Notes::default());
    guard.created(ONE, What::Encoder, ENCODER);
    guard
}

#[track_caller]
fn guarded(verdict: Verdict) -> Pass {
    match verdict {
        Verdict::Guarded(pass) => pass,
        other => panic!("{other:?}"),
    }
}

fn call(guard: &Guard<Notes>, thread: Thread, call: Call) {
    let pass = guarded(guard.enter(thread, What::Encoder, ENCODER, call));
    guard.leave(thread, pass);
}

#[test]
fn a_life_from_creation_to_destruction_is_counted() {
    let guard = guard(Settings::default());
    call(&guard, ONE, DRAW);
    let outer = guarded(guard.enter(ONE, What::Encoder, ENCODER, DRAW));
    call(&guard, ONE, DRAW);
    guard.leave(ONE, outer);
    call(&guard, TWO, LABEL);
    let pass = guarded(guard.destroy(ONE, What::Encoder, ENCODER, DESTRUCTOR));
    assert!(matches!(
        guard.destroy(ONE, What::Encoder, ENCODER, DESTRUCTOR),
        Verdict::Plain
    ));
    assert!(matches!(
        guard.enter(ONE, What::Encoder, ENCODER, DRAW),
        Verdict::Plain
    ));
    guard.leave(ONE, pass);
    let expected = crate::Statistics {
        created: 1,
        destroyed: 1,
        calls: 3,
        nested_calls: 2,
        ..Default::default()
    };
    assert_eq!(guard.figures.read(), expected);
    assert_eq!(*guard.world.said.lock().unwrap(), [""; 0]);
}

#[test]
fn what_comes_after_the_end_is_refused_and_told() {
    let guard = guard(Settings::default());
    call(&guard, ONE, END);
    for _ in 0..20 {
        assert!(matches!(
            guard.enter(TWO, What::Encoder, ENCODER, DRAW),
            Verdict::Refused
        ));
    }
    assert!(matches!(
        guard.enter(ONE, What::Encoder, ENCODER, END),
        Verdict::Refused
    ));
    assert_eq!(guard.figures.read().after_end, 21);
    let said = guard.world.said.lock().unwrap();
    assert_eq!(said.len(), 9, "the first eight, and the sixteenth");
    assert_eq!(
        said[0],
        "draw called on encoder 0x1000 after endEncoding (thread 2): not made; 1 such calls so far"
    );
    assert_eq!(*guard.world.aborts.lock().unwrap(), 0);
}

#[test]
fn an_end_within_another_call_is_an_end_too() {
    let guard = guard(Settings::default());
    let outer = guarded(guard.enter(ONE, What::Encoder, ENCODER, END));
    call(&guard, ONE, END);
    call(&guard, ONE, DRAW);
    guard.leave(ONE, outer);
    assert!(matches!(
        guard.enter(ONE, What::Encoder, ENCODER, DRAW),
        Verdict::Refused
    ));
    assert_eq!(guard.figures.read().ended, 1, "but not another");
}

#[test]
fn by_setting_misuse_aborts() {
    let guard = guard(Settings {
        abort: true,
        ..Settings::default()
    });
    call(&guard, ONE, END);
    assert!(matches!(
        guard.enter(TWO, What::Encoder, ENCODER, DRAW),
        Verdict::Refused
    ));
    assert_eq!(*guard.world.aborts.lock().unwrap(), 1);
    assert!(guard.world.said.lock().unwrap()[0].contains("AGX_FIX_ABORT"));
}

#[test]
fn destruction_waits_for_the_last_call() {
    let guard = guard(Settings {
        verbose: true,
        ..Settings::default()
    });
    let pass = guarded(guard.enter(ONE, What::Encoder, ENCODER, DRAW));
    assert!(matches!(
        guard.destroy(TWO, What::Encoder, ENCODER, DESTRUCTOR),
        Verdict::Refused
    ));
    assert!(
        matches!(
            guard.enter(TWO, What::Encoder, ENCODER, LABEL),
            Verdict::Refused
        ),
        "it came too late"
    );
    // The one in it may go on.
    call(&guard, ONE, LABEL);
    assert_eq!(*guard.world.destroyed.lock().unwrap(), [0; 0]);
    guard.leave(ONE, pass);
    assert_eq!(*guard.world.destroyed.lock().unwrap(), [ENCODER]);
    let read = guard.figures.read();
    assert_eq!(
        (read.deferred, read.destroyed, read.after_destruction),
        (1, 1, 1)
    );
    assert!(guard.world.said.lock().unwrap()[0].contains("lives until that is done"));
}

#[test]
fn a_call_within_its_own_destruction_does_not_wait_for_itself() {
    let guard = guard(Settings::default());
    let pass = guarded(guard.enter(ONE, What::Encoder, ENCODER, DRAW));
    assert!(matches!(
        guard.destroy(ONE, What::Encoder, ENCODER, DESTRUCTOR),
        Verdict::Refused
    ));
    guard.leave(ONE, pass);
    assert_eq!(*guard.world.destroyed.lock().unwrap(), [ENCODER]);
}

#[test]
fn who_just_missed_the_destruction_is_refused() {
    let guard = guard(Settings::default());
    let pass = guarded(guard.destroy(ONE, What::Encoder, ENCODER, DESTRUCTOR));
    guard.leave(ONE, pass);
    assert!(matches!(
        guard.enter(TWO, What::Encoder, ENCODER, DRAW),
        Verdict::Refused
    ));
    assert!(matches!(
        guard.destroy(TWO, What::Encoder, ENCODER, DESTRUCTOR),
        Verdict::Refused
    ));
    assert_eq!(guard.figures.read().after_destruction, 2);
    // Another encoder at the same address.
    guard.created(TWO, What::Encoder, ENCODER);
    call(&guard, TWO, DRAW);
}

#[test]
fn where_encoders_come_unannounced_an_address_proves_nothing() {
    let guard = guard(Settings::default());
    let other = guarded(guard.enter(ONE, What::Encoder, 0x2000, DRAW));
    guard.leave(ONE, other);
    let pass = guarded(guard.destroy(ONE, What::Encoder, ENCODER, DESTRUCTOR));
    guard.leave(ONE, pass);
    call(&guard, TWO, DRAW);
    assert_eq!(guard.figures.read().unannounced, 2);
}

#[test]
fn an_ended_encoder_that_is_handed_out_again_is_new() {
    let guard = guard(Settings::default());
    call(&guard, ONE, END);
    guard.created(ONE, What::Encoder, ENCODER);
    call(&guard, ONE, DRAW);
    assert_eq!(guard.figures.read().created, 1);
}

#[test]
fn an_ended_encoder_that_is_shown_again_stays_ended() {
    let guard = guard(Settings::default());
    call(&guard, ONE, END);
    guard.shown(ONE, ENCODER);
    assert!(matches!(
        guard.enter(ONE, What::Encoder, ENCODER, DRAW),
        Verdict::Refused
    ));
    kept::give_up_for_good(&guard, ENCODER);
    // Another encoder at the same address.
    guard.shown(ONE, ENCODER);
    call(&guard, ONE, DRAW);
    assert_eq!(guard.figures.read().created, 2);
}

#[test]
fn threads_take_turns_in_one_encoder() {
    let guard = guard(Settings::default());
    let inside = Mutex::new(());
    std::thread::scope(|scope| {
        for number in 1..=4 {
            let (guard, inside) = (&guard, &inside);
            scope.spawn(move || {
                let thread = Thread(number);
                for _ in 0..500 {
                    let pass = guarded(guard.enter(thread, What::Encoder, ENCODER, DRAW));
                    drop(inside.try_lock().expect("nobody else is in it"));
                    guard.leave(thread, pass);
                }
            });
        }
    });
    let read = guard.figures.read();
    assert_eq!((read.calls, read.given_up), (2000, 0));
    assert_eq!(read.waits == 0, read.wait_nanoseconds == 0);
}

#[test]
fn a_long_wait_is_told_and_given_up_at_its_limit() {
    let guard = guard(Settings {
        warn_after: Duration::from_millis(5),
        wait_limit: Duration::from_millis(10),
        ..Settings::default()
    });
    let (entered, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let pass = guarded(guard.enter(ONE, What::Encoder, ENCODER, DRAW));
            entered.wait();
            done.wait();
            guard.leave(ONE, pass);
        });
        entered.wait();
        let pass = guarded(guard.enter(TWO, What::Encoder, ENCODER, LABEL));
        // A call from within does not wait once more.
        call(&guard, TWO, DRAW);
        assert!(matches!(
            guard.destroy(ONE, What::Encoder, ENCODER, DESTRUCTOR),
            Verdict::Refused
        ));
        done.wait();
        guard.leave(TWO, pass);
    });
    assert_eq!(*guard.world.destroyed.lock().unwrap(), [ENCODER]);
    let said = guard.world.said.lock().unwrap();
    assert_eq!(
        said[0],
        "label on encoder 0x1000 (thread 2) has waited 5ms for thread 1, which is in draw"
    );
    assert!(said[1].contains("AGX_FIX_WAIT_MS"));
    let read = guard.figures.read();
    assert_eq!((read.long_waits, read.given_up, read.waits), (1, 1, 1));
    assert_eq!((read.calls, read.nested_calls), (2, 1));
    assert!(read.longest_wait_nanoseconds >= 10_000_000);
}

#[test]
fn a_call_that_nobody_comes_back_from_lets_others_in() {
    let guard = guard(Settings::default());
    let pass = guarded(guard.enter(ONE, What::Encoder, ENCODER, END));
    guard.abandon(ONE, pass);
    call(&guard, TWO, DRAW);
    let read = guard.figures.read();
    assert_eq!((read.abandoned, read.ended), (1, 0), "nor was it ended");
}
