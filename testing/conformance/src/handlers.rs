//! Completion handlers: when and how they are called, and what they may do.

#![expect(unsafe_code, reason = "gives memory back to the device")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use streampool_device::{Flush, Op, Space, View, lock};

use crate::build::{Load, add, fill};
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::patience::{locked, patience, poll_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// A handler is called once, with success, after everything before it, with no lock of the device held.
pub fn a_handler_is_called_once_in_its_place(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let view = fixture.tensor::<f32>(&[32]);
    load.append(&mut lane, 3);
    lane.run(&fill(view, 2.0));
    let landing = lane.download(view.span()).expect("the sizes agree");
    let (sender, receiver) = mpsc::channel();
    lane.on_complete(Box::new(move |result| {
        lock::assert_none_held();
        sender
            .send((result, landing.read::<f32>()))
            .expect("the test listens");
    }))
    .expect("a handler can be added");
    lane.sync();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok((Ok(()), vec![2.0; 32])));
    assert!(
        receiver.recv_timeout(PATIENCE).is_err(),
        "it is called once, then dropped"
    );
}

/// Handlers of one queue run one at a time and in order, whoever waits.
pub fn handlers_run_in_order_one_at_a_time(fixture: &Fixture) {
    const COUNT: u32 = 500;
    let mut lane = fixture.lane();
    let order = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::new(AtomicBool::new(false));
    for number in 0..COUNT {
        if number % 5 == 0 {
            lane.run(&Op::Nop);
        }
        let (order, inside) = (Arc::clone(&order), Arc::clone(&inside));
        lane.on_complete(Box::new(move |_| {
            assert!(
                !inside.swap(true, Ordering::SeqCst),
                "two handlers at the same time"
            );
            std::thread::yield_now();
            locked(&order).push(number);
            inside.store(false, Ordering::SeqCst);
        }))
        .expect("a handler can be added");
        if number % 17 == 0 {
            lane.flush(Flush::Start).expect("a flush succeeds");
        }
    }
    lane.sync();
    poll_until("the last handler", || {
        locked(&order).len() == COUNT as usize
    });
    assert!(
        locked(&order).iter().copied().eq(0..COUNT),
        "{:?}",
        locked(&order)
    );
}

/// Later commands do not wait for a handler, nor do other queues, nor the device.
pub fn later_commands_do_not_wait_for_handlers(fixture: &Fixture) {
    let (mut lane, mut other) = (fixture.lane(), fixture.lane());
    let (open, gate) = mpsc::channel::<()>();
    let released = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&released);
    let (begin, begun) = mpsc::channel::<()>();
    lane.on_complete(Box::new(move |_| {
        begin.send(()).expect("the test listens");
        let opened = gate.recv_timeout(Duration::from_secs(30));
        seen.store(opened.is_ok(), Ordering::SeqCst);
    }))
    .expect("a handler can be added");
    lane.flush(Flush::Start).expect("a flush succeeds");
    begun
        .recv_timeout(PATIENCE)
        .expect("a flushed handler starts by itself");
    let view = fixture.tensor::<f32>(&[8]);
    let event = fixture.event();
    lane.run(&fill(view, 1.0));
    lane.record(&*event).expect("an event can be recorded");
    other.wait(&*event).expect("it was recorded");
    other.run(&add(view, 1.0));
    lane.flush(Flush::Start).expect("a flush succeeds");
    assert_eq!(
        other.get::<f32>(view),
        [2.0; 8],
        "while the handler waits for this test"
    );
    assert!(!released.load(Ordering::SeqCst));
    open.send(())
        .expect("the handler still waits: nothing above waited for it");
    poll_until("the end of the handler", || released.load(Ordering::SeqCst));
}

/// A handler may encode on its own queue, from whatever holds it, and each link of a chain is called.
pub fn a_handler_may_use_its_own_queue(fixture: &Fixture) {
    let lane = Arc::new(Mutex::new(fixture.lane()));
    let view = fixture.tensor::<i32>(&[4]);
    let (sender, receiver) = mpsc::channel();
    locked(&lane).run(&fill(view, 0));
    link(&lane, view, 50, sender);
    locked(&lane).flush(Flush::Start).expect("a flush succeeds");
    receiver
        .recv_timeout(PATIENCE)
        .expect("the chain comes to its end");
    assert_eq!(locked(&lane).get::<i32>(view), [50; 4]);
}

fn link(lane: &Arc<Mutex<Lane>>, view: View, left: u32, done: mpsc::Sender<()>) {
    let again = Arc::clone(lane);
    locked(lane)
        .on_complete(Box::new(move |result| {
            assert_eq!(result, Ok(()));
            if left == 0 {
                done.send(()).expect("the test listens");
                return;
            }
            locked(&again).run(&add(view, 1.0));
            link(&again, view, left - 1, done);
            locked(&again)
                .flush(Flush::Start)
                .expect("a flush succeeds");
        }))
        .expect("a handler can be added");
}

/// A handler may allocate, make queues and events, encode, synchronise and free.
pub fn a_handler_may_use_the_device_freely(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut inner = fixture.lane();
    let view = fixture.tensor::<f32>(&[100]);
    let own = lane.progress();
    let device = Arc::clone(fixture.device());
    let (sender, receiver) = mpsc::channel();
    lane.run(&Op::Nop);
    let tick = lane
        .on_complete(Box::new(move |_| {
            let memory = device
                .allocate(777, Space::Device)
                .expect("there is memory");
            let event = device.create_event(true).expect("an event can be made");
            drop(
                device
                    .create_queue(Default::default())
                    .expect("a queue can be made"),
            );
            own.wait(1, patience()).expect("it is over already");
            inner.run(&fill(view, 5.0));
            inner.record(&*event).expect("an event can be recorded");
            inner.flush(Flush::ForWaiter).expect("a flush succeeds");
            event.wait(patience()).expect("it completes");
            let got = inner.get::<f32>(view);
            // SAFETY: it was allocated above and named in no command.
            unsafe { device.free(memory) };
            sender.send(got).expect("the test listens");
        }))
        .expect("a handler can be added");
    lane.sync();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(vec![5.0; 100]));
    assert_eq!(lane.progress().completed(), tick);
    // The handler itself is dropped soon after it returns, and its queue with it.
    assert!(receiver.recv_timeout(PATIENCE).is_err());
}

/// A handler may drop the last handle of its own queue.
pub fn a_handler_may_drop_its_own_queue(fixture: &Fixture) {
    for _ in 0..50 {
        let slot = Arc::new(Mutex::new(None::<Lane>));
        let mut lane = fixture.lane();
        let held = Arc::clone(&slot);
        let (sender, receiver) = mpsc::channel();
        lane.run(&Op::Nop);
        lane.on_complete(Box::new(move |_| {
            // Flushed before it was put there: the handler may come first.
            poll_until("its queue", || locked(&held).is_some());
            let own = locked(&held).take();
            drop(own);
            sender.send(()).expect("the test listens");
        }))
        .expect("a handler can be added");
        lane.flush(Flush::Start).expect("a flush succeeds");
        *locked(&slot) = Some(lane);
        receiver.recv_timeout(PATIENCE).expect("the handler ends");
    }
}

/// A handler that panics hurts nobody: not the queue, not later handlers, not the other queues.
pub fn a_panicking_handler_hurts_nobody(fixture: &Fixture) {
    let (mut lane, mut other) = (fixture.lane(), fixture.lane());
    let view = fixture.tensor::<f32>(&[8]);
    let calls = Arc::new(AtomicU32::new(0));
    lane.run(&fill(view, 0.0));
    for round in 0..20 {
        lane.on_complete(Box::new(|_| {
            std::panic::resume_unwind(Box::new("on purpose"))
        }))
        .expect("a handler can be added");
        lane.run(&add(view, 1.0));
        let counted = Arc::clone(&calls);
        lane.on_complete(Box::new(move |result| {
            assert_eq!(result, Ok(()));
            counted.fetch_add(1, Ordering::SeqCst);
        }))
        .expect("a handler can be added");
        let when = if round % 2 == 0 {
            Flush::Start
        } else {
            Flush::ForWaiter
        };
        let tick = lane.flush(when).expect("a flush succeeds");
        lane.progress()
            .wait(tick, patience())
            .expect("the queue goes on");
        other.run(&Op::Nop);
        other.sync();
    }
    assert_eq!(lane.get::<f32>(view), [20.0; 8]);
    poll_until("the other handlers", || calls.load(Ordering::SeqCst) == 20);
    assert_eq!(lane.progress().fault(), None);
}

/// Handlers of many queues, added from many threads, are each called once.
pub fn handlers_of_many_queues(fixture: &Fixture) {
    const THREADS: u32 = 8;
    const EACH: u32 = 200;
    let calls = Arc::new(AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let mut lane = fixture.lane();
            let calls = &calls;
            scope.spawn(move || {
                let mine = Arc::new(AtomicU32::new(0));
                for number in 0..EACH {
                    lane.run(&Op::Nop);
                    let (calls, mine) = (Arc::clone(calls), Arc::clone(&mine));
                    lane.on_complete(Box::new(move |_| {
                        assert_eq!(mine.fetch_add(1, Ordering::SeqCst), number);
                        calls.fetch_add(1, Ordering::SeqCst);
                    }))
                    .expect("a handler can be added");
                    lane.flush(Flush::Start).expect("a flush succeeds");
                }
            });
        }
    });
    poll_until("every handler", || {
        calls.load(Ordering::SeqCst) == THREADS * EACH
    });
}

/// A handler of a dropped queue may hold the device, and let go of it.
pub fn a_handler_may_hold_its_device(fixture: &Fixture) {
    let device = Arc::clone(fixture.device());
    let mut lane = fixture.lane();
    let (sender, receiver) = mpsc::channel();
    lane.run(&Op::Nop);
    lane.on_complete(Box::new(move |_| {
        let name = device.properties().name.clone();
        drop(device);
        sender.send(name).expect("the test listens");
    }))
    .expect("a handler can be added");
    drop(lane);
    let name = receiver
        .recv_timeout(PATIENCE)
        .expect("the handler is called");
    assert_eq!(name, fixture.device().properties().name);
}
