//! Faults: whom they reach, whom they spare, and how a queue recovers.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use streampool_device::{Error, EventStatus, Fault, Flush, Op, OpKind, Progress, View};

use crate::build::{Load, add, copy, fill};
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::patience::{patience, poll_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the next op fail, and returns the tick it failed at.
fn fail(fixture: &Fixture, lane: &mut Lane, view: View) -> u64 {
    lane.sync();
    fixture.arm_fault(lane);
    lane.run(&fill(view, -1.0))
}

fn fault_of(result: Result<(), Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => fault,
        other => panic!("expected Fault, got {other:?}"),
    }
}

fn check_fault(fault: &Fault, lane: &Lane, tick: u64, op: OpKind) {
    assert_eq!(
        (fault.queue(), fault.tick(), fault.op()),
        (lane.label().as_str(), tick, op)
    );
    assert!(!fault.message().is_empty());
}

/// A fault reaches who waits, with its queue, tick and op; what was before it succeeded, and what follows
/// is over but not executed.
pub fn a_fault_reaches_who_waits(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let (view, before) = (fixture.tensor::<f32>(&[8]), fixture.tensor::<f32>(&[8]));
    let good = lane.run(&fill(before, 1.0));
    let tick = fail(fixture, &mut lane, view);
    let after = lane.encode(&fill(before, 2.0));
    let fault = fault_of(lane.progress().wait(tick, patience()));
    check_fault(&fault, &lane, tick, OpKind::Fill);
    let progress = lane.progress();
    assert_eq!(progress.fault(), Some(fault.clone()));
    assert_eq!(
        progress.wait(good, patience()),
        Ok(()),
        "what was before it succeeded"
    );
    if let Ok(after) = after {
        assert_eq!(fault_of(progress.wait(after, patience())), fault);
        assert!(progress.completed() >= after, "what follows is over");
    }
    assert_eq!(
        fixture.lane().get::<f32>(before),
        [1.0; 8],
        "what follows is not executed"
    );
}

/// A poisoned queue refuses every append with the fault.
pub fn a_poisoned_queue_refuses_appends(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    let event = fixture.event();
    lane.record(&*event).expect("an event can be recorded");
    let program = lane.capture(&[fill(view, 1.0)], &[]);
    fail(fixture, &mut lane, view);
    let fault = fault_of(lane.try_sync());
    let refused = [
        ("encode", lane.encode(&Op::Nop).map(drop)),
        ("upload", lane.upload(view.span(), &[0; 4]).map(drop)),
        ("download", lane.download(view.span()).map(drop)),
        ("record", lane.record(&*event).map(drop)),
        ("wait", lane.wait(&*event).map(drop)),
        ("on_complete", lane.on_complete(Box::new(|_| ())).map(drop)),
        ("replay", lane.replay(&program, &[]).map(drop)),
    ];
    for (call, result) in refused {
        assert_eq!(result, Err(Error::Poisoned(fault.clone())), "{call}");
    }
}

/// Events recorded after the fault complete with it; those before it completed without.
pub fn events_complete_with_the_fault(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    let (before, after) = (fixture.timed_event(), fixture.timed_event());
    lane.record(&*before).expect("an event can be recorded");
    let load = Load::new(fixture);
    load.append(&mut lane, 1);
    lane.sync();
    let recorded = {
        fixture.arm_fault(&lane);
        // One append after another may already find the queue poisoned.
        lane.run(&fill(view, -1.0));
        lane.record(&*after)
    };
    let fault = fault_of(lane.try_sync());
    assert_eq!(before.query(), Ok(EventStatus::Complete));
    assert_eq!(before.wait(patience()), Ok(()));
    if recorded.is_ok() {
        assert_eq!(after.wait(patience()), Err(Error::Fault(fault.clone())));
        assert_eq!(after.query(), Err(Error::Fault(fault.clone())));
        assert_eq!(
            after.elapsed_since(&*before),
            Err(Error::Fault(fault.clone()))
        );
        lane.recover().expect("it can be recovered");
        assert_eq!(
            after.wait(patience()),
            Err(Error::Fault(fault)),
            "its recording stays faulty"
        );
    } else {
        lane.recover().expect("it can be recovered");
    }
    lane.record(&*after).expect("an event can be recorded");
    lane.sync();
    assert_eq!(
        after.query(),
        Ok(EventStatus::Complete),
        "a new recording is a new start"
    );
}

/// Handlers before the fault are called with success, those after it with the fault, each once.
pub fn handlers_are_called_with_the_fault(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    let (sender, receiver) = mpsc::channel();
    let mut expected = 1;
    let send = |number: u32| {
        let sender = sender.clone();
        Box::new(move |result| sender.send((number, result)).expect("the test listens"))
    };
    lane.on_complete(send(0)).expect("a handler can be added");
    let tick = fail(fixture, &mut lane, view);
    for number in 1..4 {
        match lane.on_complete(send(number)) {
            Ok(_) => expected += 1,
            Err(error) => assert!(matches!(error, Error::Poisoned(_)), "{error}"),
        }
    }
    let fault = fault_of(lane.progress().wait(tick, patience()));
    drop(sender);
    let mut calls = Vec::new();
    while let Ok(call) = receiver.recv_timeout(PATIENCE) {
        calls.push(call);
    }
    assert_eq!(calls.len(), expected);
    assert_eq!(calls[0], (0, Ok(())));
    for (number, call) in calls.iter().enumerate().skip(1) {
        assert_eq!(call, &(number as u32, Err(fault.clone())));
    }
}

/// A queue dropped with a fault in flight still calls its handlers, with the fault.
pub fn a_dropped_queue_reports_its_fault(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    let tick = fail(fixture, &mut lane, view);
    let (sender, receiver) = mpsc::channel();
    let added = lane.on_complete(Box::new(move |result| {
        sender.send(result).expect("the test listens")
    }));
    let progress = lane.progress();
    let label = lane.label();
    drop(lane);
    let fault = fault_of(progress.wait(tick, patience()));
    assert_eq!((fault.queue(), fault.tick()), (label.as_str(), tick));
    if added.is_ok() {
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Err(fault)));
    }
}

/// A wait for a recording that completes with a fault is released and does not poison the waiter.
pub fn a_waiting_queue_is_released_unharmed(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let (mut lane, mut waiter) = (fixture.lane(), fixture.lane());
    let (view, own) = (fixture.tensor::<f32>(&[8]), fixture.tensor::<f32>(&[8]));
    let event = fixture.event();
    fail(fixture, &mut lane, view);
    if lane.record(&*event).is_err() {
        lane.recover().expect("it can be recovered");
        return;
    }
    waiter.wait(&*event).expect("it was recorded");
    waiter.run(&fill(own, 3.0));
    assert_eq!(waiter.get::<f32>(own), [3.0; 8]);
    assert_eq!(waiter.progress().fault(), None);
    assert!(matches!(event.query(), Err(Error::Fault(_))));
}

/// Other queues go on while one fails.
pub fn other_queues_go_on(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut failing = fixture.lane();
    let victim = fixture.tensor::<f32>(&[8]);
    std::thread::scope(|scope| {
        for _ in 0..30 {
            let mut lane = fixture.lane();
            scope.spawn(move || {
                let view = fixture.tensor::<i32>(&[50]);
                lane.run(&fill(view, 0));
                for round in 0..100 {
                    lane.run(&add(view, 1.0));
                    if round % 10 == 0 {
                        lane.sync();
                    }
                }
                assert_eq!(lane.get::<i32>(view), [100; 50]);
            });
        }
        for _ in 0..20 {
            let tick = fail(fixture, &mut failing, victim);
            let fault = fault_of(failing.try_sync());
            check_fault(&fault, &failing, tick, OpKind::Fill);
            failing.recover().expect("it can be recovered");
        }
    });
}

/// A recovered queue works again: the fault is gone, ticks go on, and waits for the old ticks succeed.
pub fn a_queue_recovers(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    for round in 0..10 {
        let failed = fail(fixture, &mut lane, view);
        let last = lane.encode(&add(view, 1.0)).unwrap_or(failed);
        lane.flush(Flush::Start).expect("a flush succeeds");
        if round % 2 == 0 {
            fault_of(lane.progress().wait(failed, patience()));
        } else {
            // Poisoned, while what was appended after it may still be under way.
            let progress = lane.progress();
            poll_until("the fault", || progress.fault().is_some());
        }
        lane.recover().expect("it can be recovered");
        let progress = lane.progress();
        assert!(
            progress.completed() >= last,
            "recovering waits for what was appended"
        );
        assert_eq!(progress.fault(), None);
        assert_eq!(
            progress.wait(failed, patience()),
            Ok(()),
            "the fault is recovered"
        );
        assert_eq!(lane.run(&fill(view, f64::from(round))), last + 1);
        assert_eq!(lane.get::<f32>(view), [round as f32; 8]);
    }
}

/// Recovering a queue without poison does nothing.
pub fn recovering_without_poison_does_nothing(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    lane.recover().expect("nothing to do");
    lane.run(&fill(view, 1.0));
    lane.recover().expect("nothing to do");
    assert_eq!(lane.run(&add(view, 1.0)), 2);
    assert_eq!(lane.get::<f32>(view), [2.0; 8]);
    assert_eq!(lane.progress().fault(), None);
}

/// The op of a fault inside a replay is the replay, and its program is unharmed.
pub fn a_replay_fails_as_one_command(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    let program = lane.capture(&[fill(view, 1.0), add(view, 1.0)], &[]);
    fixture.arm_fault(&lane);
    let tick = lane.replay(&program, &[]).expect("it can be replayed");
    let fault = fault_of(lane.try_sync());
    check_fault(&fault, &lane, tick, OpKind::Replay);
    lane.recover().expect("it can be recovered");
    lane.replay(&program, &[]).expect("it can be replayed");
    assert_eq!(lane.get::<f32>(view), [2.0; 8]);
}

/// Faults on many queues at once reach each its own callers.
pub fn each_queue_gets_its_own_fault(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut lane = fixture.lane();
            scope.spawn(move || {
                let (view, twin) = (fixture.tensor::<f32>(&[64]), fixture.tensor::<f32>(&[64]));
                for round in 0..25 {
                    let tick = fail(fixture, &mut lane, view);
                    let fault = fault_of(lane.try_sync());
                    check_fault(&fault, &lane, tick, OpKind::Fill);
                    lane.recover().expect("it can be recovered");
                    lane.run(&fill(view, f64::from(round)));
                    lane.run(&copy(view, twin));
                    assert_eq!(lane.get::<f32>(twin), [round as f32; 64]);
                }
            });
        }
    });
}

/// Every thread that waits for work hit by a fault gets it.
pub fn every_waiter_gets_the_fault(fixture: &Fixture) {
    if !fixture.can_fault() {
        return;
    }
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[8]);
    let tick = fail(fixture, &mut lane, view);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let progress: Arc<dyn Progress> = lane.progress();
                scope.spawn(move || fault_of(progress.wait(tick, patience())))
            })
            .collect();
        lane.flush(Flush::Start).expect("a flush succeeds");
        for waiter in waiters {
            let fault = waiter.join().expect("no waiter panics");
            assert_eq!(fault.tick(), tick);
        }
    });
}
