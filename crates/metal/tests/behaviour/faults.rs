//! A buffer that Metal reports as failed reaches those whose work it hit, and nobody else.

use std::sync::Barrier;
use std::sync::mpsc::channel;

use streampool_device::{Device, Error as DeviceError, Flush, Op as DeviceOp, QueueOptions};
use streampool_metal_sim::fail_next_somewhere;
use streampool_runtime::{Buffer, Error, Op, OpKind, Stream};

use crate::common::{PAGE_FAULT, Stage, device, fail_next, metal_label};
use crate::work::*;
use crate::{PATIENCE, pool};

fn is_fault<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Device(DeviceError::Fault(fault)))
        if fault.message().contains("imitated"))
}

fn is_poisoned<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Device(DeviceError::Poisoned(_))))
}

fn is_dependency<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Dependency(fault)) if fault.message().contains("imitated"))
}

#[test]
fn a_fault_on_one_of_thirty_one_streams_reaches_its_callers_only() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
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
                    stream.synchronize().unwrap();
                    fail_next(&*device, "stream 7");
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
fn who_waits_on_the_gpu_for_a_buffer_that_fails_is_released() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 8);
        let (faulty, second) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        for round in 0..rounds(50) {
            let good = filled(faulty, 1.0);
            faulty.synchronize().unwrap();
            let (mut spoilt, mut used) = (buffer(faulty), buffer(second));
            let mut own = filled(second, 5.0);
            // With an error anywhere in the buffer, also after its signal.
            fail_next_somewhere(&metal_label(&*device, "stream 1"), PAGE_FAULT);
            let encoded = add(faulty, &good, &mut spoilt, 1.0);
            assert!(encoded.is_ok() || is_poisoned(&encoded), "{encoded:?}");
            if encoded.is_ok() {
                let encoded = add(second, &spoilt, &mut used, 1.0);
                assert!(is_dependency(&encoded.and(second.synchronize())));
            }
            fill(second, &mut own, round as f32).unwrap();
            assert_eq!(value_of(second, &own), Ok(round as f32));
            assert!(is_fault(&faulty.synchronize()));
            faulty.recover().unwrap();
        }
    });
}

#[test]
fn nothing_after_the_fault_is_executed_and_all_of_it_is_over() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let memory = device
            .allocate(64, streampool_device::Space::Staging)
            .unwrap();
        let fill = |value: f32| {
            let layout = streampool_device::Layout::contiguous(&[16]).unwrap();
            let dtype = streampool_device::DType::F32;
            DeviceOp::Fill {
                dst: streampool_device::View::new(memory.span(), dtype, layout).unwrap(),
                value: value.into(),
            }
        };
        let options = |label: &str| QueueOptions {
            label: label.to_owned(),
            ..QueueOptions::default()
        };
        let mut other = device.create_queue(options("other")).unwrap();
        let mut queue = device.create_queue(options("failing")).unwrap();
        let (event, back) = (
            device.create_event(false).unwrap(),
            device.create_event(false).unwrap(),
        );
        // SAFETY: the memory is freed at the end, when all is over, and touched by one queue at a time.
        unsafe {
            queue.encode(&fill(1.0)).unwrap();
            let good = queue.flush(Flush::ForWaiter).unwrap();
            queue.progress().wait(good, None).unwrap();
            fail_next(&*device, "failing");
            let failed = queue.encode(&fill(2.0)).unwrap();
            // Sealed pages pile up behind the buffer that fails: records, waits, and a handler.
            let (send, receive) = channel();
            let mut last = failed;
            for _ in 0..5 {
                let more = queue
                    .record(&*event)
                    .and_then(|_| other.wait(&*event))
                    .and_then(|_| other.record(&*back))
                    .and_then(|_| queue.wait(&*back))
                    .and_then(|_| queue.encode(&fill(3.0)));
                match more {
                    Ok(tick) => last = tick,
                    Err(error) => assert!(matches!(error, DeviceError::Poisoned(_)), "{error}"),
                }
            }
            let asked = queue.on_complete(Box::new(move |outcome| send.send(outcome).unwrap()));
            queue.flush(Flush::Start).unwrap();
            let outcome = queue.progress().wait(last, None);
            let Err(DeviceError::Fault(fault)) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!((fault.tick(), fault.op()), (failed, OpKind::Fill));
            if asked.is_ok() {
                assert_eq!(receive.recv_timeout(PATIENCE), Ok(Err(fault)));
            }
            let end = other.flush(Flush::ForWaiter).unwrap();
            assert_eq!(other.progress().wait(end, None), Ok(()), "it is released");
            queue.recover().unwrap();
            let host = device.host_address(&memory).unwrap().cast::<f32>();
            assert_eq!(host.read(), 1.0, "nothing from the fault on was executed");
            queue.encode(&fill(4.0)).unwrap();
            let end = queue.flush(Flush::ForWaiter).unwrap();
            queue.progress().wait(end, None).unwrap();
            assert_eq!(host.read(), 4.0);
            device.free(memory);
        }
    });
}

#[test]
fn a_device_that_is_removed_ends_every_wait() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let mut queues: Vec<_> = (0..4)
            .map(|_| device.create_queue(QueueOptions::default()).unwrap())
            .collect();
        stage.0.lose_device();
        for queue in &mut queues {
            // SAFETY: it touches no memory.
            let tick = unsafe { queue.encode(&DeviceOp::Nop) };
            if let Ok(tick) = tick {
                let outcome = queue.progress().wait(tick, None);
                assert!(
                    matches!(outcome, Err(DeviceError::DeviceLost(_))),
                    "{outcome:?}"
                );
            }
            // SAFETY: as above.
            let refused = unsafe { queue.encode(&DeviceOp::Nop) };
            assert!(
                matches!(refused, Err(DeviceError::DeviceLost(_))),
                "{refused:?}"
            );
        }
        let refused = device.allocate(64, streampool_device::Space::Device);
        assert!(
            matches!(refused, Err(DeviceError::DeviceLost(_))),
            "{refused:?}"
        );
    });
}

#[test]
fn a_kernel_that_does_not_compile_is_an_error_with_the_log_and_can_be_tried_again() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let one = filled(stream, 1.0);
        let mut two = buffer(stream);
        stage.0.fail_compile("a brace is missing");
        let outcome = add(stream, &one, &mut two, 1.0);
        assert!(
            matches!(&outcome, Err(Error::Device(DeviceError::Compile { log, .. })) if log.contains("a brace is missing")),
            "{outcome:?}"
        );
        add(stream, &one, &mut two, 1.0).unwrap();
        assert_eq!(value_of(stream, &two), Ok(2.0));
    });
}
