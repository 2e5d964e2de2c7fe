//! The engine without threads: what a caller is given to run, and what not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::inbox::Left;
use super::*;
use crate::outcome::Waiter;
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
    engine_of(capacity)
}

const LIMITS: Limits = Limits {
    rows: 8,
    wait: Duration::ZERO,
    passes: 8,
    adaptive: false,
    objective: None,
};

fn engine_of<K: Hash + Eq + Clone, J: Job>(capacity: usize) -> Engine<K, J> {
    let capacity = Capacity {
        requests: capacity,
        bytes: 100,
        of_priority: [usize::MAX; Priority::COUNT],
    };
    Engine::new(Schedule::new(LIMITS, Tenants::new([])), 1, capacity)
}

/// Adds a request, whose deadline is past by now if it is late.
fn add<'a>(
    engine: &'a Engine<u8, Call>,
    call: &Call,
    late: bool,
    helper: bool,
) -> (Result<Admission, Rejected>, Option<Turn<'a, u8, Call>>) {
    let (mut came, turn) = engine.add([(0, one(part(call.clone(), late)))], Full::Refuse, helper);
    (came.pop().unwrap(), turn)
}

/// What a worker would take.
fn taken(engine: &Engine<u8, Call>) -> Option<Turn<'_, u8, Call>> {
    let mut after = After::new();
    engine.take(&mut lock(&engine.state), &mut after);
    after.come()
}

fn part<J>(job: J, late: bool) -> Entry<J> {
    let now = Instant::now();
    Entry {
        job,
        rows: 1,
        bytes: 1,
        tenant: 0,
        priority: Priority::Normal,
        deadline: late.then_some(now),
        behind: None,
        arrived: now.checked_sub(Duration::from_nanos(1)).unwrap(),
    }
}

/// A worker was called for the request of tenant 2, whose time in front is over by then: what is next has to keep its distance.
#[test]
fn the_keeper_is_told_of_what_becomes_first_and_may_not_go_yet() {
    let tenants = Tenants::new([("1", 1.0), ("2", 1.0), ("3", 1.0)]);
    let capacity = Capacity {
        requests: 99,
        bytes: 99,
        of_priority: [usize::MAX; Priority::COUNT],
    };
    let engine = Engine::new(Schedule::new(LIMITS, tenants), 2, capacity);
    lock(&engine.state)
        .schedule
        .learn_of(&0, LIMITS.rows, Duration::from_secs(600));
    let of = |tenant, behind| Entry {
        tenant,
        behind,
        ..part(Call::default(), false)
    };
    let requests = std::iter::once(3).chain([1; 20]);
    let requests = requests.map(|tenant| (0, one(of(tenant, None))));
    let _came = engine.add(requests, Full::Refuse, false);
    let _under_way = taken(&engine).expect("both lanes are free");
    let _came = engine.add([(0, one(of(2, Some(Instant::now()))))], Full::Refuse, false);
    let mut state = lock(&engine.state);
    assert!(state.schedule.is_ready(Instant::now(), false));
    state.keeper_sleeps = Some(None);
    drop(state);
    assert!(taken(&engine).is_none());
    assert_eq!(lock(&engine.state).keeper_sleeps, None, "it is woken");
}

#[test]
fn what_has_expired_is_refused_by_whoever_comes_before_the_keeper() {
    let (engine, late, patient) = (engine(9), Call::default(), Call::default());
    let (came, turn) = add(&engine, &late, true, true);
    assert!(came.is_ok() && turn.is_none());
    assert_eq!(late.0.load(Ordering::Relaxed), 1);

    assert!(add(&engine, &late, true, false).0.is_ok());
    assert!(add(&engine, &patient, false, false).0.is_ok());
    assert_eq!(taken(&engine).expect("one is not late").entries().len(), 1);
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
    engine.close(Shutdown::Drain);
    let (came, turn) = add(&engine, &call, false, true);
    assert!(matches!(came, Err(Rejected::Closed)) && turn.is_none());
    assert!(!engine.is_closed(), "what is queued is still to be run");
    engine.turn(&ids).unwrap().run(&|_, _| Done::default());
    assert!(engine.is_closed());
}

#[test]
fn no_worker_need_come_for_what_its_caller_runs() {
    let (engine, call) = (engine(9), Call::default());
    // A worker looks out.
    lock(&engine.state).idle = 1;
    let Ok(Admission::Queued(ids)) = add(&engine, &call, false, false).0 else {
        panic!("there is room");
    };
    assert!(engine.calling.load(Ordering::Relaxed), "it is called");
    let turn = engine.turn(&ids).unwrap();
    assert!(!engine.calling.load(Ordering::Relaxed));
    assert_eq!(lock(&engine.state).calls, 0);
    turn.run(&|_, _| Done::default());
}

#[test]
fn a_lane_is_freed_whatever_becomes_of_its_batch() {
    let (engine, call) = (engine(9), Call::default());
    let (_, turn) = add(&engine, &call, false, true);
    let (came, other) = add(&engine, &call, false, true);
    assert!(other.is_none(), "the lane is taken");
    turn.unwrap().run(&|_, _| panic!("on purpose"));
    assert_eq!(engine.look(|_, _, running| running), 0);
    let Ok(Admission::Queued(ids)) = came else {
        panic!("there is room");
    };
    assert!(engine.turn(&ids).is_some());
    assert!(engine.turn(&ids).is_none(), "it is gone");
    assert!(lock(&engine.state).is_door_open, "nothing is under way");
}

/// As [`add`], by the inbox.
fn leave<'a>(engine: &'a Engine<u8, Call>, call: &Call, late: bool) -> Option<Turn<'a, u8, Call>> {
    engine.leave(0, one(part(call.clone(), late)), Full::Refuse)
}

#[test]
fn who_leaves_a_request_runs_it_if_nothing_else_is_to_be_done() {
    let (engine, call) = (engine(2), Call::default());
    let turn = leave(&engine, &call, false).expect("it is alone");
    assert!(leave(&engine, &call, false).is_none(), "the lane is taken");
    assert!(leave(&engine, &call, false).is_none());
    assert!(leave(&engine, &call, false).is_none());
    assert_eq!(call.0.load(Ordering::Relaxed), 1, "one found no room");
    turn.run(&|_, _| Done::default());
    assert!(add(&engine, &call, false, false).0.is_err(), "it is full");
    assert_eq!(taken(&engine).expect("two wait").entries().len(), 2);
}

#[test]
fn who_is_late_leaves_nothing_and_is_told() {
    let (engine, call) = (engine(9), Call::default());
    assert!(leave(&engine, &call, true).is_none());
    assert_eq!(call.0.load(Ordering::Relaxed), 1);
    engine.close(Shutdown::Drain);
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

/// Whether whoever drops this has the lock of the engine, which it may ask for something.
struct Foreign(std::sync::Weak<Engine<u8, Foreign>>, Arc<AtomicUsize>);

impl Job for Foreign {
    fn refuse(self, _: Rejected) -> Option<Waiter> {
        None
    }

    fn settles(&self) -> bool {
        true
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if self
            .0
            .upgrade()
            .is_some_and(|engine| engine.state.try_lock().is_err())
        {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn nothing_foreign_is_dropped_under_the_lock() {
    let engine = Arc::new(engine_of::<u8, Foreign>(1));
    let under_lock = Arc::new(AtomicUsize::new(0));
    let foreign = |late: bool| {
        let job = Foreign(Arc::downgrade(&engine), under_lock.clone());
        one(part(job, late))
    };
    // No room, too late, and given up: by those who come with it, and by who finds it in the inbox.
    let (came, _) = engine.add(
        [(0, foreign(false)), (0, foreign(false))],
        Full::Refuse,
        false,
    );
    assert!(matches!(came[..], [Ok(_), Err(Rejected::Full { .. })]));
    drop(engine.leave(0, foreign(false), Full::Refuse));
    drop(engine.leave(0, foreign(true), Full::Refuse));
    let (_, _) = engine.add([(0, foreign(true))], Full::Refuse, true);
    let Ok(Admission::Queued(ids)) = &came[0] else {
        panic!("there is room");
    };
    engine.cancel(ids);
    let (_, _) = engine.add([(0, foreign(false))], Full::Refuse, false);
    engine.close(Shutdown::Cancel);
    assert_eq!(under_lock.load(Ordering::Relaxed), 0);
}

/// A kind that panics when it is looked up, if it says so.
#[derive(Clone, PartialEq, Eq)]
struct Kind(bool);

impl Hash for Kind {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {
        assert!(!self.0, "on purpose");
    }
}

/// Who is let in when a batch goes makes the engine panic, under its lock and with the lane taken.
#[test]
fn a_panic_in_the_engine_gives_back_the_lane_and_what_it_held() {
    struct Told(Arc<AtomicUsize>);
    impl Job for Told {
        fn refuse(self, _: Rejected) -> Option<Waiter> {
            None
        }
        fn settles(&self) -> bool {
            true
        }
    }
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let told = Arc::new(AtomicUsize::new(0));
    let request = |panics| (Kind(panics), one(part(Told(told.clone()), false)));
    let engine = engine_of::<Kind, Told>(1);
    let (came, _) = engine.add([request(false), request(true)], Full::Hold, false);
    let [Ok(Admission::Queued(ids)), Ok(Admission::Held(place))] = &came[..] else {
        panic!("there is room for one");
    };
    let turn = std::panic::AssertUnwindSafe(|| engine.turn(ids).is_some());
    assert!(std::panic::catch_unwind(turn).is_err());
    assert!(place.wait().is_none(), "who waits outside is told");
    assert_eq!(told.load(Ordering::Relaxed), 2);
    assert_eq!(engine.look(|_, _, running| running), 0);
    let (came, turn) = engine.add([request(false)], Full::Refuse, true);
    assert!(came[0].is_ok() && turn.is_some());
}

#[test]
fn who_comes_for_nothing_tells_those_that_it_refused() {
    let (engine, call) = (engine(1), Call::default());
    assert!(add(&engine, &call, false, false).0.is_ok());
    let left = Left {
        kind: 0,
        parts: one(part(call.clone(), false)),
        when_full: Full::Refuse,
    };
    engine.inbox.leave(left);
    assert!(engine.turn(&[]).is_none());
    assert_eq!(call.0.load(Ordering::Relaxed), 1, "there is no room");
}

/// It was in the inbox already when the other came, which needs the lock anyway.
#[test]
fn who_left_a_request_before_goes_before() {
    let (engine, call) = (engine(9), Call::default());
    let (_, turn) = add(&engine, &call, false, true);
    let early = Entry {
        bytes: 7,
        ..part(call.clone(), false)
    };
    engine.inbox.leave(Left {
        kind: 0,
        parts: one(early),
        when_full: Full::Refuse,
    });
    assert!(add(&engine, &call, false, false).0.is_ok());
    turn.unwrap().run(&|_, _| Done::default());
    let next = taken(&engine).expect("two wait");
    let bytes: Vec<usize> = next.entries().iter().map(|entry| entry.bytes).collect();
    assert_eq!(bytes, [7, 1]);
}

/// What waits in the inbox is somebody else's: who waits for a ticket does not run it.
#[test]
fn nobody_runs_what_others_have_left() {
    let (engine, call) = (engine(9), Call::default());
    let Ok(Admission::Queued(ids)) = add(&engine, &call, false, false).0 else {
        panic!("there is room");
    };
    engine.inbox.leave(Left {
        kind: 1,
        parts: one(part(call.clone(), false)),
        when_full: Full::Refuse,
    });
    assert!(engine.turn(&ids).is_none());
}

#[test]
fn what_is_late_or_too_large_does_not_go_by_the_door() {
    let engine = engine(9);
    drop(add(&engine, &Call::default(), false, true));
    let goes = |bytes, left: Duration| {
        let now = Instant::now();
        let entry = Entry {
            bytes,
            deadline: Some(now + left),
            arrived: now,
            ..part(Call::default(), false)
        };
        let run = |_, _| crate::figures::Done::default();
        engine.run_at_once(&0, one(entry), &run).is_ok()
    };
    assert!(goes(100, Duration::from_secs(60)));
    assert!(!goes(101, Duration::from_secs(60)));
    assert!(!goes(100, Duration::ZERO));
}

#[test]
fn who_comes_last_runs_all_that_waits_if_that_is_one_batch() {
    for (kind, is_one) in [(0, true), (1, false)] {
        let (engine, call) = (engine(9), Call::default());
        assert!(add(&engine, &call, false, false).1.is_none());
        let last = one(part(call.clone(), false));
        let (_, turn) = engine.add([(kind, last)], Full::Refuse, true);
        assert_eq!(turn.is_some(), is_one);
    }
}

#[test]
fn of_those_outside_only_the_late_are_turned_away() {
    let (engine, late, patient) = (engine(1), Call::default(), Call::default());
    assert!(add(&engine, &patient, false, false).0.is_ok());
    for (call, is_late) in [(&late, true), (&patient, false)] {
        let parts = one(part(call.clone(), is_late));
        let (came, _) = engine.add([(0, parts)], Full::Hold, false);
        assert!(matches!(came[0], Ok(Admission::Held(_))));
    }
    let mut after = After::new();
    engine.expire(&mut lock(&engine.state), Instant::now(), &mut after);
    assert!(after.come().is_none());
    let refused = [late, patient].map(|call| call.0.load(Ordering::Relaxed));
    assert_eq!(refused, [1, 0]);
}
