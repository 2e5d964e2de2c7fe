//! Events: points of streams, recycled without a trace of their last owner.

use std::time::Duration;

use crate::common::*;
use streampool_device::Error as DeviceError;
use streampool_runtime::{Error, EventStatus, Op};

const NOT_RECORDED: Error = Error::Device(DeviceError::NotRecorded);

#[test]
fn an_event_says_where_it_stands() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let (slow, fast) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let event = pool.event().unwrap();
    assert_eq!(event.query(), Ok(EventStatus::Unrecorded));
    gate.hold(slow);
    let stamp = slow.record(&event).unwrap();
    assert_eq!(stamp.stream, 1);
    assert_eq!(event.query(), Ok(EventStatus::Pending));
    let outcome = event.wait_timeout(Duration::from_millis(1));
    assert!(matches!(
        outcome,
        Err(Error::Device(DeviceError::Timeout(_)))
    ));
    // A new recording is what counts from then on.
    fast.record(&event).unwrap();
    event.wait().unwrap();
    assert_eq!(event.query(), Ok(EventStatus::Complete));
    slow.record(&event).unwrap();
    assert_eq!(event.query(), Ok(EventStatus::Pending));
    gate.open_all();
    event.wait().unwrap();
    assert_eq!(event.query(), Ok(EventStatus::Complete));
}

#[test]
fn an_event_never_recorded_is_an_error_at_once() {
    within(FOREVER, || {
        let pool = pool(&device(), 4);
        let stream = pool.stream(1).unwrap();
        let (event, recorded) = (pool.timed_event().unwrap(), pool.timed_event().unwrap());
        stream.record(&recorded).unwrap();
        assert_eq!(event.wait(), Err(NOT_RECORDED));
        assert_eq!(event.wait_timeout(FOREVER), Err(NOT_RECORDED));
        assert_eq!(stream.wait(&event), Err(NOT_RECORDED));
        assert_eq!(event.elapsed_since(&recorded), Err(NOT_RECORDED));
        assert_eq!(recorded.elapsed_since(&event), Err(NOT_RECORDED));
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_recycled_event_knows_nothing_of_its_last_owner() {
    const THREADS: usize = 8;
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 16);
        on_threads(THREADS, |_| {
            let stream = pool.current().unwrap();
            for round in 0..rounds(100_000) / THREADS {
                let event = pool.event().unwrap();
                assert_eq!(event.query(), Ok(EventStatus::Unrecorded), "a stale signal");
                let stamp = stream.record(&event).unwrap();
                assert_eq!(stamp.stream, stream.index());
                if round % 16 == 0 {
                    event.wait().unwrap();
                    assert!(stream.is_idle());
                }
                // Most are dropped while their recording is still to come.
            }
        });
        let events = pool.snapshot().unwrap().events;
        assert!(events.made <= 2 * THREADS as u64, "{events:?}");
        let recycled = (rounds(100_000) / THREADS * THREADS) as u64 - events.made;
        assert_eq!(events.reused, recycled);
        assert_eq!(events.idle as u64, events.made);
    });
}

#[test]
fn an_event_recycled_while_pending_waits_for_its_new_recording_only() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let (slow, fast) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        gate.hold(slow);
        let first = pool.event().unwrap();
        slow.record(&first).unwrap();
        drop(first);
        let second = pool.event().unwrap();
        assert_eq!(pool.snapshot().unwrap().events.made, 1, "it is the same");
        fast.encode(Op::Nop).unwrap();
        fast.record(&second).unwrap();
        second.wait().unwrap();
        assert_eq!(second.query(), Ok(EventStatus::Complete));
        gate.open_all();
        slow.synchronize().unwrap();
        assert_eq!(second.query(), Ok(EventStatus::Complete));
    });
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let (slow, waiting) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let event = pool.event().unwrap();
    gate.hold(slow);
    slow.record(&event).unwrap();
    waiting.wait(&event).unwrap();
    waiting.encode(Op::Nop).unwrap();
    waiting.flush().unwrap();
    assert!(!waiting.is_idle());
    // A later recording elsewhere does not let it go early.
    pool.stream(3).unwrap().record(&event).unwrap();
    event.wait().unwrap();
    assert!(!waiting.is_idle());
    gate.open_all();
    waiting.synchronize().unwrap();
}

#[test]
fn elapsed_time_waits_for_its_two_streams_only() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let stream = |index| pool.stream(index).unwrap();
        let (start, end) = (pool.timed_event().unwrap(), pool.timed_event().unwrap());
        // Stream 3 stands still until the end of the test.
        gate.hold(stream(3));
        stream(1).record(&start).unwrap();
        start.wait().unwrap();
        device.injector().delay_queue(2, Duration::from_millis(3));
        stream(2).encode(Op::Nop).unwrap();
        stream(2).record(&end).unwrap();
        let elapsed = end.elapsed_since(&start).unwrap();
        assert!(elapsed >= Duration::from_millis(3), "{elapsed:?}");
        assert!(start.elapsed_since(&end).is_err(), "time goes forward");
        assert!(!stream(3).is_idle());
        gate.open_all();
    });
}

#[test]
fn elapsed_time_against_a_stream_that_never_records_is_an_error_and_not_a_hang() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let (silent, stream) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        gate.hold(silent);
        let (start, end) = (pool.timed_event().unwrap(), pool.timed_event().unwrap());
        stream.record(&end).unwrap();
        assert_eq!(end.elapsed_since(&start), Err(NOT_RECORDED));
        assert_eq!(start.elapsed_since(&end), Err(NOT_RECORDED));
        gate.open_all();
    });
}

#[test]
fn an_event_of_another_pool_is_refused() {
    let device = device();
    let (pool, other) = (pool(&device, 2), pool(&device, 2));
    let (own, foreign) = (pool.timed_event().unwrap(), other.timed_event().unwrap());
    other.stream(1).unwrap().record(&foreign).unwrap();
    let stream = pool.stream(1).unwrap();
    stream.record(&own).unwrap();
    assert_eq!(stream.record(&foreign), Err(Error::ForeignEvent));
    assert_eq!(stream.wait(&foreign), Err(Error::ForeignEvent));
    assert_eq!(own.elapsed_since(&foreign), Err(Error::ForeignEvent));
    assert_eq!(foreign.wait(), Ok(()));
}

#[test]
fn threads_that_record_one_event_and_wait_for_it_never_read_too_early() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        device
            .injector()
            .random_delays(3, Duration::from_micros(100));
        for round in 0..rounds(300) {
            let event = pool.event().unwrap();
            let (one, two) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
            let sources = [filled(one, round as f32), filled(two, round as f32)];
            std::thread::scope(|scope| {
                let record = |stream: &streampool_runtime::Stream| drop(stream.record(&event));
                scope.spawn(move || record(one));
                scope.spawn(move || record(two));
                scope.spawn(|| {
                    let reader = pool.stream(3).unwrap();
                    // Whichever recording it gets, it must not take the other for waited for.
                    let _maybe_not_recorded = reader.wait(&event);
                    for source in &sources {
                        assert_eq!(value_of(reader, source).unwrap(), round as f32);
                    }
                });
            });
        }
    });
}
