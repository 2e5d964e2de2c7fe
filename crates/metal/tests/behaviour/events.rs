//! Events of a Metal device: across streams, waited for by the host, and timed.

use std::time::Duration;

use streampool_device::Error as DeviceError;
use streampool_runtime::{Error, EventStatus};

use crate::common::{Stage, device};
use crate::work::*;
use crate::{PATIENCE, keep_busy, pool};

#[test]
fn an_event_is_over_when_everything_before_it_is() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
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
fn a_chain_through_all_streams_keeps_its_order() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 32);
        let mut total = filled(pool.stream(1).unwrap(), 0.0);
        for round in 0..rounds(40) {
            for index in 1..32 {
                let stream = pool.stream(index).unwrap();
                let mut next = buffer(stream);
                add(stream, &total, &mut next, 1.0).unwrap();
                total = next;
            }
            let value = value_of(pool.stream(1).unwrap(), &total);
            assert_eq!(value, Ok(31.0 * (round + 1) as f32));
        }
    });
}

#[test]
fn times_add_up() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
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
    });
}
