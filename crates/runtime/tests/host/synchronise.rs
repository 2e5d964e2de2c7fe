//! Waiting for work, and not waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::*;
use streampool_device::{Device, Error as DeviceError, Interval, Trace};
use streampool_runtime::{Error, EventStatus, Op};

#[test]
fn synchronising_everything_while_others_encode_ends_and_covers_what_was_encoded_before() {
    within(FOREVER, || {
        let pool = pool(&device(), 8);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = pool.current().unwrap();
                    let mut buffers = (filled(stream, 0.0), buffer(stream));
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..50 {
                            copy(stream, &buffers.0, &mut buffers.1).unwrap();
                            copy(stream, &buffers.1, &mut buffers.0).unwrap();
                        }
                        stream.synchronize().unwrap();
                    }
                });
            }
            until("all encode", || pool.snapshot().unwrap().made.len() == 4);
            for _ in 0..rounds(100) {
                let before = pool.snapshot().unwrap().made;
                pool.synchronize().unwrap();
                let after = pool.snapshot().unwrap().made;
                for (before, after) in before.iter().zip(&after) {
                    assert!(after.completed >= before.encoded, "{before:?} {after:?}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_timeout_ends_the_waiting_and_the_work_goes_on() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let stream = pool.stream(1).unwrap();
    gate.hold(stream);
    let buffer = filled(stream, 1.0);
    for timeout in [Duration::ZERO, Duration::from_millis(5)] {
        let outcome = stream.synchronize_timeout(timeout);
        assert!(
            matches!(outcome, Err(Error::Device(DeviceError::Timeout(_)))),
            "{outcome:?}"
        );
    }
    gate.open_all();
    assert_eq!(stream.synchronize_timeout(FOREVER), Ok(()));
    assert_eq!(stream.synchronize_timeout(Duration::MAX), Ok(()));
    assert_eq!(value_of(stream, &buffer).unwrap(), 1.0);
}

#[test]
fn asking_never_blocks() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let stream = pool.stream(1).unwrap();
        gate.hold(stream);
        let event = pool.event().unwrap();
        stream.record(&event).unwrap();
        // The stream stands still until the gate is opened: whoever waits for it would hang.
        for _ in 0..1000 {
            assert!(!stream.is_idle());
            assert_eq!(event.query(), Ok(EventStatus::Pending));
        }
        assert_eq!(stream.fault(), None);
        let made = pool.snapshot().unwrap().made;
        assert!(made[0].completed < made[0].encoded);
        stream.flush().unwrap();
        drop(buffer(stream));
        pool.trim().unwrap();
        gate.open_all();
        until("the stream is idle", || stream.is_idle());
        assert_eq!(event.query(), Ok(EventStatus::Complete));
    });
}

#[test]
fn ten_thousand_ops_are_encoded_without_waiting_for_any() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let stream = pool.stream(1).unwrap();
        gate.hold(stream);
        let mut buffers = (filled(stream, 0.0), buffer(stream));
        for _ in 0..5_000 {
            add(stream, &buffers.0, &mut buffers.1, 1.0).unwrap();
            add(stream, &buffers.1, &mut buffers.0, 1.0).unwrap();
        }
        let snapshot = pool.snapshot().unwrap();
        assert_eq!(snapshot.made[0].completed, 0, "nothing was waited for");
        gate.open_all();
        assert_eq!(value_of(stream, &buffers.0).unwrap(), 10_000.0);
    });
}

/// Counts ops as they are over.
#[derive(Default)]
struct Count(AtomicUsize);

impl Trace for Count {
    fn op(&self, _: Interval) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn flushed_work_starts_though_nobody_asks_for_it() {
    within(FOREVER, || {
        let device = device();
        let count = Arc::new(Count::default());
        device.set_trace(Some(count.clone()));
        let pool = pool(&device, 4);
        for index in 1..4 {
            let stream = pool.stream(index).unwrap();
            stream.encode(Op::Nop).unwrap();
            stream.flush().unwrap();
            until("the op is over", || count.0.load(Ordering::SeqCst) == index);
        }
    });
}

#[test]
fn several_threads_wait_for_one_stream() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let stream = pool.stream(1).unwrap();
        gate.hold(stream);
        let buffer = filled(stream, 6.0);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    stream.synchronize().unwrap();
                    assert_eq!(value_of(stream, &buffer).unwrap(), 6.0);
                });
            }
            gate.open_all();
        });
    });
}

#[test]
fn a_stream_without_work_is_synchronised_at_once() {
    let pool = pool(&device(), 4);
    pool.synchronize().unwrap();
    let stream = pool.stream(1).unwrap();
    assert!(stream.is_idle());
    assert_eq!(stream.synchronize_timeout(Duration::ZERO), Ok(()));
    stream.synchronize().unwrap();
    pool.synchronize().unwrap();
}
