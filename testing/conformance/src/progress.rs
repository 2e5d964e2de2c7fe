//! Progress: how far a queue is, seen from any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use streampool_device::{Error, Flush, Op, View};

use crate::build::{Load, add, fill};
use crate::fixture::Fixture;
use crate::patience::{patience, poll_until};

/// Nothing is complete at first, all of it in the end, and there is no fault.
pub fn it_counts_what_is_over(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let progress = lane.progress();
    assert_eq!((progress.completed(), progress.fault()), (0, None));
    for _ in 0..10 {
        lane.run(&Op::Nop);
    }
    lane.sync();
    assert_eq!((progress.completed(), progress.fault()), (10, None));
    assert_eq!(
        progress.wait(3, None),
        Ok(()),
        "what is over can be waited for again"
    );
}

/// It never goes back, and every poller sees it reach the end.
pub fn it_never_goes_back(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    const LAST: u64 = 600;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let progress = lane.progress();
            scope.spawn(move || {
                let mut seen = 0;
                poll_until("the last tick", || {
                    let now = progress.completed();
                    assert!(now >= seen && now <= LAST, "{now} after {seen}");
                    seen = now;
                    now == LAST
                });
            });
        }
        for round in 0..LAST {
            match round % 60 {
                0 => load.append(&mut lane, 1),
                _ => drop(lane.run(&Op::Nop)),
            }
            if round % 7 == 0 {
                lane.flush(Flush::Start).expect("a flush succeeds");
            }
        }
        lane.flush(Flush::Start).expect("a flush succeeds");
    });
}

/// Reading it makes what came before visible: a download seen complete has landed.
pub fn it_makes_results_visible(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<i32>(&[64]);
    for round in 0..200 {
        lane.run(&fill(view, round));
        let landing = lane.download(view.span()).expect("the sizes agree");
        lane.flush(Flush::Start).expect("a flush succeeds");
        let progress = lane.progress();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                poll_until("a download", || progress.completed() >= landing.tick);
                assert_eq!(landing.read::<i32>(), [round; 64]);
            });
        });
    }
}

/// Polling never blocks while the queue works, and sees it unfinished.
pub fn polling_does_not_wait(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let progress = lane.progress();
    let seen_unfinished = (0..6).any(|doubling| {
        load.append(&mut lane, 8 << doubling);
        let last = lane.flush(Flush::Start).expect("a flush succeeds");
        let unfinished = progress.completed() < last;
        lane.sync();
        unfinished
    });
    assert!(
        seen_unfinished,
        "each poll came back only when all was complete"
    );
}

/// A wait ends with `Timeout` at its deadline, and the work goes on.
pub fn a_wait_times_out(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let progress = lane.progress();
    let timed_out = (0..6).any(|doubling| {
        load.append(&mut lane, 8 << doubling);
        let last = lane.flush(Flush::Start).expect("a flush succeeds");
        let timed_out = match progress.wait(last, Some(Instant::now())) {
            Err(Error::Timeout(_)) => true,
            Ok(()) => {
                assert!(progress.completed() >= last);
                false
            }
            other => panic!("expected Timeout, got {other:?}"),
        };
        assert_eq!(progress.wait(last, patience()), Ok(()));
        timed_out
    });
    assert!(timed_out, "no deadline was kept, however long the work");
}

/// A wait for a tick does not need the ticks after it.
pub fn a_wait_ends_at_its_tick(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let view = fixture.tensor::<f32>(&[16]);
    let early = (0..6).any(|doubling| {
        lane.run(&fill(view, 2.0));
        let landing = lane.download(view.span()).expect("the sizes agree");
        load.append(&mut lane, 8 << doubling);
        let last = lane.flush(Flush::Start).expect("a flush succeeds");
        let progress = lane.progress();
        progress
            .wait(landing.tick, patience())
            .expect("it completes");
        assert_eq!(landing.read::<f32>(), [2.0; 16]);
        let early = progress.completed() < last;
        lane.sync();
        early
    });
    assert!(early, "each wait came back only when all was complete");
}

/// Any number of threads may wait for one queue, while another appends to it.
pub fn many_threads_wait_at_once(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[100]);
    lane.run(&fill(view, 0.0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (progress, stop) = (lane.progress(), &stop);
            scope.spawn(move || {
                let mut tick = 0;
                while !stop.load(Ordering::Acquire) {
                    tick = tick.max(progress.completed());
                    progress.wait(tick, patience()).expect("it is over already");
                    std::thread::yield_now();
                }
            });
        }
        for _ in 0..100 {
            let tick = lane.run(&add(view, 1.0));
            lane.flush(Flush::ForWaiter).expect("a flush succeeds");
            let (one, two) = (lane.progress(), lane.progress());
            scope.spawn(move || one.wait(tick, patience()).expect("it completes"));
            two.wait(tick, patience()).expect("it completes");
            assert!(two.completed() >= tick);
        }
        stop.store(true, Ordering::Release);
    });
    assert_eq!(lane.get::<f32>(view), [100.0; 100]);
}

/// It outlives its queue.
pub fn it_outlives_its_queue(fixture: &Fixture) {
    let view: View = fixture.tensor::<f32>(&[4]);
    let mut lane = fixture.lane();
    lane.run(&fill(view, 1.0));
    lane.sync();
    let progress = lane.progress();
    drop(lane);
    assert_eq!((progress.completed(), progress.fault()), (1, None));
    assert_eq!(progress.wait(1, patience()), Ok(()));
}
