//! The engine without threads: what a caller is given to run, and what not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::schedule::{Limits, Priority, Tenants};

/// Counts those that were refused.
#[derive(Clone, Default)]
struct Call(Arc<AtomicUsize>);

impl Job for Call {
    fn refuse(self, _: Rejected) -> Option<Waiter> {
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn settles(&self) -> bool {
        true
    }
}

fn engine(capacity: usize) -> Engine<u8, Call> {
    let limits = Limits {
        rows: 8,
        wait: Duration::ZERO,
        passes: 8,
        adaptive: false,
        objective: None,
    };
    let capacity = Capacity {
        requests: capacity,
        bytes: 100,
    };
    Engine::new(Schedule::new(limits, Tenants::new([])), 1, capacity)
}

/// Adds a request, whose deadline is past by now if it is late.
fn add(
    engine: &Engine<u8, Call>,
    call: &Call,
    late: bool,
    helper: bool,
) -> (Result<Admission, Rejected>, Option<Turn<Call>>) {
    let (mut came, turn) = engine.add([(0, one(part(call, late)))], Full::Refuse, helper);
    (came.pop().unwrap(), turn)
}

fn part(call: &Call, late: bool) -> Entry<Call> {
    let now = Instant::now();
    Entry {
        job: call.clone(),
        rows: 1,
        bytes: 1,
        tenant: 0,
        priority: Priority::Normal,
        deadline: late.then_some(now),
        arrived: now.checked_sub(Duration::from_nanos(1)).unwrap(),
    }
}

#[test]
fn what_has_expired_is_refused_by_whoever_comes_before_the_keeper() {
    let (engine, late, patient) = (engine(9), Call::default(), Call::default());
    let (came, turn) = add(&engine, &late, true, true);
    assert!(came.is_ok() && turn.is_none());
    assert_eq!(late.0.load(Ordering::Relaxed), 1);

    assert!(add(&engine, &late, true, false).0.is_ok());
    assert!(add(&engine, &patient, false, false).0.is_ok());
    let (turn, _) = engine.take(&mut lock(&engine.state));
    assert_eq!(turn.expect("one is not late").group.entries.len(), 1);
    assert_eq!(late.0.load(Ordering::Relaxed), 2);
    assert_eq!(patient.0.load(Ordering::Relaxed), 0);
    let expired = engine.look(|_, figures, _| figures.tenants[0].fates.expired);
    assert_eq!(expired, 2);
}

#[test]
fn a_caller_who_is_refused_has_nothing_to_run() {
    let (engine, call) = (engine(1), Call::default());
    let Ok(Admission::Queued(ids)) = add(&engine, &call, false, false).0 else {
        panic!("there is room");
    };
    let (came, turn) = add(&engine, &call, false, true);
    assert!(matches!(came, Err(Rejected::Full { .. })) && turn.is_none());
    engine.close(Close::Drain);
    let (came, turn) = add(&engine, &call, false, true);
    assert!(matches!(came, Err(Rejected::Closed)) && turn.is_none());
    assert!(!engine.is_closed(), "what is queued is still to be run");
    engine.run(engine.turn(&ids).unwrap(), &|_, _| Done::default());
    assert!(engine.is_closed());
}

#[test]
fn a_lane_is_freed_whatever_becomes_of_its_batch() {
    let (engine, call) = (engine(9), Call::default());
    let (_, turn) = add(&engine, &call, false, true);
    let (came, other) = add(&engine, &call, false, true);
    assert!(other.is_none(), "the lane is taken");
    let run = |_, _| panic!("on purpose");
    let run = std::panic::AssertUnwindSafe(|| engine.run(turn.unwrap(), &run));
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(engine.look(|_, _, running| running), 0);
    let Ok(Admission::Queued(ids)) = came else {
        panic!("there is room");
    };
    assert!(engine.turn(&ids).is_some());
    assert!(engine.turn(&ids).is_none(), "it is gone");
}

/// As [`add`], by the inbox.
fn leave(engine: &Engine<u8, Call>, call: &Call, late: bool) -> Option<Turn<Call>> {
    engine.leave(0, one(part(call, late)), Full::Refuse)
}

#[test]
fn who_leaves_a_request_runs_it_if_nothing_else_is_to_be_done() {
    let (engine, call) = (engine(2), Call::default());
    let turn = leave(&engine, &call, false).expect("it is alone");
    assert!(leave(&engine, &call, false).is_none(), "the lane is taken");
    assert!(leave(&engine, &call, false).is_none());
    assert!(leave(&engine, &call, false).is_none());
    assert_eq!(call.0.load(Ordering::Relaxed), 1, "one found no room");
    engine.run(turn, &|_, _| Done::default());
    assert!(add(&engine, &call, false, false).0.is_err(), "it is full");
    let (turn, _) = engine.take(&mut lock(&engine.state));
    assert_eq!(turn.expect("two wait").group.entries.len(), 2);
}

#[test]
fn who_is_late_leaves_nothing_and_is_told() {
    let (engine, call) = (engine(9), Call::default());
    assert!(leave(&engine, &call, true).is_none());
    assert_eq!(call.0.load(Ordering::Relaxed), 1);
    engine.close(Close::Drain);
    assert!(leave(&engine, &call, false).is_none());
    assert_eq!(call.0.load(Ordering::Relaxed), 2);
}

/// The figures are those that the request met, not those of later.
#[test]
fn who_is_refused_is_told_what_it_met() {
    let (engine, call) = (engine(1), Call::default());
    assert!(add(&engine, &call, false, false).0.is_ok());
    let Err(Rejected::Full {
        requests,
        bytes,
        setting,
        retry_after,
    }) = add(&engine, &call, false, false).0
    else {
        panic!("there is no room");
    };
    assert_eq!((requests, bytes, setting), (1, 1, "capacity"));
    assert!(retry_after >= Duration::from_millis(1));
}
