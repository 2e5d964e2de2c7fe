//! Every interleaving of launches and of calls that shut the gate. Built with `--cfg planted`, opening forgets that
//! launches wait, and so a wake-up is lost, which must be found.
#![cfg(loom)]
// With the bug planted, only the test that must find it is built.
#![cfg_attr(planted, allow(dead_code))]

#[allow(dead_code)]
#[path = "../src/gate.rs"]
mod gate;
#[allow(dead_code)]
#[path = "../src/sync.rs"]
mod sync;

// Not loom's `Arc`, whose drop would turn the report of a deadlock into an abort.
use std::sync::Arc;

use gate::Gate;
use loom::cell::UnsafeCell;
use loom::thread::spawn;

/// What only who has the gate shut may touch: loom reports any two touches that are not ordered.
struct Alone {
    gate: Gate,
    calls: UnsafeCell<u32>,
}

// SAFETY: the cell is touched only by who has the gate shut, and loom reports it if that is not enough.
unsafe impl Sync for Alone {}

impl Alone {
    fn new() -> Arc<Alone> {
        Arc::new(Alone {
            gate: Gate::default(),
            calls: UnsafeCell::new(0),
        })
    }

    fn call(&self) {
        let _shut = self.gate.shut();
        // SAFETY: the gate is shut, by us.
        self.calls.with_mut(|calls| unsafe { *calls += 1 });
    }

    fn calls(&self) -> u32 {
        // SAFETY: called when the other threads are joined.
        self.calls.with(|calls| unsafe { *calls })
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two calls and a launch: everybody gets through, and calls have the lock one at a time.
#[cfg(not(planted))]
#[test]
fn everybody_gets_through() {
    explore(|| {
        let alone = Alone::new();
        let (one, other) = (alone.clone(), alone.clone());
        let calls = [spawn(move || one.call()), spawn(move || other.call())];
        alone.gate.pass();
        for thread in calls {
            thread.join().unwrap();
        }
        alone.call();
        assert_eq!(alone.calls(), 3);
    });
}

/// Two launches that wait are both let through, and a call that comes meanwhile is served after them.
#[cfg(not(planted))]
#[test]
fn launches_that_wait_are_all_let_through() {
    explore(|| {
        let alone = Alone::new();
        let shut = alone.gate.shut();
        let launches = [(); 2].map(|()| {
            let alone = alone.clone();
            spawn(move || alone.gate.pass())
        });
        drop(shut);
        alone.call();
        for thread in launches {
            thread.join().unwrap();
        }
        assert_eq!(alone.calls(), 1);
    });
}

/// The planted bug: an opening that does not wake the launches that wait.
#[cfg(planted)]
#[test]
#[should_panic(expected = "deadlock")]
fn a_lost_wake_up_is_found() {
    explore(|| {
        let alone = Alone::new();
        let shut = alone.gate.shut();
        let launch = {
            let alone = alone.clone();
            spawn(move || alone.gate.pass())
        };
        drop(shut);
        launch.join().unwrap();
    });
}
