//! A fault on one stream of many. The tests of a device that fails on request include this, and say how it does
//! (`fail_next`) and what its faults say (`FAULT`).

use std::sync::Barrier;

use streampool_device::Error as DeviceError;
use streampool_runtime::{Buffer, Error, Op, OpKind, Stream};

use super::{FAULT, fail_next};
use crate::gpu::*;

pub fn is_fault<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Device(DeviceError::Fault(fault)))
        if fault.message().contains(FAULT))
}

pub fn is_poisoned<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Device(DeviceError::Poisoned(_))))
}

pub fn is_dependency<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Dependency(fault)) if fault.message().contains(FAULT))
}

#[test]
fn a_fault_on_one_of_thirty_one_streams_reaches_its_callers_only() {
    with_device(|device| {
        let pool = pool(&device, 32);
        let all_here = Barrier::new(31);
        on_threads(31, |number| {
            let stream = pool.current().unwrap();
            let unlucky = stream.index() == 7;
            all_here.wait();
            for round in 0..rounds(50) {
                let value = (number * 100 + round) as f32;
                let one = filled(stream, value);
                let mut two = buffer(stream);
                if unlucky && round == 0 {
                    fail_next(&device, stream);
                    meet_the_fault(stream, &one, &mut two);
                    continue;
                }
                add(stream, &one, &mut two, 0.5).unwrap();
                assert_eq!(value_of(stream, &two), Ok(value + 0.5));
                assert_eq!(stream.fault(), None);
            }
        });
        for stream in pool.snapshot().unwrap().made {
            assert_eq!(stream.fault, None, "it was recovered");
            assert_eq!(stream.past_faults, usize::from(stream.index == 7));
        }
        assert_all_returned(&pool);
    });
}

fn meet_the_fault(stream: &Stream, one: &Buffer, two: &mut Buffer) {
    add(stream, one, two, 0.5).unwrap();
    assert!(is_fault(&stream.synchronize()));
    let fault = stream.fault().unwrap();
    assert_eq!((fault.queue(), fault.op()), ("stream 7", OpKind::Map));
    assert!(is_poisoned(&add(stream, one, two, 0.5)));
    assert!(is_poisoned(&stream.encode(Op::Nop)));
    stream.recover().unwrap();
    assert_eq!((stream.fault(), stream.synchronize()), (None, Ok(())));
    // What was never written stays unusable, what was written before the fault is good.
    assert!(is_dependency(&value_of(stream, two)));
    assert!(value_of(stream, one).is_ok());
    fill(stream, two, 1.0).unwrap();
    assert_eq!(value_of(stream, two), Ok(1.0));
}
