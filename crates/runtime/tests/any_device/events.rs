//! Events: asked, waited for by the host and by streams, and timed.

use std::time::Duration;

use streampool_device::Error as DeviceError;
use streampool_runtime::{Error, EventStatus};

use super::*;

#[test]
fn an_event_is_over_when_everything_before_it_is() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let event = pool.event().unwrap();
        assert_eq!(event.query(), Ok(EventStatus::Unrecorded));
        assert_eq!(event.wait(), Err(Error::Device(DeviceError::NotRecorded)));
        keep_busy(stream);
        stream.record(&event).unwrap();
        assert!(matches!(
            event.wait_timeout(Duration::ZERO),
            Ok(()) | Err(Error::Device(DeviceError::Timeout(_)))
        ));
        event.wait().unwrap();
        assert_eq!(event.query(), Ok(EventStatus::Complete));
        assert!(stream.is_idle());
    });
}

#[test]
fn times_add_up() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let events: Vec<_> = (0..3).map(|_| pool.timed_event().unwrap()).collect();
        for event in &events {
            stream.record(event).unwrap();
            keep_busy(stream);
        }
        let elapsed = |from: usize, to: usize| events[to].elapsed_since(&events[from]).unwrap();
        let (first, second, both) = (elapsed(0, 1), elapsed(1, 2), elapsed(0, 2));
        assert!(first > Duration::ZERO && second > Duration::ZERO);
        let sum = first + second;
        assert!(
            sum.abs_diff(both) < Duration::from_micros(10),
            "{first:?} + {second:?} is not {both:?}"
        );
        let plain = pool.event().unwrap();
        stream.record(&plain).unwrap();
        let no_timing = Err(Error::Device(DeviceError::NoTiming));
        assert_eq!(plain.elapsed_since(&events[0]), no_timing);
        assert_eq!(events[0].elapsed_since(&plain), no_timing);
        assert!(events[0].elapsed_since(&events[0]).is_ok());
    });
}

#[test]
fn events_come_from_a_pool() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        for _ in 0..1000 {
            let event = pool.event().unwrap();
            stream.record(&event).unwrap();
            event.wait().unwrap();
        }
        let events = pool.snapshot().unwrap().events;
        assert!(events.made < 10, "{events:?}");
    });
}

/// Their times are in that order, too.
#[test]
fn a_stream_waits_for_another_ones_event() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let (first, second) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let (one, two) = (pool.timed_event().unwrap(), pool.timed_event().unwrap());
        for _ in 0..20 {
            keep_busy(first);
            first.record(&one).unwrap();
            second.wait(&one).unwrap();
            second.record(&two).unwrap();
            two.wait().unwrap();
            assert_eq!(one.query(), Ok(EventStatus::Complete));
            // Backwards it would be negative, and so an error.
            two.elapsed_since(&one).unwrap();
        }
    });
}
