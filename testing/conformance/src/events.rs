//! Events: their life, their re-recording, waiting for them and timing with them.

use std::any::Any;
use std::time::{Duration, Instant};

use streampool_device::{Error, Event, EventStatus, Flush, Op, Result};

use crate::build::{Load, add, copy, fill};
use crate::fixture::Fixture;
use crate::patience::{patience, poll_until, rounds};

/// An event is unrecorded, then pending or complete, then complete.
pub fn status_follows_the_recording(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let event = fixture.event();
    assert_eq!(event.query(), Ok(EventStatus::Unrecorded));
    let mut seen_pending = false;
    for doubling in 0..12 {
        // A fast device may have done a short load before anybody can ask.
        if seen_pending && doubling >= 6 {
            break;
        }
        load.append(&mut lane, 8 << doubling);
        let tick = lane.record(&*event).expect("an event can be recorded");
        lane.flush(Flush::Start).expect("a flush succeeds");
        seen_pending |= event.query() == Ok(EventStatus::Pending);
        event.wait(patience()).expect("it completes");
        assert_eq!(event.query(), Ok(EventStatus::Complete));
        assert!(
            lane.progress().completed() + 1 >= tick,
            "what was before it is over"
        );
    }
    assert!(
        seen_pending,
        "each query came back only when all was complete"
    );
}

/// Waiting for an event never recorded is an error at once, on the host and on a queue.
pub fn waiting_unrecorded_is_an_error(fixture: &Fixture) {
    let mut lane = fixture.lane();
    for event in [fixture.event(), fixture.timed_event()] {
        assert_eq!(event.wait(None), Err(Error::NotRecorded));
        assert_eq!(event.wait(patience()), Err(Error::NotRecorded));
        assert_eq!(lane.wait(&*event), Err(Error::NotRecorded));
    }
    assert_eq!(
        lane.encode(&Op::Nop),
        Ok(1),
        "the refused wait left nothing behind"
    );
    lane.sync();
}

/// A recording completes although nobody flushed it, if it is polled, or waited for.
pub fn asking_starts_the_work_before_it(fixture: &Fixture) {
    let event = fixture.event();
    let mut lane = fixture.lane();
    lane.run(&Op::Nop);
    lane.record(&*event).expect("an event can be recorded");
    poll_until("a polled event", || {
        event.query() == Ok(EventStatus::Complete)
    });
    lane.run(&Op::Nop);
    lane.record(&*event).expect("an event can be recorded");
    event.wait(patience()).expect("it completes");
    lane.run(&Op::Nop);
    lane.record(&*event).expect("an event can be recorded");
    let mut waiter = fixture.lane();
    waiter.wait(&*event).expect("it was recorded");
    waiter.sync();
}

/// A wait on the host ends with `Timeout` at its deadline.
pub fn a_wait_times_out(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let event = fixture.event();
    let timed_out = (0..10).any(|doubling| {
        load.append(&mut lane, 8 << doubling);
        lane.record(&*event).expect("an event can be recorded");
        lane.flush(Flush::Start).expect("a flush succeeds");
        let timed_out = match event.wait(Some(Instant::now())) {
            Err(Error::Timeout(_)) => true,
            Ok(()) => false,
            other => panic!("expected Timeout, got {other:?}"),
        };
        event.wait(patience()).expect("it completes");
        timed_out
    });
    assert!(timed_out, "no deadline was kept, however long the work");
}

/// What follows a wait executes after what came before the recording.
pub fn queues_are_ordered_by_events(fixture: &Fixture) {
    let (mut writer, mut reader) = (fixture.lane(), fixture.lane());
    let load = Load::new(fixture);
    let (view, twin) = (fixture.tensor::<f32>(&[512]), fixture.tensor::<f32>(&[512]));
    let (written, read) = (fixture.event(), fixture.event());
    let mut landings = Vec::new();
    for round in 0..40 {
        if round % 8 == 0 {
            load.append(&mut writer, 2);
        }
        writer.run(&fill(view, f64::from(round)));
        writer.record(&*written).expect("an event can be recorded");
        reader.wait(&*written).expect("it was recorded");
        reader.run(&copy(view, twin));
        reader.record(&*read).expect("an event can be recorded");
        landings.push(reader.download(twin.span()).expect("the sizes agree"));
        writer.wait(&*read).expect("it was recorded");
    }
    writer.flush(Flush::Start).expect("a flush succeeds");
    reader.sync();
    for (round, landing) in landings.iter().enumerate() {
        assert_eq!(landing.read::<f32>(), [round as f32; 512]);
    }
}

/// A queue that waits for an event on itself goes on.
pub fn a_queue_may_wait_for_itself(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let event = fixture.event();
    lane.record(&*event).expect("an event can be recorded");
    lane.wait(&*event).expect("it was recorded");
    lane.record(&*event).expect("an event can be recorded");
    lane.run(&Op::Nop);
    lane.sync();
    assert_eq!(event.query(), Ok(EventStatus::Complete));
}

/// Who waits already for one recording gets that one, although the event is recorded again, earlier or
/// later, elsewhere or after the waiter itself.
pub fn old_waiters_get_the_old_recording(fixture: &Fixture) {
    let view = fixture.tensor::<f32>(&[256]);
    for round in 0..20 {
        let (mut writer, mut reader, mut other) = (fixture.lane(), fixture.lane(), fixture.lane());
        let load = Load::new(fixture);
        let event = fixture.event();
        load.append(&mut writer, 3);
        writer.run(&fill(view, f64::from(round)));
        writer.record(&*event).expect("an event can be recorded");
        reader.wait(&*event).expect("it was recorded");
        let landing = reader.download(view.span()).expect("the sizes agree");
        // Complete long before the first recording: a reader that follows it would read too early.
        other.record(&*event).expect("an event can be recorded");
        other.sync();
        // Behind the reader: one that follows it would wait for itself.
        reader.record(&*event).expect("an event can be recorded");
        writer.flush(Flush::Start).expect("a flush succeeds");
        reader.sync();
        assert_eq!(landing.read::<f32>(), [round as f32; 256]);
    }
}

/// A host thread in a wait gets the recording that was the latest when it began.
pub fn host_waiters_get_their_recording(fixture: &Fixture) {
    let (mut one, mut two) = (fixture.lane(), fixture.lane());
    let (load, longer) = (Load::new(fixture), Load::new(fixture));
    let event = fixture.event();
    for _ in 0..5 {
        load.append(&mut one, 4);
        let first = one.record(&*event).expect("an event can be recorded");
        one.flush(Flush::Start).expect("a flush succeeds");
        std::thread::scope(|scope| {
            let (event, progress) = (&event, one.progress());
            scope.spawn(move || {
                event.wait(patience()).expect("it completes");
                assert!(
                    progress.completed() + 1 >= first,
                    "one of the two recordings completed"
                );
            });
            longer.append(&mut two, 8);
            // The second recording completes after the first in any case.
            two.wait(&**event).expect("it was recorded");
            two.record(&**event).expect("an event can be recorded");
        });
        two.sync();
        one.sync();
    }
}

/// The signal of an old recording never completes a new one.
pub fn stale_signals_do_not_complete_a_new_recording(fixture: &Fixture) {
    let (mut short, mut long) = (fixture.lane(), fixture.lane());
    let (load, longer) = (Load::new(fixture), Load::new(fixture));
    for _ in 0..10 {
        let event = fixture.event();
        load.append(&mut short, 1);
        short.record(&*event).expect("an event can be recorded");
        longer.append(&mut long, 6);
        let tick = long.record(&*event).expect("an event can be recorded");
        short.flush(Flush::Start).expect("a flush succeeds");
        long.flush(Flush::Start).expect("a flush succeeds");
        let progress = long.progress();
        poll_until("the new recording", || match event.query() {
            Ok(EventStatus::Complete) => {
                assert!(
                    progress.completed() + 1 >= tick,
                    "the old signal completed it"
                );
                true
            }
            Ok(EventStatus::Pending) => false,
            other => panic!("expected Pending or Complete, got {other:?}"),
        });
        short.sync();
    }
}

/// Ten thousand re-recordings under load: each wait is answered by its own recording.
pub fn ten_thousand_recordings_of_few_events(fixture: &Fixture) {
    const THREADS: usize = 4;
    const ROUNDS: usize = rounds(2500);
    let shared = fixture.event();
    fixture
        .lane()
        .record(&*shared)
        .expect("an event can be recorded");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (mut writer, mut reader) = (fixture.lane(), fixture.lane());
            let shared = &shared;
            scope.spawn(move || {
                let (view, event, back) = (
                    fixture.tensor::<i32>(&[8]),
                    fixture.event(),
                    fixture.event(),
                );
                writer.run(&fill(view, 0));
                for round in 0..ROUNDS {
                    writer.run(&add(view, 1.0));
                    writer.record(&*event).expect("an event can be recorded");
                    reader.wait(&*event).expect("it was recorded");
                    reader.run(&add(view, 1.0));
                    reader.record(&*back).expect("an event can be recorded");
                    writer.wait(&*back).expect("it was recorded");
                    if round % 50 == 0 {
                        writer.record(&**shared).expect("an event can be recorded");
                        writer.flush(Flush::Start).expect("a flush succeeds");
                        reader.flush(Flush::Start).expect("a flush succeeds");
                        shared.wait(patience()).expect("every recording completes");
                    }
                }
                assert_eq!(writer.get::<i32>(view), [2 * ROUNDS as i32; 8]);
            });
        }
    });
}

/// Many queues and host threads may wait for one recording.
pub fn one_recording_releases_everyone(fixture: &Fixture) {
    let mut writer = fixture.lane();
    let load = Load::new(fixture);
    let view = fixture.tensor::<f32>(&[64]);
    let event = fixture.event();
    load.append(&mut writer, 5);
    writer.run(&fill(view, 6.0));
    writer.record(&*event).expect("an event can be recorded");
    std::thread::scope(|scope| {
        for _ in 0..12 {
            let mut reader = fixture.lane();
            let event = &event;
            scope.spawn(move || {
                reader.wait(&**event).expect("it was recorded");
                assert_eq!(reader.get::<f32>(view), [6.0; 64]);
                event.wait(patience()).expect("it completes");
            });
        }
        writer.flush(Flush::Start).expect("a flush succeeds");
    });
}

/// Elapsed time is that between the two recordings, never negative, and no longer than the wall's.
pub fn elapsed_time_is_between_recordings(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let (start, middle, end) = (
        fixture.timed_event(),
        fixture.timed_event(),
        fixture.timed_event(),
    );
    let began = Instant::now();
    lane.record(&*start).expect("an event can be recorded");
    load.append(&mut lane, 4);
    lane.record(&*middle).expect("an event can be recorded");
    load.append(&mut lane, 4);
    lane.record(&*end).expect("an event can be recorded");
    lane.flush(Flush::Start).expect("a flush succeeds");
    let whole = end.elapsed_since(&*start).expect("both complete");
    let wall = began.elapsed();
    let (first, second) = (middle.elapsed_since(&*start), end.elapsed_since(&*middle));
    let parts = first.expect("both complete") + second.expect("both complete");
    assert!(
        whole > Duration::ZERO && whole <= wall + Duration::from_millis(1),
        "{whole:?} of {wall:?}"
    );
    let slack = whole / 100 + Duration::from_micros(5);
    assert!(parts.abs_diff(whole) <= slack, "{parts:?} for {whole:?}");
    assert_eq!(start.elapsed_since(&*start), Ok(Duration::ZERO));
    assert!(
        start.elapsed_since(&*end).is_err(),
        "the start is the later one"
    );
}

/// Elapsed time fails without timing and without a recording, at once.
pub fn elapsed_time_needs_timing_and_recordings(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (plain, timed, never) = (
        fixture.event(),
        fixture.timed_event(),
        fixture.timed_event(),
    );
    lane.record(&*plain).expect("an event can be recorded");
    lane.record(&*timed).expect("an event can be recorded");
    lane.sync();
    assert_eq!(timed.elapsed_since(&*plain), Err(Error::NoTiming));
    assert_eq!(plain.elapsed_since(&*timed), Err(Error::NoTiming));
    assert_eq!(timed.elapsed_since(&*never), Err(Error::NotRecorded));
    assert_eq!(never.elapsed_since(&*timed), Err(Error::NotRecorded));
}

/// Elapsed time waits for its two recordings and not for what follows them.
pub fn elapsed_time_waits_for_nothing_else(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let (start, end) = (fixture.timed_event(), fixture.timed_event());
    let early = (0..10).any(|doubling| {
        lane.record(&*start).expect("an event can be recorded");
        lane.run(&Op::Nop);
        lane.record(&*end).expect("an event can be recorded");
        load.append(&mut lane, 8 << doubling);
        let last = lane.flush(Flush::Start).expect("a flush succeeds");
        end.elapsed_since(&*start).expect("both complete");
        let early = lane.progress().completed() < last;
        lane.sync();
        early
    });
    assert!(early, "it waited for later work each time");
}

struct Stray;

impl Event for Stray {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn query(&self) -> Result<EventStatus> {
        Ok(EventStatus::Complete)
    }
    fn wait(&self, _: Option<Instant>) -> Result<()> {
        Ok(())
    }
    fn elapsed_since(&self, _: &dyn Event) -> Result<Duration> {
        Ok(Duration::ZERO)
    }
}

fn refuses(fixture: &Fixture, stray: &dyn Event) {
    let mut lane = fixture.lane();
    let own = fixture.timed_event();
    lane.record(&*own).expect("an event can be recorded");
    lane.sync();
    let refused = [
        lane.record(stray).map(drop),
        lane.wait(stray).map(drop),
        own.elapsed_since(stray).map(drop),
    ];
    for result in refused {
        match result {
            Err(Error::Foreign { device, .. }) => {
                assert_eq!(device, fixture.device().properties().name);
            }
            other => panic!("expected Foreign, got {other:?}"),
        }
    }
    assert_eq!(lane.encode(&Op::Nop), Ok(2), "the queue is usable");
    lane.sync();
}

/// Events of another device are refused.
pub fn foreign_events_are_refused(fixture: &Fixture) {
    refuses(fixture, &Stray);
    if let Some(other) = fixture.other() {
        let mut queue = other
            .create_queue(Default::default())
            .expect("a queue can be made");
        let event = other.create_event(true).expect("an event can be made");
        queue.record(&*event).expect("an event can be recorded");
        event.wait(patience()).expect("it completes");
        refuses(fixture, &*event);
    }
}
