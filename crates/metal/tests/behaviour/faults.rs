//! A buffer that Metal reports as failed reaches those whose work it hit, and nobody else.

#[path = "../../../runtime/tests/gpu/faults.rs"]
mod one_of_many;

use std::sync::mpsc::channel;

use streampool_device::{Device, Error as DeviceError, Flush, Op as DeviceOp, QueueOptions};
use streampool_metal::MetalDevice;
use streampool_metal_sim::fail_next_somewhere;
use streampool_runtime::{Error, OpKind, Stream};

use crate::common::{self, PAGE_FAULT, Stage, device, fill_op, metal_label, queue};
use crate::gpu::*;
use one_of_many::{is_dependency, is_fault, is_poisoned};

/// What is in every message of such a fault.
const FAULT: &str = "imitated";

/// Makes the next command of `stream` fail, but nothing before it, which would be in the same buffer.
fn fail_next(device: &MetalDevice, stream: &Stream) {
    stream.synchronize().unwrap();
    common::fail_next(device, &format!("stream {}", stream.index()));
}

#[test]
fn who_waits_for_a_buffer_that_fails_is_released() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
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
    within(FOREVER, || {
        let memory = device
            .allocate(64, streampool_device::Space::Staging)
            .unwrap();
        let mut other = queue(&device, "other");
        let mut queue = queue(&device, "failing");
        let (event, back) = (
            device.create_event(false).unwrap(),
            device.create_event(false).unwrap(),
        );
        // SAFETY: the memory is freed at the end, when all is over, and touched by one queue at a time.
        unsafe {
            queue.encode(&fill_op(&memory, 1.0)).unwrap();
            let good = queue.flush(Flush::ForWaiter).unwrap();
            queue.progress().wait(good, None).unwrap();
            common::fail_next(&*device, "failing");
            let failed = queue.encode(&fill_op(&memory, 2.0)).unwrap();
            // Sealed pages pile up behind the buffer that fails: records, waits, and a handler.
            let (send, receive) = channel();
            let mut last = failed;
            for _ in 0..5 {
                let more = queue
                    .record(&*event)
                    .and_then(|_| other.wait(&*event))
                    .and_then(|_| other.record(&*back))
                    .and_then(|_| queue.wait(&*back))
                    .and_then(|_| queue.encode(&fill_op(&memory, 3.0)));
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
                assert_eq!(receive.recv_timeout(FOREVER), Ok(Err(fault)));
            }
            let end = other.flush(Flush::ForWaiter).unwrap();
            assert_eq!(other.progress().wait(end, None), Ok(()), "it is released");
            queue.recover().unwrap();
            let host = device.host_address(&memory).unwrap().cast::<f32>();
            assert_eq!(host.read(), 1.0, "nothing from the fault on was executed");
            queue.encode(&fill_op(&memory, 4.0)).unwrap();
            let end = queue.flush(Flush::ForWaiter).unwrap();
            queue.progress().wait(end, None).unwrap();
            assert_eq!(host.read(), 4.0);
            device.free(memory);
        }
    });
}

#[test]
fn a_device_that_is_removed_takes_nothing_any_more() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
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

/// How the next command of a stream ends whose buffer fails with this code, and what the stream says of the one after it.
fn fail_with(code: isize) -> (Result<(), DeviceError>, Result<u64, DeviceError>) {
    let _stage = Stage::new();
    let device = device().unwrap();
    within(FOREVER, || {
        let mut queue = common::queue(&device, "failing");
        streampool_metal_sim::fail_next(&metal_label(&*device, "failing"), code);
        // SAFETY: neither touches memory.
        unsafe {
            let failed = queue.encode(&DeviceOp::Nop).unwrap();
            let outcome = queue.progress().wait(failed, None);
            let recovered = queue.recover();
            (
                outcome,
                recovered.and_then(|()| queue.encode(&DeviceOp::Nop)),
            )
        }
    })
}

/// `MTLCommandBufferErrorAccessRevoked` and `MTLCommandBufferErrorNotPermitted`.
#[test]
fn a_system_that_ignores_what_is_committed_is_a_lost_device() {
    for code in [4, 7] {
        let (outcome, after) = fail_with(code);
        assert!(
            matches!(outcome, Err(DeviceError::DeviceLost(_))),
            "{outcome:?}"
        );
        assert!(
            matches!(after, Err(DeviceError::DeviceLost(_))),
            "{after:?}"
        );
    }
}

/// `MTLCommandBufferErrorTimeout`, and the code of a GPU that a display waited for.
#[test]
fn who_kept_the_gpu_for_too_long_is_told_to_divide_the_work() {
    for code in [2, 14] {
        let (outcome, after) = fail_with(code);
        let Err(DeviceError::Fault(fault)) = outcome else {
            panic!("{outcome:?}");
        };
        let told = fault.to_string();
        assert!(told.contains(FAULT) && told.contains("divide it"), "{told}");
        assert!(after.is_ok(), "{after:?}");
    }
}

#[test]
fn a_victim_of_another_streams_fault_reports_one_and_recovers() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    stage.0.victims();
    within(FOREVER, || {
        let pool = pool(&device, 8);
        let (guilty, others) = (pool.stream(1).unwrap(), [2, 3, 4, 5]);
        let others = others.map(|index| pool.stream(index).unwrap());
        let mut victims = 0;
        while victims == 0 {
            let mut results: Vec<_> = others.iter().map(|stream| filled(stream, 1.0)).collect();
            let mut spoilt = filled(guilty, 1.0);
            others
                .iter()
                .for_each(|stream| stream.synchronize().unwrap());
            fail_next(&device, guilty);
            stage.0.pause();
            for (stream, result) in others.iter().zip(&mut results) {
                fill(stream, result, 2.0).unwrap();
                stream.flush().unwrap();
            }
            fill(guilty, &mut spoilt, 2.0).unwrap();
            guilty.flush().unwrap();
            stage.0.resume();
            assert!(is_fault(&guilty.synchronize()));
            guilty.recover().unwrap();
            for (stream, result) in others.iter().zip(&mut results) {
                let outcome = stream.synchronize();
                if outcome.is_ok() {
                    assert_eq!(value_of(stream, result), Ok(2.0));
                    continue;
                }
                victims += 1;
                assert!(is_fault(&outcome), "{outcome:?}");
                stream.recover().unwrap();
                fill(stream, result, 3.0).unwrap();
                assert_eq!(value_of(stream, result), Ok(3.0));
            }
        }
    });
}

#[test]
fn a_kernel_that_does_not_compile_is_an_error_with_the_log_and_can_be_tried_again() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
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

#[test]
fn a_kernel_is_compiled_once_more_where_the_compiler_went_away() {
    const GONE: &str = "Unable to reach MTLCompilerService. The process is unavailable";
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let one = filled(stream, 1.0);
        let mut two = buffer(stream);
        stage.0.fail_compile(GONE);
        stage.0.fail_compile(GONE);
        let outcome = add(stream, &one, &mut two, 1.0);
        assert!(
            matches!(&outcome, Err(Error::Device(DeviceError::Compile { log, .. })) if log.contains(GONE)),
            "{outcome:?}"
        );
        stage.0.fail_compile(GONE);
        add(stream, &one, &mut two, 1.0).unwrap();
        assert_eq!(value_of(stream, &two), Ok(2.0));
    });
}
