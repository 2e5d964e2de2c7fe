//! The queue: order, ticks, flushing, uploads and downloads, and being dropped.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use streampool_device::{Flush, Op, View};

use crate::build::{Load, add, affine, copy, fill};
use crate::fixture::Fixture;
use crate::patience::{patience, poll_until};

/// The first command has tick 1, and each command, whatever it is, gets the next.
pub fn each_command_gets_the_next_tick(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[4]);
    let event = fixture.event();
    let program = fixture
        .lane()
        .capture(&[fill(view, 1.0), add(view, 1.0)], &[]);
    assert_eq!(lane.flush(Flush::Start), Ok(0), "nothing was appended");
    assert_eq!(lane.encode(&Op::Nop), Ok(1));
    assert_eq!(lane.encode(&fill(view, 1.0)), Ok(2));
    assert_eq!(lane.upload(view.span(), &[0; 16]), Ok(3));
    assert_eq!(
        lane.download(view.span()).map(|landing| landing.tick),
        Ok(4)
    );
    assert_eq!(lane.record(&*event), Ok(5));
    assert_eq!(lane.wait(&*event), Ok(6));
    assert_eq!(lane.on_complete(Box::new(|_| ())), Ok(7));
    assert_eq!(lane.replay(&program, &[]), Ok(8), "a replay is one command");
    assert_eq!(lane.flush(Flush::ForWaiter), Ok(8));
    assert_eq!(lane.encode(&Op::Nop), Ok(9));
    assert_eq!(lane.flush(Flush::Start), Ok(9));
    lane.sync();
    assert_eq!(lane.progress().completed(), 9);
}

/// Commands execute in the order they were appended, each after the one before it.
pub fn commands_execute_in_order(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[100]);
    let mut expected = 1.0f32;
    lane.run(&fill(view, 1.0));
    for step in 0..400 {
        let (factor, amount) = (f64::from(step % 3) - 1.0, f64::from(step));
        lane.run(&affine(view, factor, amount));
        expected = expected * factor as f32 + amount as f32;
        if step % 50 == 0 {
            lane.flush(Flush::Start).expect("a flush succeeds");
        }
    }
    assert_eq!(lane.get::<f32>(view), vec![expected; 100]);
}

/// Uploads, ops and downloads keep one order among themselves.
pub fn copies_keep_their_place_among_ops(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (view, twin) = (
        fixture.tensor::<f32>(&[1000]),
        fixture.tensor::<f32>(&[1000]),
    );
    let mut landings = Vec::new();
    for round in 0..100 {
        lane.put(view, &[round as f32; 1000]);
        lane.run(&copy(view, twin));
        lane.run(&add(twin, 0.5));
        landings.push(lane.download(twin.span()).expect("the sizes agree"));
        lane.run(&fill(view, -1.0));
        lane.run(&fill(twin, -1.0));
    }
    lane.sync();
    for (round, landing) in landings.iter().enumerate() {
        assert_eq!(landing.read::<f32>(), [round as f32 + 0.5; 1000]);
    }
}

/// The bytes of an upload are taken before it returns, go to the start of the span, and leave the rest.
pub fn uploads_take_their_bytes_at_once(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let span = fixture.span(300_000);
    load.append(&mut lane, 4);
    lane.upload(span, &vec![7; span.bytes]).expect("it fits");
    let mut bytes = vec![1u8; 200_000];
    lane.upload(span, &bytes).expect("it fits");
    bytes.fill(2);
    drop(bytes);
    lane.upload(span.part(299_999, 1).expect("inside"), &[9])
        .expect("it fits");
    lane.upload(span, &[]).expect("nothing always fits");
    let landing = lane.download(span).expect("the sizes agree");
    lane.sync();
    let got = landing.read::<u8>();
    assert!(got[..200_000].iter().all(|&byte| byte == 1));
    assert!(got[200_000..299_999].iter().all(|&byte| byte == 7));
    assert_eq!(got[299_999], 9);
}

/// What is appended starts at a flush although nobody waits for it.
pub fn a_flush_starts_the_work(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (sender, receiver) = mpsc::channel();
    lane.run(&Op::Nop);
    lane.on_complete(Box::new(move |result| {
        sender.send(result).expect("the test listens")
    }))
    .expect("a handler can be added");
    lane.flush(Flush::Start).expect("a flush succeeds");
    let result = receiver.recv_timeout(Duration::from_secs(60));
    assert_eq!(result, Ok(Ok(())), "a handler says so without any polling");
}

/// Work that was never flushed starts when somebody polls its progress.
pub fn polling_starts_unflushed_work(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let tick = lane.run(&Op::Nop);
    let progress = lane.progress();
    poll_until("an op without flush", || progress.completed() >= tick);
}

/// Work left to a waiter that never comes starts when somebody polls it.
pub fn polling_starts_work_left_for_a_waiter(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let tick = lane.run(&Op::Nop);
    assert_eq!(lane.flush(Flush::ForWaiter), Ok(tick));
    let progress = lane.progress();
    poll_until("an op left for a waiter", || progress.completed() >= tick);
}

/// Flushing never blocks: not even while a handler of the queue does.
pub fn a_flush_never_blocks(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (open, gate) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    lane.on_complete(Box::new(move |_| {
        let opened = gate.recv_timeout(Duration::from_secs(30)).is_ok();
        sender.send(opened).expect("the test listens");
    }))
    .expect("a handler can be added");
    for _ in 0..100 {
        let tick = lane.run(&Op::Nop);
        assert_eq!(lane.flush(Flush::Start), Ok(tick));
    }
    // A flush that ran the handler or waited for it would have waited in vain for this.
    open.send(()).expect("no flush ran the handler to its end");
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
}

/// Dropping a queue does not wait; what was appended, flushed or not, still executes, its handlers are
/// called, and its progress stays valid.
pub fn a_dropped_queue_still_executes(fixture: &Fixture) {
    for flushed in [true, false] {
        let mut lane = fixture.lane();
        let load = Load::new(fixture);
        let view = fixture.tensor::<f32>(&[10]);
        let calls = Arc::new(AtomicU32::new(0));
        load.append(&mut lane, 5);
        lane.run(&fill(view, 4.0));
        let landing = lane.download(view.span()).expect("the sizes agree");
        let counted = Arc::clone(&calls);
        let last = lane
            .on_complete(Box::new(move |result| {
                assert_eq!(result, Ok(()));
                counted.fetch_add(1, Ordering::SeqCst);
            }))
            .expect("a handler can be added");
        if flushed {
            lane.flush(Flush::Start).expect("a flush succeeds");
        }
        let progress = lane.progress();
        drop(lane);
        progress.wait(last, patience()).expect("the work succeeds");
        assert_eq!(landing.read::<f32>(), [4.0; 10]);
        poll_until("the handler of a dropped queue", || {
            calls.load(Ordering::SeqCst) == 1
        });
        assert_eq!((progress.completed(), progress.fault()), (last, None));
    }
}

/// Many queues dropped at once with work in flight each finish it.
pub fn many_dropped_queues_finish(fixture: &Fixture) {
    let views: Vec<View> = (0..64).map(|_| fixture.tensor::<i32>(&[257])).collect();
    let ends: Vec<_> = views
        .iter()
        .enumerate()
        .map(|(number, &view)| {
            let mut lane = fixture.lane();
            lane.run(&fill(view, number as i32));
            for _ in 0..20 {
                lane.run(&add(view, 1.0));
            }
            let landing = lane.download(view.span()).expect("the sizes agree");
            (lane.progress(), landing)
        })
        .collect();
    for (number, (progress, landing)) in ends.iter().enumerate() {
        progress
            .wait(landing.tick, patience())
            .expect("the work succeeds");
        assert_eq!(landing.read::<i32>(), vec![number as i32 + 20; 257]);
    }
}

/// A queue encodes from whichever thread holds it, and its order is kept.
pub fn a_queue_moves_between_threads(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[33]);
    lane.run(&fill(view, 0.0));
    let mut expected = 0.0f32;
    for round in 0..50 {
        let amount = f64::from(round);
        // A half is exact, so the sum is all that is rounded.
        expected = expected * 0.5 + amount as f32;
        lane = std::thread::scope(|scope| {
            scope
                .spawn(move || {
                    lane.run(&affine(view, 0.5, amount));
                    if round % 3 == 0 {
                        lane.flush(Flush::Start).expect("a flush succeeds");
                    }
                    lane
                })
                .join()
                .expect("the thread does not panic")
        });
    }
    assert_eq!(lane.get::<f32>(view), vec![expected; 33]);
}

/// A refused op leaves nothing behind: no tick, no effect, and the queue goes on.
pub fn a_refused_op_leaves_nothing_behind(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (view, short) = (fixture.tensor::<f32>(&[8]), fixture.tensor::<f32>(&[7]));
    assert_eq!(lane.run(&fill(view, 3.0)), 1);
    assert!(lane.encode(&copy(short, view)).is_err());
    assert!(lane.upload(short.span(), &[0; 29]).is_err());
    assert!(lane.download_into(short.span(), 29).is_err());
    assert_eq!(
        lane.run(&add(view, 1.0)),
        2,
        "refused commands took no tick"
    );
    assert_eq!(lane.get::<f32>(view), [4.0; 8]);
}
