//! A launch that the driver refuses reaches those whose work it hit, and nobody else.

use std::sync::Barrier;
use std::sync::mpsc::channel;

use streampool_device::Error as DeviceError;
use streampool_runtime::{Buffer, Error, Op, OpKind, Stream};

use crate::common::device;
use crate::work::*;
use crate::{PATIENCE, keep_busy, pool};

fn is_fault<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Device(DeviceError::Fault(fault)))
        if fault.message().contains("cuLaunchKernel"))
}

fn is_poisoned<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Device(DeviceError::Poisoned(_))))
}

fn is_dependency<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Dependency(fault)) if fault.message().contains("cuLaunchKernel"))
}

#[test]
fn a_fault_on_one_of_thirty_one_streams_reaches_its_callers_only() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 32);
        let all_here = Barrier::new(31);
        on_threads(31, |number| {
            let stream = pool.current().unwrap();
            let unlucky = stream.index() == 7;
            all_here.wait();
            for round in 0..50 {
                let value = (number * 100 + round) as f32;
                let one = filled(stream, value);
                let mut two = buffer(stream);
                if unlucky && round == 0 {
                    device.refuse_next(7);
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

#[test]
fn who_used_the_results_is_told_also_at_second_hand() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 8);
        let stream = |index| pool.stream(index).unwrap();
        let (faulty, second, third, unrelated) = (stream(1), stream(2), stream(3), stream(4));
        keep_busy(faulty);
        let good = filled(faulty, 1.0);
        let mut own = filled(unrelated, 5.0);
        let (mut a, mut b, mut c) = (buffer(faulty), buffer(second), buffer(third));
        device.refuse_next(1);
        add(faulty, &good, &mut a, 1.0).unwrap();
        // Whoever uses it is told at once if the fault is known by then, else by waiting.
        let told =
            |stream: &Stream, encoded| is_dependency(&Result::and(encoded, stream.synchronize()));
        assert!(told(second, add(second, &a, &mut b, 1.0)));
        let outcome = add(third, &b, &mut c, 1.0).and(third.synchronize());
        assert!(outcome.is_ok() || is_dependency(&outcome), "{outcome:?}");
        // Reads what the faulty stream wrote before the fault.
        add(unrelated, &good, &mut own, 1.0).unwrap();
        assert_eq!(value_of(unrelated, &own), Ok(2.0));
        assert!(is_fault(&faulty.synchronize()));
        faulty.recover().unwrap();
        // Written anew they are good, on whatever stream.
        for spoilt in [&mut a, &mut b, &mut c] {
            fill(stream(6), spoilt, 9.0).unwrap();
            assert_eq!(value_of(stream(5), spoilt), Ok(9.0));
        }
    });
}

#[test]
fn a_handler_before_the_fault_is_called_and_its_stream_recovers() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        for round in 0..20 {
            keep_busy(stream);
            let (send, receive) = channel();
            stream
                .on_complete(move |outcome| send.send(outcome).unwrap())
                .unwrap();
            device.refuse_next(1);
            stream.encode(Op::Nop).unwrap();
            assert_eq!(receive.recv_timeout(PATIENCE), Ok(Ok(())));
            assert!(is_fault(&pool.synchronize()));
            stream.recover().unwrap();
            let buffer = filled(stream, round as f32);
            assert_eq!(value_of(stream, &buffer), Ok(round as f32));
        }
    });
}
