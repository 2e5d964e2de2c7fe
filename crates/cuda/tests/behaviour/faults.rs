//! A launch that the driver refuses reaches those whose work it hit, and nobody else. Nor does a trace that panics.

#[path = "../../../runtime/tests/gpu/faults.rs"]
mod one_of_many;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use streampool_cuda::CudaDevice;
use streampool_device::{Device, Interval, Trace};
use streampool_runtime::{Op, Stream};

use crate::gpu::*;
use one_of_many::{is_dependency, is_fault};

/// What is in every message of such a fault.
const FAULT: &str = "cuLaunchKernel";

/// Makes the next command of `stream` fail.
fn fail_next(device: &CudaDevice, stream: &Stream) {
    device.refuse_next(stream.index().into());
}

#[test]
fn who_used_the_results_is_told_also_at_second_hand() {
    with_device(|device| {
        let pool = pool(&device, 8);
        let stream = |index| pool.stream(index).unwrap();
        let (faulty, second, third, unrelated) = (stream(1), stream(2), stream(3), stream(4));
        keep_busy(faulty);
        let good = filled(faulty, 1.0);
        let mut own = filled(unrelated, 5.0);
        let (mut a, mut b, mut c) = (buffer(faulty), buffer(second), buffer(third));
        fail_next(&device, faulty);
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
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        for round in 0..20 {
            keep_busy(stream);
            let (send, receive) = channel();
            stream
                .on_complete(move |outcome| send.send(outcome).unwrap())
                .unwrap();
            fail_next(&device, stream);
            stream.encode(Op::Nop).unwrap();
            assert_eq!(receive.recv_timeout(FOREVER), Ok(Ok(())));
            assert!(is_fault(&pool.synchronize()));
            stream.recover().unwrap();
            let buffer = filled(stream, round as f32);
            assert_eq!(value_of(stream, &buffer), Ok(round as f32));
        }
    });
}

/// A trace that panics at each op.
struct Bomb;

impl Trace for Bomb {
    fn op(&self, _interval: Interval) {
        panic!("no more of this");
    }
}

#[test]
fn handlers_are_called_though_a_trace_panics() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        device.set_trace(Some(Arc::new(Bomb)));
        for _ in 0..3 {
            let _buffer = filled(stream, 1.0);
            let (sender, receiver) = channel();
            let tell = move |outcome: Result<(), _>| sender.send(outcome.is_ok()).unwrap();
            stream.on_complete(tell).unwrap();
            assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
        }
        device.set_trace(None);
    });
}
